"""A realm, a broker in it, and a client without tickets."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.support.identity.kerberos import Realm
from tests.support.kafka.cluster import VERSIONS, RealKafka

SESSION_S = 2


@pytest.fixture(autouse=True, scope="session")
def linux() -> None:
    if sys.platform != "linux":
        pytest.skip("GSSAPI works on Linux only")


@pytest.fixture(scope="module")
def realm(linux: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with Realm(tmp_path_factory.mktemp("realm")) as started:
        started.ticket("alice", started.folder / "alice.cache")
        yield started


@pytest.fixture(scope="module", params=[f"kafka-{version}" for version in VERSIONS])
def kafka(request: pytest.FixtureRequest, realm: Realm) -> Iterator[RealKafka]:
    """A node of Kafka 4.3 and one of 3.9. Sessions end soon on its listener with TLS."""
    version = request.param.removeprefix("kafka-")
    ends = {"listener.name.sasl_ssl.connections.max.reauth.ms": str(SESSION_S * 1000)}
    with RealKafka(version, heap="512m", **realm.broker(version, **ends)) as started:
        yield started


@pytest.fixture(autouse=True)
def no_tickets(realm: Realm, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library finds the realm, but no ticket. A test gives it a cache or a keytab."""
    for name, value in realm.environment().items():
        monkeypatch.setenv(name, value)
