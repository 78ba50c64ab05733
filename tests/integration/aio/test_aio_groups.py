"""AIOKafkaConsumers in groups: several members, asyncio listeners, transactions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.integration.support.aio import made, run, until
from tests.integration.support.clients import Clients
from tests.integration.support.groups import MODERN_GROUPS
from tests.support.brokers import Broker
from thalweg import AsyncConsumerRebalanceListener, ConsumerRebalanceListener, TopicPartition
from thalweg.aio import AIOKafkaConsumer, AIOKafkaProducer
from thalweg.errors import CommitFailedError
from thalweg.structs import MemberState

PARTITIONS = 4
Consumer = AIOKafkaConsumer[Any, Any]


class Group:
    """A topic, and members whose records tasks read."""

    def __init__(self, broker: Broker, clients: Clients, protocol: str) -> None:
        self.broker, self.protocol = broker, protocol
        self.producer = clients.producer(broker)
        self.topic = broker.create_topic("aio-grouped", PARTITIONS)
        self.values: list[int] = []

    def send(self, numbers: range) -> None:
        for number in numbers:
            self.producer.send(self.topic, b"%d" % number, partition=number % PARTITIONS)
        self.producer.flush(30)

    def consumer(self, *topics: str, **options: Any) -> Consumer:
        given = {"group_id": self.topic, "group_protocol": self.protocol, **options}
        return made(self.broker, *topics, **given)

    @asynccontextmanager
    async def reading(self, consumer: Consumer) -> AsyncIterator[None]:
        """Reads with a started consumer until the block ends."""

        async def read() -> None:
            async for record in consumer:
                self.values.append(int(record.value))

        task = asyncio.create_task(read())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    @asynccontextmanager
    async def member(self, listener: Any = None, **options: Any) -> AsyncIterator[Consumer]:
        """Runs a member that reads during the block."""
        consumer = self.consumer(**options)
        consumer.subscribe([self.topic], listener=listener)
        async with consumer, self.reading(consumer):
            yield consumer


async def all_assigned(consumer: Consumer) -> None:
    """Waits until a consumer of an empty topic has all partitions.

    Kafka's first assignment may be empty (see Heard). The consumer gets the next one only while it
    reads.
    """
    while len(consumer.assignment()) < PARTITIONS:
        assert await consumer.getmany(timeout_ms=100) == {}


@pytest.fixture(params=MODERN_GROUPS, ids="-".join)
def group(
    request: pytest.FixtureRequest, broker_of: Callable[[str], Broker], clients: Clients
) -> Group:
    protocol, kind = request.param
    return Group(broker_of(kind), clients, protocol)


class Heard(AsyncConsumerRebalanceListener):
    """Records the listener's calls, except for assignments of nothing, and runs code during them.

    See `tests.integration.support.groups.Heard` for these assignments.
    """

    def __init__(self) -> None:
        self.events: list[tuple[str, set[int]]] = []
        self.consumer: Consumer | None = None
        self.at_work = False

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        await self._told("revoked", revoked)

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        await self._told("assigned", assigned)

    async def _told(self, what: str, partitions: Collection[TopicPartition]) -> None:
        self.at_work = True
        await asyncio.sleep(0.1)
        if what == "revoked" and self.consumer is not None:
            await self.consumer.commit()
        if partitions or what != "assigned":
            self.events.append((what, {each.partition for each in partitions}))
        self.at_work = False


def test_members_share_and_take_over(group: Group) -> None:
    group.send(range(40))

    async def program() -> None:
        async with group.member() as first:
            await until(lambda: len(group.values) == 40)
            async with group.member() as second:
                await until(lambda: len(first.assignment()) == len(second.assignment()) == 2)
                group.send(range(40, 80))
                await until(lambda: len(group.values) == 80)
            await until(lambda: len(first.assignment()) == PARTITIONS)
            group.send(range(80, 120))
            await until(lambda: len(group.values) == 120)
        assert sorted(group.values) == list(range(120))

    run(program())


def test_a_start_waits_for_the_groups_partitions(group: Group) -> None:
    async def program() -> None:
        async with group.consumer(group.topic) as consumer:
            if group.broker.kind == "embedded":
                assert len(consumer.assignment()) == PARTITIONS
            await all_assigned(consumer)
            assert consumer.subscription() == {group.topic}
            assert consumer.group_metadata().generation_id >= 1
            await consumer.seek_to_beginning()

    run(program())


def test_a_listener_is_awaited_before_partitions_go_and_records_come(group: Group) -> None:
    group.send(range(40))
    first_heard, second_heard = Heard(), Heard()

    async def program() -> None:
        manual = {"enable_auto_commit": False}
        async with group.member(first_heard, **manual) as first:
            first_heard.consumer = first
            await until(lambda: len(group.values) == 40)
            assert first_heard.events == [("assigned", set(range(PARTITIONS)))]
            async with group.member(second_heard, **manual) as second:
                second_heard.consumer = second
                await until(lambda: len(first.assignment()) == len(second.assignment()) == 2)
                await until(lambda: not first_heard.at_work and not second_heard.at_work)
                # The first member has committed all it read, in its listener.
                group.send(range(40, 48))
                await until(lambda: len(group.values) == 48)
        assert sorted(group.values) == list(range(48))
        assert first_heard.events[-1][0] == "revoked"

    run(program())


def test_no_record_is_handed_out_while_a_listener_runs(group: Group) -> None:
    group.send(range(40))
    read_at_work: list[int] = []

    async def program() -> None:
        heard = Heard()
        consumer = group.consumer()
        consumer.subscribe([group.topic], listener=heard)
        async with consumer:
            while len(group.values) < 40:
                for records in (await consumer.getmany(timeout_ms=10)).values():
                    read_at_work.extend([1] * heard.at_work)
                    group.values += [int(each.value) for each in records]
        assert read_at_work == []

    run(program())


def test_a_listener_that_raises_stops_nothing(
    group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    class Raising(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked: Any) -> None:  # type: ignore[override]
            raise ValueError("no revocation")

        async def on_partitions_assigned(self, assigned: Any) -> None:  # type: ignore[override]
            if assigned:  # Kafka's first assignment may be empty: see Heard
                raise ValueError("no assignment")

    group.send(range(8))

    async def program() -> None:
        async with group.member(Raising()):
            await until(lambda: len(group.values) == 8)

    run(program())
    raised = [str(each.exc_info[1]) for each in caplog.records if each.exc_info]
    assert raised == ["no assignment", "no revocation"]


def test_unsubscribing_leaves_the_group_awaited_or_not(group: Group) -> None:
    group.send(range(8))

    async def program() -> None:
        consumer = group.consumer(group.topic)
        async with consumer:
            async with group.reading(consumer):
                await until(lambda: len(group.values) == 8)
            await consumer.unsubscribe()
            assert consumer.assignment() == set()
            assert consumer.subscription() == set()
            assert await consumer.committed(TopicPartition(group.topic, 0)) == 2
            consumer.subscribe([group.topic])
            group.send(range(8, 16))
            async with group.reading(consumer):
                await until(lambda: len(group.values) == 16)
            consumer.unsubscribe()
            async with group.consumer(group.topic) as following, group.reading(following):
                await until(lambda: len(following.assignment()) == PARTITIONS)
            # As in aiokafka nothing awaits here. The new subscription begins after the member has
            # left.
            consumer.subscribe([group.topic])
            first_left, second_left = consumer.unsubscribe(), consumer.unsubscribe()
            consumer.subscribe([group.topic])
            group.send(range(16, 24))
            async with group.reading(consumer):
                await until(lambda: len(group.values) == 24)
            await first_left
            await second_left
            assert consumer.subscription() == {group.topic}
        assert sorted(group.values) == list(range(24))

    run(program())


def test_records_are_processed_exactly_once_in_transactions(group: Group) -> None:
    group.send(range(100))
    output = group.broker.create_topic("aio-out")

    async def program() -> None:
        producer: AIOKafkaProducer[Any, Any] = AIOKafkaProducer(
            bootstrap_servers=group.broker.bootstrap_servers, transactional_id=group.topic
        )
        count = 0
        async with group.consumer(group.topic, enable_auto_commit=False) as consumer, producer:
            while count < 100:
                if not (batch := await consumer.getmany(timeout_ms=1000, max_records=30)):
                    continue
                async with producer.transaction():
                    for records in batch.values():
                        for record in records:
                            await producer.send(output, record.value)
                        count += len(records)
                    next_ones = {tp: records[-1].offset + 1 for tp, records in batch.items()}
                    await producer.send_offsets_to_transaction(next_ones, consumer.group_metadata())
            where = [TopicPartition(group.topic, each) for each in range(PARTITIONS)]
            assert [await consumer.committed(each) for each in where] == [25] * PARTITIONS
        async with made(group.broker, output, isolation_level="read_committed") as reader:
            found = [int((await reader.getone()).value) for _ in range(100)]
        assert sorted(found) == list(range(100))

    run(program())


def test_leaving_by_an_exception_commits_nothing(group: Group) -> None:
    group.send(range(8))
    where = [TopicPartition(group.topic, each) for each in range(PARTITIONS)]

    class Slow(AsyncConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked: Any) -> None:
            await asyncio.sleep(0.3)

        async def on_partitions_assigned(self, assigned: Any) -> None:
            assert isinstance(assigned, set)

    async def fail() -> None:
        async with group.member(Slow(), auto_commit_interval_ms=50_000) as consumer:
            await until(lambda: len(group.values) == 8)
            consumer._driver._commits._auto_commit_due_ms = 0  # a commit is due now
            raise ZeroDivisionError

    async def program() -> None:
        with pytest.raises(ZeroDivisionError):
            await fail()
        async with group.consumer() as after:
            assert [await after.committed(each) for each in where] == [None] * PARTITIONS

    run(program())


def test_asking_for_a_position_does_not_commit_what_is_in_work(group: Group) -> None:
    group.send(range(8))
    where = [TopicPartition(group.topic, each) for each in range(PARTITIONS)]

    async def program() -> None:
        consumer = group.consumer(group.topic, auto_commit_interval_ms=100)
        await consumer.start()
        while not (batch := await consumer.getmany(timeout_ms=1000)):
            pass
        await asyncio.sleep(0.2)  # the application's work, during which the next commit is due
        for each, records in batch.items():
            assert await consumer.position(each) == records[-1].offset + 1
        await consumer.stop(autocommit=False)  # waits for a commit in flight
        async with group.consumer() as after:
            # 0: the commit made during the wait for the first record.
            for each in where:
                assert await after.committed(each) in (None, 0)

    run(program())


def test_tasks_that_finish_in_any_order_commit_no_unfinished_record(group: Group) -> None:
    where = TopicPartition(group.topic, 0)

    async def program() -> None:
        consumer = group.consumer(group.topic, enable_auto_commit=False)
        async with consumer:
            group.send(range(40))
            finishing = []

            async def finish(record: Any) -> None:
                await asyncio.sleep(0.02 if record.offset % 2 else 0)
                if record.offset != 7:
                    consumer.mark(record)

            async for record in consumer:
                finishing.append(asyncio.create_task(finish(record)))
                if len(finishing) == 40:
                    break
            await asyncio.gather(*finishing)
            await consumer.commit_marked()
            assert await consumer.committed(where) == 7
            consumer.mark_through(record := await again(consumer))
            assert record.offset == 7
            await consumer.commit_marked()
            assert await consumer.committed(where) == 8

    async def again(consumer: Consumer) -> Any:
        consumer.seek(where, 7)
        return await consumer.getone(where)

    run(program())


def test_marks_count_after_a_seek_was_cancelled(start_embedded: Any, clients: Clients) -> None:
    started = start_embedded()
    group = Group(Broker("embedded", started.bootstrap_servers), clients, "consumer")
    where = [TopicPartition(group.topic, each) for each in range(PARTITIONS)]
    group.send(range(40))

    async def program() -> None:
        async with group.consumer(group.topic, enable_auto_commit=False) as consumer:
            consumer.mark([await consumer.getone() for _ in range(40)])
            # Nothing is committed, so the seek waits for the first offsets.
            asked = started.faults.on("ListOffsets")
            with asked.then_fail("LEADER_NOT_AVAILABLE", times=None) as fault:
                seeking = asyncio.create_task(consumer.seek_to_committed())
                await until(lambda: fault.hits > 0)
                seeking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await seeking
            again = [await consumer.getone() for _ in range(40)]
            assert {each.offset for each in again} == set(range(10))
            consumer.mark(again)
            await consumer.commit_marked()
            assert [await consumer.committed(each) for each in where] == [10] * PARTITIONS

    run(program())


def test_partitions_of_unsubscribed_topics_are_committed_before_they_are_revoked(
    start_embedded: Any, clients: Clients
) -> None:
    """KIP-848: new metadata, without the old topic, arrives before the group's decision."""
    started = start_embedded(configs={"group.consumer.assignment.interval.ms": "0"})
    group = Group(Broker("embedded", started.bootstrap_servers), clients, "consumer")
    other = group.broker.create_topic("other", 1)
    where = [TopicPartition(group.topic, each) for each in range(PARTITIONS)]
    group.send(range(8))

    async def program() -> None:
        # The member knows the topic before the group assigns it, so it need not watch its ID.
        started.faults.on("ConsumerGroupHeartbeat").then_delay(200)
        async with group.member(auto_commit_interval_ms=60_000) as consumer:
            await until(lambda: len(group.values) == 8)
            await until(lambda: consumer.group_metadata().state == MemberState.STABLE)
            with started.faults.on("ConsumerGroupHeartbeat").then_delay(300):
                consumer.subscribe([other])
                await until(lambda: consumer.assignment() == {TopicPartition(other, 0)})
            assert [await consumer.committed(each) for each in where] == [2] * PARTITIONS

    run(program())


def test_a_pattern_that_is_given_up_is_not_joined_again(group: Group) -> None:
    async def program() -> None:
        consumer = group.consumer(metadata_max_age_ms=50)
        consumer.subscribe(pattern=f"^{group.topic}.*")
        async with consumer:
            await all_assigned(consumer)
            async with group.reading(consumer):
                left = consumer.unsubscribe()
                group.broker.wire.create_topic(f"{group.topic}-more", 1)
                await left
                assert consumer.group_metadata().generation_id == -1
            assert consumer.assignment() == set()

    run(program())


def test_commits_of_tasks_do_not_undo_each_other(start_embedded: Any) -> None:
    broker = start_embedded()
    broker.create_topic("t")
    where = TopicPartition("t", 0)

    async def program() -> None:
        async with made(broker, group_id="g", retry_backoff_ms=300) as consumer:
            consumer.assign([where])
            with broker.faults.on("OffsetCommit").then_fail(
                "COORDINATOR_LOAD_IN_PROGRESS", times=1
            ):
                first = asyncio.create_task(consumer.commit({where: 10}))
                await asyncio.sleep(0.1)
                await consumer.commit({where: 20})
                await first
            assert await consumer.committed(where) == 20

    run(program())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_commit_that_is_retried_moves_no_offset_of_another_member(
    start_embedded: Any, clients: Clients, protocol: str
) -> None:
    """A rebalance happens between two tries, because another task polls."""
    quick = "group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"
    started = start_embedded(configs=dict.fromkeys(quick, "100"))
    group = Group(Broker("embedded", started.bootstrap_servers), clients, protocol)
    options = {"enable_auto_commit": False, "retry_backoff_ms": 3000, "retry_backoff_max_ms": 3000}
    if protocol == "classic":
        options["heartbeat_interval_ms"] = 100

    async def program() -> None:
        async with group.member(**options) as first:
            await until(lambda: len(first.assignment()) == PARTITIONS)
            # Until the rebalance is over, however long it takes.
            loading = started.faults.on("OffsetCommit")
            fault = loading.then_fail("COORDINATOR_LOAD_IN_PROGRESS", times=None)
            old = dict.fromkeys(first.assignment(), 1)
            retried = asyncio.create_task(first.commit(old))
            await until(lambda: fault.hits > 0)
            async with group.member(**options) as second:
                await until(lambda: len(first.assignment()) == len(second.assignment()) == 2)
                fault.remove()
                await second.commit(dict.fromkeys(second.assignment(), 9))
                with pytest.raises(CommitFailedError, match=r"gave up .* before the commit"):
                    await retried
                for each in second.assignment():
                    assert await second.committed(each) == 9

    run(program())


@pytest.mark.parametrize("marked", [False, True])
def test_a_commit_that_waited_while_a_partition_went_says_so(
    start_embedded: Any, clients: Clients, marked: bool
) -> None:
    started = start_embedded(configs={"group.consumer.assignment.interval.ms": "0"})
    group = Group(Broker("embedded", started.bootstrap_servers), clients, "consumer")
    group.send(range(8))

    async def program() -> None:
        consumer = group.consumer(group.topic, enable_auto_commit=False)
        async with consumer:
            while len(group.values) < 8:
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    group.values += [int(each.value) for each in records]
                    consumer.mark(records)
            loading = started.faults.on("OffsetCommit")
            with loading.then_fail("COORDINATOR_LOAD_IN_PROGRESS", times=None):
                first = asyncio.create_task(consumer.commit({TopicPartition(group.topic, 0): 1}))
                await asyncio.sleep(0.05)
                commit = consumer.commit_marked if marked else consumer.commit
                second = asyncio.create_task(commit())
                await asyncio.sleep(0.05)
                async with group.member():
                    while len(consumer.assignment()) == PARTITIONS:
                        await consumer.getmany(timeout_ms=50)
            with pytest.raises(CommitFailedError, match="gave up"):
                await second
            await asyncio.wait([first])

    run(program())
