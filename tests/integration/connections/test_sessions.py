"""SASL sessions of real Kafka that end every few seconds (KIP-368): applications notice nothing.

The broker counts the connections that it closed because a request came after the end of a session
(`expired-connections-killed-count`). The tests read the number over JMX.
"""

from __future__ import annotations

import itertools
import logging
import re
import socket
import struct
import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.integration.support.aio import run
from tests.integration.support.clients import within
from tests.integration.support.load import Load, Numbers
from tests.support import java
from tests.support.gil import hold_the_gil
from tests.support.kafka.cluster import USERS, VERSIONS, RealKafka
from tests.support.oauth import oauth_options, token
from tests.support.ports import free_port
from tests.support.runs.selection import one_real_broker
from tests.support.scale import scaled
from tests.support.scram import add_user
from tests.support.waiting import wait_until
from thalweg import (
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)
from thalweg.admin import UserScramCredentialDeletion
from thalweg.aio import AIOKafkaConsumer, AIOKafkaProducer
from thalweg.errors import SaslAuthenticationFailedError

SESSION_S = 3
TOKEN_LIFE_S = 5
LOAD_S = scaled(60, minimum=10)
PARTITIONS = 3
# Kafka's own sum of these, `ExpiredConnectionsKilledCount`, is always 0: it is over no listeners.
LISTENERS = "kafka.server:type=socket-server-metrics,*"
KILLED = "expired-connections-killed-count"


class RealKafkaWithJmx(RealKafka):
    """A node whose metrics can be read, and whose sessions end after `SESSION_S` seconds."""

    def __init__(self, version: str) -> None:
        self.jmx_port = free_port()
        given = {
            "java.rmi.server.hostname": "127.0.0.1",
            "com.sun.management.jmxremote.host": "127.0.0.1",
            "com.sun.management.jmxremote.port": self.jmx_port,
            "com.sun.management.jmxremote.rmi.port": self.jmx_port,
            "com.sun.management.jmxremote.ssl": "false",
            "com.sun.management.jmxremote.authenticate": "false",
        }
        properties = [f"-D{name}={value}" for name, value in given.items()]
        super().__init__(
            version,
            secure=True,
            configs={"connections.max.reauth.ms": str(SESSION_S * 1000)},
            jvm_options=[*java.quick_start(version), *properties],
            heap="512m",
        )

    def killed(self) -> int:
        """Returns the number of connections closed because their session had ended."""
        url = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{self.jmx_port}/jmxrmi"
        printed = self.tool(
            "org.apache.kafka.tools.JmxTool",
            *("--jmx-url", url, "--object-name", LISTENERS, "--attributes", KILLED),
            *("--one-time", "--report-format", "properties"),
        )
        found = re.findall(rf"listener=SASL_\w+,.*{KILLED}=([\d.]+)", printed)
        assert found, printed
        return round(sum(map(float, found)))


@pytest.fixture(scope="module", params=[f"kafka-{version}" for version in VERSIONS])
def kafka(request: pytest.FixtureRequest) -> Iterator[RealKafkaWithJmx]:
    """A node of Kafka 4.3 and one of 3.9."""
    with RealKafkaWithJmx(request.param.removeprefix("kafka-")) as started:
        assert isinstance(started, RealKafkaWithJmx)
        yield started


def short_token() -> str:
    """Returns a token that expires soon. The client reads the expiry from it."""
    return token(life_s=TOKEN_LIFE_S)


class Tokens:
    """A provider of kafka-python's shape."""

    def token(self) -> str:
        return short_token()


def scram(kafka: RealKafka) -> dict[str, Any]:
    """Returns the options of a client that logs in with SCRAM, as a new user."""
    return add_user(kafka, "session-user", "session-secret")


def oauth(kafka: RealKafka) -> dict[str, Any]:
    """Returns the options of a client whose tokens live for a few seconds."""
    return oauth_options(kafka, Tokens())


def renewals(metrics: Mapping[str, Mapping[str, float]], kind: str) -> float:
    """Returns how often a client has authenticated again."""
    return metrics[f"{kind}-metrics"]["successful-reauthentication-total"]


def failures(metrics: Mapping[str, Mapping[str, float]], kind: str) -> float:
    """Returns how many attempts to authenticate have failed: none, if the broker is in time."""
    group = metrics[f"{kind}-metrics"]
    return group["failed-reauthentication-total"] + group["failed-authentication-total"]


@pytest.mark.parametrize("login", [scram, oauth])
def test_a_group_and_transactions_lose_and_double_nothing(
    kafka: RealKafkaWithJmx,
    login: Callable[[RealKafka], dict[str, Any]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Scenario 64: records go through a group and transactions into another topic."""
    options = login(kafka)
    caplog.set_level(logging.WARNING, logger="thalweg")
    names = (f"{login.__name__}-{number}" for number in itertools.count())

    def nothing_is_noticed() -> bool:
        caplog.clear()
        killed = kafka.killed()
        renews = moves_everything(kafka, options, next(names))
        warnings = [each for each in caplog.records if each.name.startswith("thalweg")]
        return renews and kafka.killed() == killed and not warnings

    # Another try only if the broker or the machine paused for longer than the end of a session.
    wait_until(nothing_is_noticed, 90, what=lambda: f"a quiet run:\n{caplog.text}")


def moves_everything(kafka: RealKafkaWithJmx, options: dict[str, Any], name: str) -> bool:
    """Moves records for some sessions and checks them. Returns whether no renewal has failed."""
    source, sink = (f"{name}-{each}" for each in ("source", "sink"))
    for topic in (source, sink):
        kafka.create_topic(topic, PARTITIONS)
    quick: dict[str, Any] = {"metadata_max_age_ms": 1000}
    with (
        KafkaProducer(**options, **quick, linger_ms=5) as producer,
        KafkaProducer(**options, **quick, transactional_id=f"{sink}-tx") as transactional,
        KafkaConsumer(
            source,
            **options,
            **quick,
            group_id=f"{sink}-group",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):
        transactional.init_transactions()
        load = Load(producer, source, PARTITIONS, rate_per_s=2_000)
        clients: list[tuple[Any, str]] = [
            (producer, "producer"),
            (transactional, "producer"),
            (consumer, "consumer"),
        ]

        def renewed() -> float:
            return min(renewals(each.metrics(), kind) for each, kind in clients)

        with load:
            ends = time.monotonic() + LOAD_S
            limit = ends + 30
            moved = 0
            while time.monotonic() < ends or renewed() < LOAD_S // SESSION_S:
                assert time.monotonic() < limit, f"{renewed()} renewals"
                moved += move(consumer, transactional, sink)
        while moved < load.sent:
            moved += move(consumer, transactional, sink)
        assert moved == load.sent
        no_failure = not any(failures(each.metrics(), kind) for each, kind in clients)
        with KafkaConsumer(**options, auto_offset_reset="earliest") as reader:
            load.check(reader)
    committed: dict[str, Any] = {
        "auto_offset_reset": "earliest",
        "isolation_level": "read_committed",
    }
    with KafkaConsumer(**options, **committed) as reader:
        check_sink(reader, sink, load.sent)
    return no_failure


def move(consumer: KafkaConsumer[Any, Any], producer: KafkaProducer[Any, Any], sink: str) -> int:
    """Moves the next records into the sink, in one transaction with their offsets."""
    found = consumer.poll(200)
    count = sum(len(records) for records in found.values())
    if count:
        with producer.transaction():
            for where, records in found.items():
                values = [record.value for record in records]
                producer.send_many(sink, values, partition=where.partition)
            offsets = {
                where: OffsetAndMetadata(records[-1].offset + 1) for where, records in found.items()
            }
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
    return count


def check_sink(consumer: KafkaConsumer[Any, Any], sink: str, count: int) -> None:
    """Checks that the sink has each number once, in the order in which they were sent."""
    consumer.assign([TopicPartition(sink, each) for each in range(PARTITIONS)])
    log = Numbers()
    log.read(consumer, count, limit=60)
    log.read_more(consumer)
    for partition in range(PARTITIONS):
        log.check(partition, array("q", range(partition, count, PARTITIONS)))


def test_a_request_after_the_end_of_its_session_is_counted(kafka: RealKafkaWithJmx) -> None:
    """The number that the other tests compare is not always the same."""
    before = kafka.killed()
    name, secret = "alice", USERS["alice"]
    listener = kafka.bootstrap("SASL_PLAINTEXT").rpartition(":")
    with socket.create_connection((listener[0], int(listener[2])), timeout=20) as connection:
        ask(connection, 17, 1, text("PLAIN"))
        message = f"\0{name}\0{secret}".encode()
        ask(connection, 36, 1, struct.pack(">i", len(message)) + message)
        time.sleep(SESSION_S + 0.5)
        assert ask(connection, 3, 1, struct.pack(">i", 0)) == b""
    wait_until(lambda: kafka.killed() == before + 1, 60)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def ask(connection: socket.socket, api: int, version: int, body: bytes) -> bytes:
    """Sends a request. Returns its response, or b"" if the broker closes instead."""
    request = struct.pack(">hhi", api, version, 1) + text("raw") + body
    connection.sendall(struct.pack(">i", len(request)) + request)
    head = connection.recv(4)
    if not head:
        return b""
    (length,) = struct.unpack(">i", head)
    response = b""
    while len(response) < length:
        response += connection.recv(length - len(response))
    return response


def test_a_removed_user_is_an_error_after_the_end_of_the_session(kafka: RealKafkaWithJmx) -> None:
    """Scenario 66."""
    options = add_user(kafka, "removed", "removed-secret")
    deletion = UserScramCredentialDeletion("removed", "SCRAM-SHA-512")
    with (
        KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as operator,
        KafkaAdminClient(**options) as admin,
    ):
        assert admin.describe_cluster()
        assert operator.alter_user_scram_credentials([deletion]) == {"removed": None}

        seen: list[str] = []

        def is_refused() -> bool:
            try:
                admin.describe_cluster()
            except SaslAuthenticationFailedError as error:
                seen.append(str(error))
                return True
            return False

        with within(SESSION_S + 20):
            wait_until(is_refused, SESSION_S + 20, every=0.1)
        assert "SCRAM-SHA-512 as user 'removed'" in seen[0]
        add_user(kafka, "removed", "removed-secret")
        wait_until(lambda: not is_refused(), 40, every=0.1)


def test_a_member_renews_its_session_while_the_gil_is_held(kafka: RealKafkaWithJmx) -> None:
    """Scenario 64, for the heartbeats of a group, which the I/O thread sends."""
    options = add_user(kafka, "gil-holder", "gil-secret")
    kafka.create_topic("gil-sessions")
    with KafkaConsumer(
        "gil-sessions", **options, group_id="gil-group", heartbeat_interval_ms=200
    ) as consumer:
        wait_until(lambda: consumer.poll(100) is not None and consumer.assignment(), 60)
        rebalances = consumer.metrics()["consumer-coordinator-metrics"]["rebalance-total"]

        def renews_meanwhile() -> bool:
            before = renewals(consumer.metrics(), "consumer")
            hold_the_gil(2 * SESSION_S)
            return renewals(consumer.metrics(), "consumer") > before

        # If the broker pauses, sessions end and the connections are opened again.
        wait_until(renews_meanwhile, 30)
        consumer.poll(100)
        group = consumer.metrics()["consumer-coordinator-metrics"]
        assert group["rebalance-total"] == rebalances


def test_a_changed_password_serves_the_next_session(kafka: RealKafkaWithJmx) -> None:
    """The broker checks passwords only when a client logs in."""
    kafka.create_topic("new-password")

    def is_changed_in_time() -> bool:
        options = add_user(kafka, "renamed", "old-secret")
        began = time.monotonic()
        with KafkaProducer(**options) as producer:
            producer.send("new-password", b"old").get(20)
            add_user(kafka, "renamed", "new-secret")
            producer.set_sasl_credentials("renamed", "new-secret")
            if time.monotonic() > began + 0.8 * SESSION_S:
                return False  # the session may have ended between the two
            ends = time.monotonic() + 2 * SESSION_S
            while time.monotonic() < ends or renewals(producer.metrics(), "producer") < 1:
                assert time.monotonic() < ends + 30, "no session was renewed"
                producer.send("new-password", b"value").get(60)
                time.sleep(0.05)
        return True

    wait_until(is_changed_in_time, 60)


@one_real_broker
def test_asyncio_clients_renew_their_sessions(kafka: RealKafkaWithJmx) -> None:
    """Scenario 64, with an asynchronous provider."""

    class Async:
        async def token(self) -> str:
            return short_token()

    options = oauth_options(kafka, Async())
    topics = (f"aio-sessions-{number}" for number in itertools.count())

    async def program(topic: str) -> float:
        async with (
            AIOKafkaProducer(**options) as producer,
            AIOKafkaConsumer(topic, **options, auto_offset_reset="earliest") as consumer,
        ):

            def renewed() -> float:
                return min(
                    renewals(producer.metrics(), "producer"),
                    renewals(consumer.metrics(), "consumer"),
                )

            count, ends = 0, time.monotonic() + 3 * SESSION_S
            while time.monotonic() < ends or renewed() < 2:
                await producer.send_and_wait(topic, b"%d" % count)
                assert (await consumer.getone()).value == b"%d" % count
                count += 1
            return failures(producer.metrics(), "producer") + failures(
                consumer.metrics(), "consumer"
            )

    def is_not_noticed() -> bool:
        killed = kafka.killed()
        kafka.create_topic(topic := next(topics))
        failed = run(program(topic))
        return not failed and kafka.killed() == killed

    # Another try only if the broker or the machine paused for longer than the end of a session.
    wait_until(is_not_noticed, 90)
