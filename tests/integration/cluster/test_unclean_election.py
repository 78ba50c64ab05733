"""A real unclean election: a follower that lacks records becomes the leader, and they are lost.

    node 1 (leader)     0 1 2 | 3 4 5 acknowledged while node 2 is down | 6 7 8 without response
    node 2 (follower)   0 1 2 | 6 7 8 9 10 11 as the next leader

The election happens once, for several partitions of two topics. Each test checks another part of
the result. In topic "known" the next leader has batches of the producer, in "unknown" only batches
of another producer.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from tests.integration.support.clients import Clients, read, read_more
from tests.support.kafka.cluster import RealKafka
from tests.support.kafka.proxy import Proxies
from tests.support.waiting import wait_until
from tests.support.wire import Wire, WireError
from thalweg import KafkaConsumer, KafkaProducer, TopicPartition
from thalweg.admin import NewTopic
from thalweg.errors import LogTruncationError

LEADER, FOLLOWER, OTHER = 1, 2, 3
PARTITIONS = 2
KNOWN, UNKNOWN = "known", "unknown"
WHERE = [TopicPartition(topic, each) for topic in (KNOWN, UNKNOWN) for each in range(PARTITIONS)]
COMMON, CUT_OFF, UNANSWERED, LATER = (range(at, at + 3) for at in (0, 3, 6, 9))
# What consumers have read before the election, and where the next leader's log differs.
READ, CUT = len(COMMON) + len(CUT_OFF), len(COMMON)
GROUP: dict[str, Any] = {"group_id": "committed", "enable_auto_commit": False}
LIMIT_S = 60

pytestmark = pytest.mark.timeout(600)  # three nodes start one after another


@dataclass
class Election:
    """The records sent before and after the election, and the consumers.

    Attributes:
        strict: a consumer without a reset policy, which has read all that the first leader had.
        lenient: the same with policy "earliest".
        sent: the future of each record, by its partition and number.
    """

    kafka: RealKafka
    clients: Clients
    producer: KafkaProducer[Any, Any]
    strict: KafkaConsumer[Any, Any]
    lenient: KafkaConsumer[Any, Any]
    sent: dict[tuple[TopicPartition, int], Any] = field(default_factory=dict)

    def send(self, number: int, *topics: str) -> None:
        """Sends one record to each partition of the topics (of all topics by default)."""
        for where in WHERE:
            if where.topic in (topics or (KNOWN, UNKNOWN)):
                value = b"%d" % number
                future = self.producer.send(where.topic, value, partition=where.partition)
                self.sent[where, number] = future

    def log(self) -> dict[TopicPartition, list[tuple[int, int]]]:
        """Returns the offsets and numbers of the producer's records in the final log."""
        reader = self.clients.consumer(self.kafka)
        reader.assign(WHERE)
        found: dict[TopicPartition, list[tuple[int, int]]] = {each: [] for each in WHERE}
        for record in read(reader, sum(reader.end_offsets(WHERE).values())) + read_more(reader):
            if record.value != b"other":
                where = TopicPartition(record.topic, record.partition)
                found[where].append((record.offset, int(record.value)))
        return found


@pytest.fixture(scope="module")
def election() -> Iterator[Election]:
    """The cluster after the election, with all three nodes running again."""
    clients = Clients()
    with RealKafka("4.3", nodes=3, proxied=True, heap="512m") as kafka:
        _make_topics(kafka, clients)
        with Proxies(kafka) as proxies:
            found = Election(
                kafka,
                clients,
                # All partitions in one request: after five requests it would wait for a response.
                clients.producer(
                    proxies,
                    acks="all",
                    linger_ms=250,
                    request_timeout_ms=60_000,
                    delivery_timeout_ms=600_000,  # longer than nodes need to start
                ),
                clients.consumer(kafka, auto_offset_reset="none"),
                clients.consumer(kafka),
            )
            _write_to_both(found)
            kafka.stop_node(FOLLOWER)
            _write_to_one(found, proxies)
            kafka.kill(LEADER)
            kafka.start_node(FOLLOWER)
            wait_until(partial(_leads_all, kafka), LIMIT_S, what="the unclean election")
            proxies.pass_on()
            for number in LATER:
                found.send(number)
            wait_until(lambda: all(each.is_done for each in found.sent.values()), 2 * LIMIT_S)
            kafka.start_node(LEADER)
            yield found
            clients.close()


def _make_topics(kafka: RealKafka, clients: Clients) -> None:
    configs = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    replicas = {each: [LEADER, FOLLOWER] for each in range(PARTITIONS)}
    topics = [
        NewTopic(topic, replica_assignments=replicas, topic_configs=configs)
        for topic in (KNOWN, UNKNOWN)
    ]
    clients.admin(kafka).create_topics(topics, wait_for_metadata=True)


def _write_to_both(found: Election) -> None:
    for number in COMMON:
        found.send(number, KNOWN)
    other = found.clients.producer(found.kafka, acks="all")
    for where in WHERE:
        if where.topic == UNKNOWN:
            other.send_many(where.topic, [b"other"] * CUT, partition=where.partition)
    for producer in (found.producer, other):
        producer.flush(LIMIT_S)


def _write_to_one(found: Election, proxies: Proxies) -> None:
    for number in CUT_OFF:
        found.send(number)
    found.producer.flush(LIMIT_S)
    _read_and_commit(found)
    proxies.lose_responses()
    for number in UNANSWERED:
        found.send(number)
        wait_until(partial(_has_ends, found.kafka, number + 1), LIMIT_S)


def _read_and_commit(found: Election) -> None:
    found.strict.assign(WHERE)
    found.strict.seek_to_beginning()
    found.lenient.assign(WHERE)
    with found.clients.consumer(found.kafka, **GROUP) as member:
        member.assign(WHERE)
        for consumer in (found.strict, found.lenient, member):
            assert len(read(consumer, READ * len(WHERE))) == READ * len(WHERE)
        member.commit()


def _has_ends(kafka: RealKafka, end: int) -> bool:
    wire = Wire(f"127.0.0.1:{kafka.node(LEADER).ports['PLAINTEXT']}")
    return all(
        wire.end_offsets(topic) == dict.fromkeys(range(PARTITIONS), end)
        for topic in (KNOWN, UNKNOWN)
    )


def _leads_all(kafka: RealKafka) -> bool:
    wire = Wire(f"127.0.0.1:{kafka.node(OTHER).ports['PLAINTEXT']}", timeout=5)
    with suppress(OSError, WireError):
        topics = wire.metadata(KNOWN, UNKNOWN).topics
        leaders = {each.leader for each in itertools.chain.from_iterable(topics.values())}
        return leaders == {FOLLOWER}
    return False


def test_nothing_is_told_to_be_written_that_is_not(election: Election) -> None:
    """A record whose future succeeded is in the final log, at that offset. Scenario 19."""
    logs = election.log()
    for where, log in logs.items():
        offsets = {number: offset for offset, number in log}
        assert list(offsets) == [number for _, number in log], f"{where}: doubled in {log}"
        assert sorted(offsets) == list(offsets), f"{where}: out of order in {log}"
        for number in (*UNANSWERED, *LATER):
            future = election.sent[where, number]
            if future.succeeded():
                assert future.get(0).offset in (offsets.get(number), -1), (where, number, log)
                assert number in offsets, f"{where}: {number} was lost of {log}"
            else:
                assert "possibly written" in str(future.exception)


def test_a_producer_goes_on_after_its_state_was_lost(election: Election) -> None:
    """The next leader refuses its sequence numbers, or does not know the producer. Scenario 13."""
    logs = election.log()
    for where, log in logs.items():
        numbers = [number for _, number in log]
        common = COMMON if where.topic == KNOWN else ()
        assert numbers == [*common, *UNANSWERED, *LATER]
        assert all(election.sent[where, number].succeeded() for number in numbers)


def test_a_consumer_without_a_policy_is_told_where_the_log_was_cut(election: Election) -> None:
    """The new log is longer than the position, so only the epoch shows the loss. Scenario 19."""
    _is_told_and_seeks(election.strict)


def test_a_committed_offset_is_held_against_the_new_log(election: Election) -> None:
    """Scenario 19."""
    member = election.clients.consumer(election.kafka, auto_offset_reset="none", **GROUP)
    member.assign(WHERE)
    _is_told_and_seeks(member)


def test_a_consumer_with_a_policy_reads_on_where_the_log_was_cut(election: Election) -> None:
    """Scenario 19."""
    _reads_the_new_log(election.lenient)


def _is_told_and_seeks(consumer: KafkaConsumer[Any, Any]) -> None:
    """Checks that each partition raises its loss, and returns no records until a seek."""
    told: set[TopicPartition] = set()
    old: defaultdict[TopicPartition, list[Any]] = defaultdict(list)
    while told != set(WHERE):
        with pytest.raises(LogTruncationError) as caught:
            wait_until(lambda: _poll(consumer, old), LIMIT_S)
        for where, at in caught.value.divergent_offsets.items():
            assert caught.value.offsets[where] == READ + len(old[where])
            assert at is not None
            assert at.offset == CUT
            consumer.seek(where, at)
            consumer.pause(where)  # until all losses are raised
            told.add(where)
    for records in old.values():
        _check_old(records)
    consumer.resume(*WHERE)
    _reads_the_new_log(consumer)


def _poll(consumer: KafkaConsumer[Any, Any], found: dict[TopicPartition, list[Any]]) -> None:
    for where, records in consumer.poll(1000).items():
        found[where] += records


def _check_old(records: list[Any]) -> None:
    """Checks records fetched from the first leader before it was killed."""
    assert [each.offset for each in records] == list(range(READ, READ + len(records)))
    assert [each.value for each in records] == [b"%d" % each for each in UNANSWERED][: len(records)]


def _reads_the_new_log(consumer: KafkaConsumer[Any, Any]) -> None:
    """Checks that the consumer reads each record from the cut on, once."""
    wanted = [b"%d" % number for number in (*UNANSWERED, *LATER)]
    end = CUT + len(wanted)
    found: defaultdict[TopicPartition, list[Any]] = defaultdict(list)

    def is_at_the_end() -> bool:
        _poll(consumer, found)
        return all(records[-1].value == wanted[-1] for records in found.values())

    wait_until(lambda: is_at_the_end() and found.keys() == set(WHERE), LIMIT_S)
    _poll(consumer, found)
    for records in found.values():
        cut = [each.offset for each in records].index(CUT)
        _check_old(records[:cut])
        assert [each.value for each in records[cut:]] == wanted
        assert [each.offset for each in records[cut:]] == list(range(CUT, end))
