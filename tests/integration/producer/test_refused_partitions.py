"""One Produce request whose partitions get different results: each batch has its own outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.integration.support.clients import Clients, read, read_more
from tests.support.brokers import Broker
from tests.support.kafka.cluster import USERS, RealKafka
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker
from thalweg.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    NewTopic,
    ResourcePattern,
    ResourceType,
)
from thalweg.errors import (
    InvalidRecordError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    TopicAuthorizationFailedError,
)

LEADER, FOLLOWER = 1, 2
USER = "alice"
# What the real cluster does with a record of 2,000 bytes for each of these topics.
FINE, TWO, TOO_LARGE, FORBIDDEN, FEW, KEYLESS = (
    "fine",
    "fine-too",
    "too-large",
    "forbidden",
    "few-replicas",
    "keyless",
)
TOPICS = (FINE, TOO_LARGE, FORBIDDEN, FEW, KEYLESS, TWO)
VALUE = bytes(2000)


@pytest.fixture(scope="module")
def kafka() -> Iterator[RealKafka]:
    """Three nodes that allow everything that has no ACL, and trust each other."""
    configs = {
        "super.users": "User:ANONYMOUS",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with RealKafka("4.3", nodes=3, configs=configs, secure=True, heap="512m") as kafka:
        yield kafka


def _make_topics(clients: Clients, kafka: RealKafka) -> None:
    """Makes topics that one node leads, so that one request has all their batches."""
    configs: dict[str, dict[str, str]] = {
        TOO_LARGE: {"max.message.bytes": "1000"},
        FEW: {"min.insync.replicas": "2"},
        KEYLESS: {"cleanup.policy": "compact"},
    }
    alone = {"min.insync.replicas": "1"}
    admin = clients.admin(kafka)
    admin.create_topics(
        [
            NewTopic(
                each,
                replica_assignments={0: [LEADER, FOLLOWER] if each == FEW else [LEADER]},
                topic_configs={**alone, **configs.get(each, {})},
            )
            for each in TOPICS
        ],
        wait_for_metadata=True,
    )
    # An ACL for a topic removes the default rights: metadata would not show the topic.
    for operation, permission in (
        (ACLOperation.DESCRIBE, ACLPermissionType.ALLOW),
        (ACLOperation.WRITE, ACLPermissionType.DENY),
    ):
        resource = ResourcePattern(ResourceType.TOPIC, FORBIDDEN)
        made = admin.create_acls([ACL(f"User:{USER}", "*", operation, permission, resource)])
        assert not made["failed"], made


def test_each_topic_of_one_request_has_its_own_result(kafka: RealKafka, clients: Clients) -> None:
    _make_topics(clients, kafka)
    kafka.stop_node(FOLLOWER)
    # The nodes themselves use the plaintext listener.
    servers = Broker("kafka-4.3", kafka.bootstrap("SASL_PLAINTEXT"))
    producer = clients.producer(
        servers,
        linger_ms=1000,
        # The records of FEW take this long. The others must not, even if the machine pauses.
        request_timeout_ms=8000,
        delivery_timeout_ms=12_000,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username=USER,
        sasl_plain_password=USERS[USER],
    )
    for topic in TOPICS:
        producer.partitions_for(topic)
    first = {topic: producer.send(topic, VALUE, partition=0) for topic in TOPICS}
    wait_until(lambda: first[FINE].is_done, 60)
    second = {topic: producer.send(topic, VALUE, partition=0) for topic in TOPICS}
    for sent in (first, second):
        for topic, error in {
            TOO_LARGE: MessageSizeTooLargeError,
            FORBIDDEN: TopicAuthorizationFailedError,
            KEYLESS: InvalidRecordError,
            FEW: KafkaTimeoutError,
        }.items():
            with pytest.raises(error, match=topic):
                sent[topic].get(60)
    for topic in (FINE, TWO):
        assert [each[topic].get(30).offset for each in (first, second)] == [0, 1]
    for topic, count in {FINE: 2, TWO: 2, TOO_LARGE: 0, KEYLESS: 0}.items():
        consumer = clients.consumer(kafka, topic)
        found = [*(read(consumer, count) if count else []), *read_more(consumer)]
        assert [each.value for each in found] == [VALUE] * count


# {the error for one topic of the request: the error of its record, or None if it is written}.
RESPONSES: dict[str, type[KafkaError] | None] = {
    "NOT_ENOUGH_REPLICAS": None,
    "NOT_LEADER_OR_FOLLOWER": None,
    "KAFKA_STORAGE_ERROR": None,
    "OUT_OF_ORDER_SEQUENCE_NUMBER": None,
    "UNKNOWN_PRODUCER_ID": None,
    "TOPIC_AUTHORIZATION_FAILED": TopicAuthorizationFailedError,
    "MESSAGE_TOO_LARGE": MessageSizeTooLargeError,
    "INVALID_RECORD": InvalidRecordError,
}


@pytest.mark.parametrize("code", RESPONSES)
def test_an_error_for_one_topic_leaves_the_others_of_its_request_alone(
    start_embedded: Callable[..., EmbeddedBroker], clients: Clients, code: str
) -> None:
    """The other batches were written, and are not sent again."""
    error = RESPONSES[code]
    topics = ["before", "refused", "after"]
    broker = start_embedded()
    producer = clients.producer(broker, linger_ms=60_000)
    for topic in topics:
        broker.create_topic(topic, 2)
        producer.partitions_for(topic)
    wanted: dict[str, list[int]] = {topic: [] for topic in topics}
    for number in range(3):
        fault = broker.faults.on("Produce", topic="refused")
        if number == 1:
            fault.then_fail(code)
        before = broker.requests("Produce").get("Produce", 0)
        sent = [
            (topic, producer.send(topic, b"%d" % number, partition=partition))
            for topic in topics
            for partition in range(2)
        ]
        producer.flush(60)  # sends all in one request
        for topic, future in sent:
            if number == 1 and topic == "refused" and error is not None:
                with pytest.raises(error, match="refused-"):
                    future.get(20)
            else:
                assert future.get(20).offset == len(wanted[topic])
        is_sent_again = number == 1 and error is None
        requests = broker.requests("Produce")["Produce"] - before
        assert requests in ((2, 3) if is_sent_again else (1,))  # retries may be separate requests
        for topic in topics:
            if number != 1 or topic != "refused" or error is None:
                wanted[topic].append(number)
    for topic in topics:
        for partition in range(2):
            consumer = clients.consumer(broker, topic, (partition,))
            found = [*read(consumer, len(wanted[topic])), *read_more(consumer, for_s=0.1)]
            assert [int(each.value) for each in found] == wanted[topic]
