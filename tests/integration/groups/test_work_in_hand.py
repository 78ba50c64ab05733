"""Records that are processed after the poll that returned them: marks, and delayed rebalances."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, pairwise
from random import sample
from typing import Any

import pytest

from tests.integration.support.clients import Clients, fill, read
from tests.integration.support.groups import MODERN_GROUPS, PARTITIONS, Group, Heard
from tests.support.brokers import Broker
from tests.support.waiting import wait_until
from thalweg import OffsetAndMetadata, TopicPartition
from thalweg.config import IgnoredOptionWarning
from thalweg.consumer._offsets import alone
from thalweg.errors import IllegalStateError


@pytest.fixture(params=MODERN_GROUPS, ids="-".join)
def group(request: pytest.FixtureRequest, group_of: Callable[[str, str], Group]) -> Group:
    return group_of(*request.param)


def committed(group: Group, consumer: Any) -> list[int | None]:
    return [consumer.committed(TopicPartition(group.topic, each)) for each in range(PARTITIONS)]


# ---------------------------------------------------------------- marks


def test_what_is_marked_is_committed(group: Group) -> None:
    group.send(range(40))
    member = group.join(enable_auto_commit=False)
    group.poll_until(lambda: len(group.records) == 40)
    by_offset = {(each.partition, each.offset): each for each in group.records}
    member.mark(by_offset[0, 4])
    member.mark([by_offset[1, each] for each in (2, 0, 7, 1, 5)])
    all_of_two = [by_offset[2, each] for each in range(10)]
    member.mark({TopicPartition(group.topic, 2): all_of_two})
    member.mark_through(by_offset[3, 6])
    assert committed(group, member) == [None] * 4
    member.commit_marked()
    assert committed(group, member) == [None, 3, 10, 7]
    member.mark([by_offset[0, each] for each in (3, 2, 1, 0)])
    member.mark(by_offset[1, 3])
    member.mark_through(by_offset[3, 1])  # a mark never moves back
    member.commit_marked()
    assert committed(group, member) == [5, 4, 10, 7]


def test_auto_commit_commits_marks_in_place_of_positions(group: Group) -> None:
    group.send(range(40))
    member = group.join(auto_commit_marks=True, auto_commit_interval_ms=50)
    group.poll_until(lambda: len(group.records) == 40)
    done = [each for each in group.records if each.partition == 3 and each.offset < 6]
    workers = [threading.Thread(target=member.mark, args=(each,)) for each in done]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    group.poll_until(lambda: committed(group, member)[3] == 6)
    member.mark([each for each in group.records if each.partition == 0])
    group.leave(member)
    after = group.consumer()
    assert committed(group, after) == [10, None, None, 6]


def test_marks_of_partitions_that_went_are_forgotten(group: Group) -> None:
    group.send(range(40))
    first = group.join(enable_auto_commit=False)
    group.poll_until(lambda: len(group.records) == 40)
    first.mark(group.records)
    group.join(enable_auto_commit=False)
    group.settle()
    first.commit_marked()
    # The first member kept two partitions (newer protocol) or gave up all. It commits no marks of
    # revoked partitions.
    kept = {each.partition for each in first.assignment()} if group.protocol == "consumer" else {}
    assert committed(group, first) == [10 if each in kept else None for each in range(PARTITIONS)]


def test_marks_work_with_assign_and_at_the_close(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("marked")
    producer = clients.producer(broker)
    for number in range(10):
        producer.send(topic, b"%d" % number)
    producer.flush(30)
    consumer = clients.consumer(broker, topic, group_id=topic, auto_commit_marks=True)
    records = read(consumer, 10)
    consumer.mark(records[:4])
    consumer.close()
    assert clients.consumer(broker, group_id=topic).committed(TopicPartition(topic, 0)) == 4


def test_late_marks_do_not_take_back_what_others_committed(
    broker: Broker, clients: Clients
) -> None:
    topic = broker.create_topic("late-marks")
    where = TopicPartition(topic, 0)
    producer = clients.producer(broker)
    for number in range(30):
        producer.send(topic, b"%d" % number)
    producer.flush(30)
    consumer = clients.consumer(broker, topic, group_id=topic, enable_auto_commit=False)
    records = read(consumer, 30)
    consumer.mark(records[:10])
    consumer.assign([])  # drops the partition with its marks
    other = clients.consumer(broker, topic, group_id=topic, enable_auto_commit=False)
    other.commit({where: OffsetAndMetadata(20)})
    consumer.assign([where])
    consumer.commit_marked()
    assert consumer.position(where) == 20
    consumer.mark(records[:15])
    consumer.commit_marked()
    assert consumer.committed(where) == 20
    again = read(consumer, 10)
    assert again[0].offset == 20
    consumer.mark(records[24])  # but not the records before it
    consumer.commit_marked()
    assert consumer.committed(where) == 20
    consumer.mark(again[:4])
    consumer.commit_marked()
    assert consumer.committed(where) == 25


@pytest.mark.parametrize("how", ["poll", "iteration"])
def test_a_crash_amid_the_work_of_several_threads_loses_no_record(
    broker: Broker, clients: Clients, how: str
) -> None:
    topic = broker.create_topic("crash")
    fill(clients, broker, topic, 200)
    consumer = clients.consumer(
        broker, topic, group_id=topic, auto_commit_marks=True, auto_commit_interval_ms=20
    )
    records = read(consumer, 200) if how == "poll" else list(islice(consumer, 200))
    stuck = records[120]
    with ThreadPoolExecutor(8) as workers:
        for each in sample(records, 200):
            if each is not stuck:
                workers.submit(consumer.mark, each)
    where = TopicPartition(topic, 0)
    wait_until(lambda: consumer.poll(20) or consumer.committed(where) == 120, 60)
    # As after a crash, another member reads the unfinished records, and some more.
    after = clients.consumer(broker, topic, group_id=topic)
    assert read(after, 80)[0].offset == stuck.offset
    consumer.mark(stuck)
    consumer.close()
    assert after.committed(where) == 200


def test_marks_work_where_transactions_leave_gaps(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("gaps")
    producer = clients.producer(broker, transactional_id=topic)
    producer.init_transactions()
    for turn in range(20):
        producer.begin_transaction()
        for number in range(3):
            producer.send(topic, b"%d" % (turn * 3 + number))
        if turn % 4 == 3:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    consumer = clients.consumer(
        broker, topic, group_id=topic, isolation_level="read_committed", enable_auto_commit=False
    )
    where = TopicPartition(topic, 0)
    records = read(consumer, 45)
    consumer.mark(sample(records[1:], 44))
    consumer.commit_marked()
    assert consumer.committed(where) is None
    consumer.mark(records[0])
    consumer.commit_marked()
    assert consumer.committed(where) == records[-1].offset + 1


def test_what_is_read_again_after_a_seek_is_marked_again(
    embedded: Broker, clients: Clients
) -> None:
    topic = embedded.create_topic("again")
    fill(clients, embedded, topic, 20)
    consumer = clients.consumer(embedded, topic, group_id=topic, enable_auto_commit=False)
    where = TopicPartition(topic, 0)
    consumer.mark(read(consumer, 20)[:10])
    consumer.commit_marked()
    for seek in (lambda: consumer.seek(where, 0), consumer.seek_to_beginning):
        seek()
        again = read(consumer, 20)
        consumer.mark(again[:5] + again[8:])
        consumer.commit_marked()
        assert consumer.committed(where) == 10
    consumer.mark(again[5:8])
    consumer.commit_marked()
    assert consumer.committed(where) == 20


def test_marks_count_after_another_threads_seek_was_refused(
    embedded: Broker, clients: Clients
) -> None:
    """Each mark must still notice that the topic was created again."""
    topic = embedded.create_topic("refused")
    fill(clients, embedded, topic, 10)
    options: dict[str, Any] = {"enable_auto_commit": False, "allow_auto_create_topics": False}
    consumer = clients.consumer(embedded, topic, group_id=topic, metadata_max_age_ms=300, **options)
    where = TopicPartition(topic, 0)
    consumer.mark(read(consumer, 10))
    entered, leave = threading.Event(), threading.Event()

    @alone
    def stay(_: Any) -> None:
        entered.set()
        leave.wait(60)

    staying = threading.Thread(target=stay, args=(consumer,))
    staying.start()
    assert entered.wait(20)
    for seek in (lambda: consumer.seek(where, 0), consumer.seek_to_beginning):
        with pytest.raises(IllegalStateError, match="another thread"):
            seek()
    leave.set()
    staying.join()
    embedded.wire.delete_topic(topic)
    embedded.wire.create_topic(topic)
    fill(clients, embedded, topic, 10)
    consumer.mark(read(consumer, 10)[:6])
    consumer.commit_marked()
    assert consumer.committed(where) == 6


def test_only_records_are_marked(embedded: Broker, clients: Clients) -> None:
    topic = embedded.create_topic("unmarked")
    consumer = clients.consumer(embedded, topic, group_id=topic)
    for wrong in (5, [5], {TopicPartition(topic, 0): 5}, [(topic, 0, 5)]):
        for call in (consumer.mark, consumer.mark_through):
            with pytest.raises(TypeError, match=r"^mark(_through)?\(\) takes a ConsumerRecord"):
                call(wrong)
    consumer.commit_marked()
    assert consumer.committed(TopicPartition(topic, 0)) is None


def test_marks_without_auto_commit_are_pointed_out(embedded: Broker, clients: Clients) -> None:
    with pytest.warns(IgnoredOptionWarning, match="commit_marked"):
        clients.consumer(embedded, group_id="g", auto_commit_marks=True, enable_auto_commit=False)


# ---------------------------------------------------------------- delayed rebalances


def test_no_partition_goes_while_records_are_in_work(group: Group) -> None:
    group.send(range(40))
    heard = Heard()
    first = group.join(heard, block_rebalance_on_poll=True)
    group.poll_until(lambda: len(group.records) == 40)
    assert heard.events == [("assigned", list(range(PARTITIONS)))]
    second = group.join()
    end = time.monotonic() + 2
    sent = 40
    while time.monotonic() < end:  # it continues to poll and gets records
        group.send(range(sent, sent + 4))
        sent += 4
        group.poll()
    group.poll_until(lambda: len(group.records) == sent)
    assert len(first.assignment()) == PARTITIONS
    assert second.assignment() == set()
    assert len(heard.events) == 1
    first.allow_rebalance()
    group.settle()
    assert group.values() == list(range(sent))
    assert any(what == "revoked" for what, _ in heard.events)


def send_a_batch_each(group: Group) -> None:
    """Sends a thousand records to each partition."""
    producer = group.clients.producer(group.broker, linger_ms=30_000)  # flush() ends it
    for number in range(1_000 * PARTITIONS):
        producer.send(group.topic, b"%d" % number, partition=number % PARTITIONS)
    producer.flush(30)


def test_a_rebalance_is_allowed_amid_the_batch_of_an_iteration(group: Group) -> None:
    send_a_batch_each(group)
    first = group.join(block_rebalance_on_poll=True, consumer_timeout_ms=30_000)
    for _ in range(5):
        next(first)
    second = group.join()
    end = time.monotonic() + 2
    while time.monotonic() < end:
        next(first)
        second.poll(50)
    assert len(first.assignment()) == PARTITIONS
    steps = 0
    while not second.assignment():  # the first member makes no other call
        steps += 1
        assert steps < 500, "all of them amid one batch"
        first.allow_rebalance()
        next(first)
        second.poll(100)


def test_each_step_through_a_batch_counts_as_a_poll(group: Group) -> None:
    send_a_batch_each(group)
    heard = Heard()
    limits = {"max_poll_interval_ms": 2_500, "enable_auto_commit": False}
    member = group.join(heard, consumer_timeout_ms=30_000, **limits)
    steps: list[float] = []
    for _ in range(10):
        steps.append(time.monotonic())
        next(member)
        time.sleep(0.4)
    if max(later - earlier for earlier, later in pairwise(steps)) < 2:  # the machine did not pause
        assert heard.events == [("assigned", list(range(PARTITIONS)))]

    def is_lost() -> bool:
        time.sleep(4)
        for _ in range(20):
            next(member)
        return ("lost", list(range(PARTITIONS))) in heard.events

    wait_until(is_lost)  # once, unless the core slept for as long as the application


def test_what_was_lost_goes_though_records_are_in_work(group: Group) -> None:
    heard = Heard()
    group.send(range(8))
    member = group.join(heard, block_rebalance_on_poll=True, max_poll_interval_ms=500)
    # If the machine pauses, they are lost sooner, and some records are read again.
    group.poll_until(lambda: set(group.values()) == set(range(8)))

    def is_lost() -> bool:
        time.sleep(1)
        return ("lost", list(range(PARTITIONS))) in heard.events

    group.poll_until(is_lost)
    group.poll_until(lambda: len(member.assignment()) == PARTITIONS)


def test_a_close_waits_for_no_permission(group: Group) -> None:
    group.send(range(8))
    member = group.join(block_rebalance_on_poll=True)
    group.poll_until(lambda: len(group.records) == 8)
    group.leave(member)
    after = group.consumer()
    assert committed(group, after) == [2] * PARTITIONS
