"""Fixtures of the admin client's unit tests."""

from typing import Any

import pytest


@pytest.fixture
def admin(fake) -> Any:
    client = fake.admin.KafkaAdminClient(
        bootstrap_servers="a:1",
        retry_backoff_ms=1,
        retry_backoff_max_ms=1,
        default_api_timeout_ms=50,
    )
    yield client
    client.close()
