"""Checks that brokers can be made to apply every change late. `make late-brokers` runs it.

    make late-brokers
    THALWEG_TEST_LATE_BROKERS=1 .venv/bin/pytest tests/admin

The second line finds tests that do not wait until a broker applies a change. Byteman adds waits to
methods of the brokers, by the rules in tools/kafka/late.btm. If a new version of Kafka has other
names for its classes, Byteman ignores a rule without an error.
"""

from __future__ import annotations

import os
import time

from tests.support.kafka.cluster import VERSIONS, RealKafka

# The shortest wait in the rules.
LATE_S = 0.7


def main() -> None:
    """Raises an error if a broker knows a new topic at once."""
    os.environ["THALWEG_TEST_LATE_BROKERS"] = "1"
    for version in VERSIONS:
        with RealKafka(version) as kafka:
            begin = time.monotonic()
            kafka.create_topic("t")
            took = time.monotonic() - begin
        if took < LATE_S:
            raise RuntimeError(
                f"Kafka {version} knew a new topic after {took:.2f} s, not after at least"
                f" {LATE_S} s: its classes have changed. Correct tools/kafka/late.btm"
            )
        print(f"Kafka {version} applies changes late: it knew a new topic after {took:.2f} s")


if __name__ == "__main__":
    main()
