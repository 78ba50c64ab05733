"""Rights (ACLs) on real Kafka: what errors say, what still works, and what a grant cures."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.integration.support.clients import read, within
from tests.support.kafka.cluster import USERS, VERSIONS, RealKafka
from tests.support.waiting import wait_until
from thalweg import (
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)
from thalweg.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ConfigResource,
    NewTopic,
    ResourcePattern,
    ResourceType,
)
from thalweg.errors import (
    AbortableTransactionError,
    AuthorizationError,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)

CURE_LIMIT_S = 60
_numbers = itertools.count(1)


class Rights:
    """A node where alice may do what a test allows, and everything of the test's own names."""

    def __init__(self, kafka: RealKafka) -> None:
        self.kafka = kafka
        self._root = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
        self.options: dict[str, Any] = {
            "bootstrap_servers": kafka.bootstrap("SASL_PLAINTEXT"),
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": "alice",
            "sasl_plain_password": USERS["alice"],
        }

    def close(self) -> None:
        self._root.close()

    def name(self, prefix: str) -> str:
        """Returns a name that no other test has."""
        return f"{prefix}-{next(_numbers)}"

    def topic(self, prefix: str = "topic", records: int = 0) -> str:
        """Creates a topic with records, as an operator."""
        name = self.name(prefix)
        self.kafka.create_topic(name)
        if records:
            with KafkaProducer(bootstrap_servers=self.kafka.bootstrap_servers) as producer:
                producer.send_many(name, [b"%d" % number for number in range(records)]).get(30)
        return name

    def _acl(self, right: str, name: str) -> ACL:
        operation, kind = right.split(" ")
        pattern = ResourcePattern(ResourceType[kind], name)
        return ACL("User:alice", "*", ACLOperation[operation], ACLPermissionType.ALLOW, pattern)

    def grant(self, right: str, name: str = "kafka-cluster") -> None:
        """Grants a right such as "READ TOPIC" to alice."""
        acl = self._acl(right, name)
        assert self._root.create_acls([acl])["failed"] == []
        # The controller has it. The broker applies it a moment later.
        wait_until(lambda: bool(self._root.describe_acls(acl)[0]), 30)

    def revoke(self, right: str, name: str = "kafka-cluster") -> None:
        """Takes a right away that `grant` has granted."""
        acl = self._acl(right, name)
        ((_, removed, _),) = self._root.delete_acls([acl])
        assert len(removed) == 1
        wait_until(lambda: not self._root.describe_acls(acl)[0], 30)


@pytest.fixture(scope="module", params=[f"kafka-{version}" for version in VERSIONS])
def kafka(request: pytest.FixtureRequest) -> Iterator[RealKafka]:
    """A node of Kafka 4.3 and one of 3.9, where nothing is allowed without an ACL."""
    configs = {"allow.everyone.if.no.acl.found": "false"}
    version = request.param.removeprefix("kafka-")
    with RealKafka(version, secure=True, authorizer=True, configs=configs, heap="512m") as started:
        yield started


@pytest.fixture
def rights(kafka: RealKafka) -> Iterator[Rights]:
    """The rights of alice, who begins with none for the names of the test."""
    given = Rights(kafka)
    yield given
    given.close()


def cured(attempt: Callable[[], Any]) -> Any:
    """Repeats a call until it succeeds: brokers learn of an ACL from their controller."""
    last: list[AuthorizationError] = []

    def succeeds() -> list[Any]:
        try:
            return [attempt()]
        except AuthorizationError as error:
            last.append(error)
            return []

    (found,) = wait_until(succeeds, CURE_LIMIT_S, every=0.1, what=lambda: f"a cure: {last[-1]}")
    return found


def refused(attempt: Callable[[], Any], kind: type[AuthorizationError]) -> str:
    """Returns the text of a refusal, which must come within seconds."""
    with within(30), pytest.raises(kind) as caught:
        attempt()
    return str(caught.value)


def test_a_producer_works_as_soon_as_it_may(kafka: RealKafka, rights: Rights) -> None:
    topic = rights.topic()
    with KafkaProducer(**rights.options, retries=3) as producer:

        def send() -> Any:
            return sent(producer, topic, b"value")

        text = refused(send, AuthorizationError)
        assert "User:alice needs WRITE on " in text
        rights.grant("DESCRIBE TOPIC", topic)

        def asks_for_write() -> bool:
            return "needs WRITE on a topic, or IDEMPOTENT_WRITE" in refused(
                send, AuthorizationError
            )

        wait_until(asks_for_write, CURE_LIMIT_S, every=0.1)
        refused(send, ClusterAuthorizationFailedError)
        rights.grant("WRITE TOPIC", topic)
        assert cured(send).topic == topic


def test_a_right_that_is_taken_away_stops_only_its_topic(kafka: RealKafka, rights: Rights) -> None:
    """Scenario 81: the right returns, and the same clients continue."""
    lost, kept = rights.topic(), rights.topic()
    group = rights.name("group")
    for topic in (lost, kept):
        rights.grant("WRITE TOPIC", topic)
        rights.grant("READ TOPIC", topic)
    rights.grant("READ GROUP", group)
    with (
        KafkaProducer(**rights.options) as producer,
        KafkaConsumer(
            lost, kept, **rights.options, group_id=group, auto_offset_reset="earliest"
        ) as consumer,
    ):
        for topic in (lost, kept):
            cured(functools.partial(sent, producer, topic, b"before"))
        found = collect(consumer, {(lost, b"before"), (kept, b"before")})
        assert found == []

        rights.revoke("WRITE TOPIC", lost)
        rights.revoke("READ TOPIC", lost)

        def is_refused() -> list[str]:
            try:
                sent(producer, lost, b"during")
            except TopicAuthorizationFailedError as error:
                return [str(error)]
            return []

        (text,) = wait_until(is_refused, CURE_LIMIT_S, every=0.1)
        assert f"User:alice needs WRITE on topic '{lost}'" in text
        sent(producer, kept, b"during")
        errors = collect(consumer, {(kept, b"during")}, at_least=1)
        assert all(lost in error and "User:alice needs READ on " in error for error in errors)
        assert not any(kept in error for error in errors)

        rights.grant("WRITE TOPIC", lost)
        rights.grant("READ TOPIC", lost)
        cured(functools.partial(sent, producer, lost, b"after"))
        collect(consumer, {(lost, b"after")})


def sent(producer: KafkaProducer[Any, Any], topic: str, value: bytes) -> Any:
    return producer.send(topic, value).get(20)


def collect(
    consumer: KafkaConsumer[Any, Any], wanted: set[tuple[str, bytes]], at_least: int = 0
) -> list[str]:
    """Polls until these records and at least `at_least` refusals have come. Returns the latter."""
    errors: list[str] = []
    seen: set[tuple[str, bytes]] = set()

    def is_complete() -> bool:
        try:
            for records in consumer.poll(200).values():
                seen.update((record.topic, record.value) for record in records)
        except TopicAuthorizationFailedError as error:
            errors.append(str(error))
        return wanted <= seen and len(errors) >= at_least

    wait_until(is_complete, 60, every=0, what=lambda: f"{wanted - seen}, after {errors[-3:]}")
    return errors


@pytest.mark.parametrize("how", ["subscribe", "assign"])
def test_one_refused_topic_costs_the_others_nothing(
    kafka: RealKafka, rights: Rights, how: str
) -> None:
    allowed, refused_topic = rights.topic(records=20), rights.topic(records=20)
    group = rights.name("group")
    rights.grant("READ TOPIC", allowed)
    rights.grant("READ GROUP", group)
    options = rights.options | {"auto_offset_reset": "earliest", "group_id": group}
    with KafkaConsumer(**options) as consumer:
        if how == "subscribe":
            consumer.subscribe([allowed, refused_topic])
        else:
            consumer.assign([TopicPartition(each, 0) for each in (allowed, refused_topic)])
        expected = {(allowed, b"%d" % number) for number in range(20)}
        errors = collect(consumer, expected, at_least=1)
        assert all(refused_topic in error for error in errors), errors
        assert "User:alice needs READ on " in errors[0]
        rights.grant("READ TOPIC", refused_topic)
        collect(consumer, {(refused_topic, b"%d" % number) for number in range(20)})


def test_a_group_is_named_with_the_right_that_it_takes(kafka: RealKafka, rights: Rights) -> None:
    topic, group = rights.topic(records=5), rights.name("group")
    rights.grant("READ TOPIC", topic)
    options = rights.options | {"auto_offset_reset": "earliest", "group_id": group}
    with KafkaConsumer(topic, **options) as consumer:
        where = TopicPartition(topic, 0)
        needed = f"User:alice needs READ on group '{group}'"

        def poll() -> Any:
            for _ in range(200):
                consumer.poll(100)

        assert needed in refused(poll, GroupAuthorizationFailedError)
        text = refused(lambda: consumer.committed(where), GroupAuthorizationFailedError)
        assert f"User:alice needs DESCRIBE on group '{group}'" in text
        # The coordinator is known now, and refuses the member itself.
        rights.grant("DESCRIBE GROUP", group)
        cured(lambda: consumer.committed(where))
        assert needed in refused(poll, GroupAuthorizationFailedError)
        rights.grant("READ GROUP", group)
        assert len(cured(lambda: read(consumer, 5))) == 5
        consumer.commit()
        assert consumer.committed(where) == 5


def test_a_topic_that_may_not_be_seen_is_not_called_absent(
    kafka: RealKafka, rights: Rights
) -> None:
    topic = rights.topic(records=3)
    where = TopicPartition(topic, 0)
    needed = f"on topic '{topic}'"
    with KafkaConsumer(**rights.options) as consumer:
        calls: list[Callable[[], Any]] = [
            lambda: consumer.partitions_for_topic(topic),
            lambda: consumer.end_offsets([where]),
            lambda: consumer.beginning_offsets([where]),
            lambda: consumer.offsets_for_times({where: 0}),
        ]
        for call in calls:
            assert needed in refused(call, TopicAuthorizationFailedError)
        rights.grant("READ TOPIC", topic)
        assert cured(lambda: consumer.end_offsets([where])) == {where: 3}
        assert cured(lambda: consumer.partitions_for_topic(topic)) == {0}


def test_transactions_name_what_they_may_not_use(kafka: RealKafka, rights: Rights) -> None:
    topic, group, name = rights.topic(), rights.name("group"), rights.name("transactional")
    options = rights.options | {"transactional_id": name}
    with KafkaProducer(**options) as producer:
        text = refused(producer.init_transactions, TransactionalIdAuthorizationFailedError)
        assert f"User:alice needs WRITE on transactional ID '{name}'" in text
    rights.grant("WRITE TRANSACTIONAL_ID", name)
    rights.grant("DESCRIBE TOPIC", topic)

    def connect() -> KafkaProducer[Any, Any]:
        made = KafkaProducer(**options)
        try:
            made.init_transactions()
        except AuthorizationError:
            made.close()
            raise
        return made

    with cured(connect) as producer:
        producer.begin_transaction()
        record = producer.send(topic, b"value")
        with within(30), pytest.raises(AbortableTransactionError):
            producer.commit_transaction()
        with pytest.raises(KafkaError) as failed:
            record.get(30)
        error = failed.value
        # Before KIP-890, the coordinator refuses the topic, and not the partition's leader.
        assert TopicAuthorizationFailedError in {type(error), type(error.__cause__)}
        assert f"User:alice needs WRITE on topic '{topic}'" in str(error)
        producer.abort_transaction()

        producer.begin_transaction()
        offsets = {TopicPartition(topic, 0): OffsetAndMetadata(1)}
        with within(30), pytest.raises(AbortableTransactionError) as caught:
            producer.send_offsets_to_transaction(offsets, group)
        assert f"User:alice needs READ on group '{group}'" in str(caught.value)
        producer.abort_transaction()

        rights.grant("WRITE TOPIC", topic)
        rights.grant("READ TOPIC", topic)
        rights.grant("READ GROUP", group)

        def transaction() -> None:
            producer.begin_transaction()
            try:
                producer.send(topic, b"value")
                producer.send_offsets_to_transaction(offsets, group)
                producer.commit_transaction()
            except AbortableTransactionError as error:
                producer.abort_transaction()
                if isinstance(error.__cause__, AuthorizationError):
                    raise error.__cause__ from error
                raise

        cured(transaction)


def test_an_administrator_learns_which_right_is_missing(
    kafka: RealKafka, rights: Rights, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = rights.topic(), rights.name("group")
    needs: dict[str, Callable[[KafkaAdminClient], Any]] = {
        "CREATE on the topic": lambda admin: admin.create_topics([NewTopic("other", 1, 1)]),
        "DELETE on the topic": lambda admin: admin.delete_topics([topic]),
        "ALTER on the topic": lambda admin: admin.create_partitions({topic: 2}),
        "DESCRIBE_CONFIGS on the topic": lambda admin: admin.describe_configs(
            [ConfigResource("topic", topic)]
        ),
        "DESCRIBE on the cluster": lambda admin: admin.describe_user_scram_credentials(),
    }
    rights.grant("DESCRIBE TOPIC", topic)
    with KafkaAdminClient(**rights.options) as admin:
        cured(lambda: admin.describe_topics([topic]))
        for need, call in needs.items():
            text = refused(functools.partial(call, admin), AuthorizationError)
            assert f"User:alice needs {need}" in text
            assert USERS["alice"] not in text
        described = admin.describe_groups([group])[group]["error"]
        assert f"User:alice needs DESCRIBE on group '{group}'" in described
        assert admin.delete_groups([group]) == {group: "GroupAuthorizationFailedError"}
        assert f"User:alice needs DELETE on group '{group}'" in caplog.text
