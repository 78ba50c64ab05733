"""What sessions and ACLs cost a producer: `python -m benches.security_costs`.

    one process with a producer for each ──> an embedded broker with SCRAM
                                             the same, and sessions of 3 s (KIP-368)
                                             the same, and 1,000 ACLs

The producers send in turn, and each is compared with the first one in the same round.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from thalweg import EmbeddedBroker, KafkaProducer

TOPIC, PARTITIONS = "costs", 4
VALUES = [b"x" * 100] * 10_000
SESSION_MS = 3000
ACLS = 1000
# No client reads the records, so the broker keeps few of them in memory.
_FORGETFUL = {
    "log.retention.bytes": str(64 << 20),
    "log.segment.bytes": str(16 << 20),
    "log.retention.check.interval.ms": "200",
}
USER, PASSWORD = "alice", "alice-secret"


def started(stack: ExitStack, **options: Any) -> EmbeddedBroker:
    """Starts a broker whose clients log in with SCRAM."""
    broker = stack.enter_context(
        EmbeddedBroker(
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanisms=["SCRAM-SHA-512"],
            users={USER: PASSWORD},
            configs={**_FORGETFUL, **options.pop("configs", {})},
            **options,
        )
    )
    broker.create_topic(TOPIC, PARTITIONS)
    return broker


def with_acls(broker: EmbeddedBroker, count: int) -> EmbeddedBroker:
    """Creates the rules of other users, and those that the producer needs."""
    for number in range(count):
        broker.allow(f"user-{number % 100}", "WRITE", topic=TOPIC if number % 2 else f"t{number}")
    broker.allow(USER, "WRITE", topic=TOPIC)
    return broker


def rate(producer: KafkaProducer[Any, Any], seconds: float) -> float:
    """Sends for some time, and returns the records per second."""
    start, sent = time.perf_counter(), 0
    while time.perf_counter() < start + seconds:
        producer.send_many(TOPIC, VALUES)
        sent += len(VALUES)
    producer.flush()
    return sent / (time.perf_counter() - start)


def rates(rounds: int, seconds: float, say: Callable[[str], None] = print) -> dict[str, float]:
    """Returns the median ratios of the rates to that without sessions and ACLs."""
    with ExitStack() as stack:
        brokers = {
            "SCRAM": started(stack),
            f"sessions of {SESSION_MS // 1000} s": started(
                stack, configs={"connections.max.reauth.ms": str(SESSION_MS)}
            ),
            f"{ACLS:,} ACLs": with_acls(started(stack, authorizer=True), ACLS),
        }
        producers = {
            name: stack.enter_context(KafkaProducer(**broker.client_config(USER)))
            for name, broker in brokers.items()
        }
        for each in producers.values():
            rate(each, seconds / 4)
        found: dict[str, list[float]] = {name: [] for name in producers}
        for number in range(1, rounds + 1):
            for name, producer in producers.items():
                found[name].append(rate(producer, seconds))
                say(f"  round {number}: {name:18}{found[name][-1]:>14,.0f} records/s")
    first, *others = found.values()
    of_first = [[ours / base for ours, base in zip(each, first, strict=True)] for each in others]
    return dict(zip(list(found)[1:], map(statistics.median, of_first), strict=True))


def main() -> None:
    """Runs everything and prints its figures."""
    parser = argparse.ArgumentParser(prog="python -m benches.security_costs", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=4, help="for each producer and round (4)")
    given = parser.parse_args()
    for name, ratio in rates(given.rounds, given.seconds).items():
        print(f"{name:18}{ratio:>8.3f} of the rate without")


if __name__ == "__main__":
    main()
