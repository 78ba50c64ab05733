"""Checks that the rules in tools/kafka/late.btm make brokers apply changes late.

    make late-brokers
    THALWEG_TEST_LATE_BROKERS=1 .venv/bin/pytest tests/admin

The first command runs this module. The second command finds tests that do not wait until a broker
has applied a change. Byteman adds waits to methods of the brokers. If a new version of Kafka
renames one of their classes, Byteman ignores its rule without an error. So this module measures two
waits.
"""

from __future__ import annotations

import os
import time

from tests.support.kafka.cluster import VERSIONS, RealKafka
from tests.support.waiting import wait_until
from thalweg import KafkaAdminClient
from thalweg.admin import ConfigResource

# The waits of two rules: until a broker knows a topic, and until it lists a config.
TOPIC_S = 0.7
CONFIG_S = 1.5


def main() -> None:
    """Raises an error if brokers do not wait as the rules say."""
    os.environ["THALWEG_TEST_LATE_BROKERS"] = "1"
    for version in VERSIONS:
        with RealKafka(version) as kafka:
            began = time.monotonic()
            kafka.create_topic("t")
            _check(version, "a topic", time.monotonic() - began, TOPIC_S)
            began = time.monotonic()
            _set_config(kafka)
            _check(version, "a config", time.monotonic() - began, CONFIG_S)


def _set_config(kafka: RealKafka) -> None:
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.alter_configs([ConfigResource("client_metrics", "m", {"interval.ms": "60000"})])
        wait_until(lambda: "m" in admin.list_config_resources().get("client_metrics", []))


def _check(version: str, what: str, took: float, expected: float) -> None:
    # The time in the log is rounded, and its clock is another one.
    if took < expected - 0.1:
        raise RuntimeError(
            f"Kafka {version} applied {what} after {took:.2f} s, but tools/kafka/late.btm must"
            f" delay it by {expected} s. Kafka's classes have probably changed: correct the rules"
        )
    print(f"Kafka {version} applied {what} after {took:.2f} s")


if __name__ == "__main__":
    main()
