"""Provides the brokers that integration tests run on, with one small interface.

    broker.bootstrap_servers
    topic = broker.create_topic("orders", 4)

A broker starts with the first test that needs it and serves the complete session. The processes of
`pytest -n` share the real brokers, and each has its own embedded broker. Every test creates its own
topics, and its groups and transactions have names of their own. A test that kills or restarts nodes
starts its own cluster. A file whose tests need other options starts its own broker (`configured`).
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.kafka.cluster import RealKafka, log_tail
from tests.support.runs.sharing import Sharing, Started
from tests.support.waiting import wait_until
from tests.support.wire import Wire, WireError

KINDS = ("embedded", "kafka-4.3", "kafka-3.9")
# The kinds that support groups of KIP-848 and transactions of KIP-890 by default.
MODERN_KINDS = ("embedded", "kafka-4.3")
# Each process has its own numbers. They have the same length, so no name begins with another one.
_PROCESS = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_numbers = itertools.count(10_000_000 + _PROCESS * 100_000)


@dataclass
class Broker:
    """A running broker or cluster, embedded or real.

    Attributes:
        kind: one of `KINDS`.
        bootstrap_servers: its plaintext listeners, as `host:port,...`.
        logs: returns what the brokers logged last, for the report of a failure.
        topics: the topics created here since the last `forget_embedded_topics`.
    """

    kind: str
    bootstrap_servers: str
    logs: Callable[[], str] = field(default=lambda: "", repr=False)
    topics: list[str] = field(default_factory=list, repr=False)

    @property
    def embedded(self) -> bool:
        return self.kind == "embedded"

    @property
    def wire(self) -> Wire:
        """The harness's own client, which shares no code with the library."""
        return Wire(self.bootstrap_servers)

    def unused_name(self, prefix: str = "t") -> str:
        """Returns a name that no topic, group or transaction of this session has."""
        return f"{prefix}-{next(_numbers)}"

    def create_topic(
        self,
        prefix: str = "t",
        num_partitions: int = 1,
        *,
        configs: Mapping[str, str] | None = None,
    ) -> str:
        """Creates a topic with a new name and returns the name.

        The topic keeps records of any timestamp, unless `configs` says otherwise.
        """
        name = self.unused_name(prefix)
        self.wire.create_topic(
            name, num_partitions, configs={"retention.ms": "-1", **(configs or {})}
        )
        self.topics.append(name)
        return name

    def add_partitions(self, topic: str, total: int) -> None:
        """Adds partitions to a topic, and waits until the broker knows them."""
        from thalweg import KafkaAdminClient

        with KafkaAdminClient(bootstrap_servers=self.bootstrap_servers) as admin:
            admin.create_partitions({topic: total})
        wait_until(
            lambda: len(self.wire.metadata(topic).topics.get(topic, ())) == total,
            what=f"{total} partitions of {topic}",
        )


@contextmanager
def configured(kind: str, configs: Mapping[str, str]) -> Iterator[Broker]:
    """Starts a broker with its own options and stops it at the end of the block."""
    if kind == "embedded":
        from thalweg import EmbeddedBroker

        with EmbeddedBroker(configs=configs) as embedded:
            yield Broker(kind, embedded.bootstrap_servers)
    else:
        with RealKafka(kind.removeprefix("kafka-"), configs=configs) as kafka:
            yield Broker(kind, kafka.bootstrap_servers, kafka.logs)


class Brokers:
    """Starts brokers on demand, keeps them, and stops them all at the end."""

    def __init__(self, shared: Sharing) -> None:
        self._shared = shared
        self._running: dict[str, Broker] = {}
        self._closers: list[Callable[[], None]] = []

    def get(self, kind: str) -> Broker:
        """Returns the session's broker of this kind, and starts it if needed."""
        if kind not in self._running:
            self._running[kind] = self._start(kind)
        return self._running[kind]

    def secure_kafka(self) -> RealKafka:
        """Returns the session's real Kafka 4.3 with listeners for TLS, SASL PLAIN and both."""
        if "secure" not in self._running:
            kafka = self._secure = RealKafka("4.3", secure=True)
            self._closers.append(kafka.close)
            kafka.start()
            self._running["secure"] = Broker("kafka-4.3", kafka.bootstrap_servers, kafka.logs)
        return self._secure

    def forget_embedded_topics(self) -> None:
        """Deletes the embedded broker's topics of finished tests, to free this process's memory."""
        embedded = self._running.get("embedded")
        while embedded is not None and embedded.topics:
            with suppress(WireError):  # the test deleted it
                embedded.wire.delete_topic(embedded.topics.pop())

    def close(self) -> None:
        """Stops what this process does not share."""
        self._running.clear()
        while self._closers:
            self._closers.pop()()

    def _start(self, kind: str) -> Broker:
        if kind == "embedded":
            from thalweg import EmbeddedBroker

            embedded = EmbeddedBroker(
                configs={
                    "group.consumer.heartbeat.interval.ms": "500",
                    "group.consumer.min.heartbeat.interval.ms": "500",
                    "group.consumer.min.session.timeout.ms": "6000",
                    "group.consumer.session.timeout.ms": "6000",
                }
            )
            embedded.start()
            self._closers.append(embedded.close)
            return Broker(kind, embedded.bootstrap_servers)
        found = json.loads(self._shared.join(kind, lambda: _start_kafka(kind)))
        return Broker(kind, found["bootstrap"], lambda: log_tail(Path(found["log"])))


def _start_kafka(kind: str) -> Started:
    kafka = RealKafka(kind.removeprefix("kafka-"))
    try:
        kafka.start()
    except BaseException:
        kafka.close()
        raise
    [node] = kafka.nodes
    found = {"bootstrap": kafka.bootstrap_servers, "log": str(node.log)}
    return json.dumps(found), kafka.close
