"""AIOKafkaConsumer: the records of every call, positions, and waits that do not block the loop."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.integration.support.aio import filled, made, read_one, run, until
from tests.integration.support.clients import Clients
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker
from thalweg import KafkaProducer, OffsetAndMetadata, TopicPartition
from thalweg.errors import DeserializationError, IllegalStateError, NoOffsetForPartitionError
from thalweg.interceptor import ConsumerInterceptor

# ---------------------------------------------------------------- records


def test_all_ways_of_reading_give_the_same_records(broker: Broker, clients: Clients) -> None:
    topic = filled(broker, clients, 2000, 3)
    where = [TopicPartition(topic, each) for each in range(3)]

    async def program() -> None:
        async with made(broker, topic) as consumer:
            assert consumer.assignment() == set(where)
            one_by_one = [int((await consumer.getone()).value) for _ in range(2000)]
            assert sorted(one_by_one) == list(range(2000))
            await consumer.seek_to_beginning()
            many: list[int] = []
            while len(many) < 2000:
                for tp, records in (await consumer.getmany(timeout_ms=1000)).items():
                    assert {each.partition for each in records} == {tp.partition}
                    assert len(records) <= 500
                    many += [int(each.value) for each in records]
            assert sorted(many) == list(range(2000))
            await consumer.seek_to_beginning()
            tables: list[Any] = []
            while sum(each.num_rows for each in tables) < 2000:
                tables.append(await consumer.poll_arrow(1000))
            columns = pa.concat_tables(each.to_pyarrow() for each in tables)
            assert sorted(map(int, columns["value"].to_pylist())) == list(range(2000))
            await consumer.seek_to_beginning()
            found = []
            async for record in consumer:
                found.append(int(record.value))
                if len(found) == 2000:
                    break
            assert sorted(found) == list(range(2000))
            assert [await consumer.position(each) for each in where] == [667, 667, 666]

    run(program())


def test_getone_and_getmany_can_be_limited_to_partitions(broker: Broker, clients: Clients) -> None:
    topic = filled(broker, clients, 90, 3)
    where = [TopicPartition(topic, each) for each in range(3)]

    async def program() -> None:
        async with made(broker, topic) as consumer:
            last = [await consumer.getone(where[2]) for _ in range(30)]
            assert [int(each.value) for each in last] == list(range(2, 90, 3))
            found = await consumer.getmany(where[1], timeout_ms=30_000, max_records=7)
            assert {tp: len(records) for tp, records in found.items()} == {where[1]: 7}
            assert await consumer.position(where[0]) == 0
            assert await consumer.getmany(where[2], timeout_ms=50) == {}
            rest: list[Any] = []
            while len(rest) < 53:
                for records in (await consumer.getmany(timeout_ms=1000)).values():
                    rest += records
            assert sorted(each.partition for each in rest) == [0] * 30 + [1] * 23

    run(program())


@pytest.mark.parametrize("codec", [None, "lz4"])
def test_one_partition_is_read_although_the_others_fill_the_fetch_memory(
    broker: Broker, clients: Clients, codec: str | None
) -> None:
    count, size = 600, 1000
    topic = broker.create_topic("aio-crowded", 8)
    where = [TopicPartition(topic, each) for each in range(8)]
    producer = clients.producer(broker, linger_ms=5, compression_type=codec)
    for number in range(8 * count):
        producer.send(topic, b"v" * size, partition=number % 8)
    producer.flush(30)
    limits = {"fetch_buffer_memory": 1 << 20, "max_partition_fetch_bytes": 256 << 10}

    async def program() -> None:
        async with made(broker, **limits) as consumer:
            consumer.assign(where)
            for tp in reversed(where):
                offsets = [(await consumer.getone(tp)).offset for _ in range(20)]
                while len(offsets) < count:
                    found = await consumer.getmany(tp, timeout_ms=30_000)
                    assert found, f"{tp} is not read after offset {offsets[-1]}"
                    offsets += [each.offset for each in found[tp]]
                assert offsets == list(range(count))

    run(program())


def test_waiting_for_partitions_that_are_not_assigned_raises(
    embedded: Broker, clients: Clients
) -> None:
    """The call would wait forever, also if a rebalance or the application unassigns meanwhile."""
    topic = filled(embedded, clients, 4, 2)
    zero, one = (TopicPartition(topic, each) for each in range(2))
    elsewhere = TopicPartition(topic, 7)

    async def program() -> None:
        async with made(embedded) as consumer:
            consumer.assign([zero])
            for call in (consumer.getone, consumer.getmany):
                with pytest.raises(IllegalStateError, match=rf"{topic}-1 is not assigned .*-0"):
                    await call(one)
            assert (await consumer.getone(zero, one)).partition == 0
            await consumer.getone(zero)
            waiting = asyncio.create_task(consumer.getone(zero))
            await asyncio.sleep(0.1)
            consumer.assign([one])
            with pytest.raises(IllegalStateError, match=rf"{topic}-0 is not assigned"):
                await waiting
        for protocol in ("classic", "consumer"):
            group = {"group_id": topic + protocol, "group_protocol": protocol}
            async with made(embedded, topic, **group) as consumer:
                assert (await consumer.getone(one)).partition == 1
                with pytest.raises(IllegalStateError, match=rf"{topic}-7 is not assigned"):
                    await consumer.getone(elsewhere)
        async with made(embedded, topic) as consumer:
            with pytest.raises(IllegalStateError, match=rf"{topic}-7 is not assigned"):
                await consumer.getmany(elsewhere, timeout_ms=5000)

    run(program())


def test_a_rebalance_may_bring_partitions_that_are_waited_for(
    start_embedded: Any, clients: Clients
) -> None:
    quick = "group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"
    started = start_embedded(configs=dict.fromkeys(quick, "100"))
    broker = Broker("embedded", started.bootstrap_servers)
    topic = filled(broker, clients, 4, 2)

    async def program(options: dict[str, Any]) -> None:
        async with made(broker, **options) as first:
            first.subscribe([topic])  # nothing is assigned before the wait
            both = [TopicPartition(topic, each) for each in range(2)]
            await first.getone(both[0])
            half = _read_until(first, lambda: len(first.assignment()) == 1)
            reading = asyncio.create_task(half)
            async with made(broker, topic, **options):
                await reading
                [gone] = set(both) - first.assignment()
                with pytest.raises(IllegalStateError, match="is not assigned"):
                    await first.getone(gone)
            await _read_until(first, lambda: len(first.assignment()) == 2)
            await first.seek_to_beginning(gone)
            assert (await first.getone(gone)).offset == 0

    for protocol in ("classic", "consumer"):
        options: dict[str, Any] = {"group_id": topic + protocol, "group_protocol": protocol}
        if protocol == "classic":
            options["heartbeat_interval_ms"] = 100
        run(program({**options, "enable_auto_commit": False}))


async def _read_until(consumer: Any, condition: Callable[[], bool]) -> None:
    while not condition():
        await consumer.getmany(timeout_ms=50)


@one_real_broker
def test_the_loop_has_its_turns_whether_there_are_records_or_not(
    broker: Broker, clients: Clients
) -> None:
    topic = filled(broker, clients, 20_000)
    empty = broker.create_topic("aio-empty")

    async def program() -> None:
        turns = 0

        async def tick() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with made(broker, topic, max_poll_records=20_000) as consumer:
            await consumer.getone()
            ticking = asyncio.create_task(tick())
            async for record in consumer:
                if record.offset == 19_999:
                    break
            assert turns >= 30
            consumer.unsubscribe()
            consumer.assign([TopicPartition(empty, 0)])
            before = turns
            for _ in range(100):
                assert await consumer.getmany() == {}
            assert turns >= before + 100
            ticking.cancel()

    run(program())


@one_real_broker
def test_several_tasks_may_wait_for_records_of_one_consumer(
    broker: Broker, clients: Clients
) -> None:
    topic = broker.create_topic("aio-tasks", 2)
    producer = clients.producer(broker)

    async def program() -> None:
        async with made(broker, topic) as consumer:
            waiting = [asyncio.create_task(read_one(consumer)) for _ in range(10)]
            await asyncio.sleep(0.1)
            for number in range(10):
                producer.send(topic, b"%d" % number, partition=number % 2)
            assert sorted(await asyncio.gather(*waiting)) == list(range(10))

    run(program())


@one_real_broker
@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_a_consumer_takes_no_thread_of_its_own(broker: Broker, clients: Clients) -> None:
    topic = filled(broker, clients, 10)

    async def program() -> None:
        async with made(broker, topic) as first, AsyncExitStack() as opened:
            await first.getone()
            before = _threads()
            for number in range(6):
                made_next = made(broker, topic, group_id=f"{topic}-{number}")
                consumer = await opened.enter_async_context(made_next)
                await consumer.getone()
                await consumer.commit()
            # Threads that others use may begin meanwhile, but not one for each consumer.
            assert _threads() < before + 6 // 2

    run(program())


def _threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


@one_real_broker
def test_a_record_that_cannot_be_deserialized_stays_in_place(
    broker: Broker, clients: Clients
) -> None:
    """Scenario 33."""
    topic = filled(broker, clients, 3)

    def refuse_one(data: bytes) -> int:
        if data == b"1":
            raise ValueError("one")
        return int(data)

    async def program() -> None:
        async with made(broker, topic, value_deserializer=refuse_one) as consumer:
            assert (await consumer.getone()).value == 0
            for _ in range(2):
                with pytest.raises(DeserializationError) as caught:
                    await consumer.getone()
            assert (caught.value.offset, caught.value.value) == (1, b"1")
            consumer.seek(TopicPartition(topic, 0), 2)
            assert (await consumer.getone()).value == 2
            with pytest.raises(IllegalStateError, match="value_deserializer is set"):
                await consumer.poll_arrow()

    run(program())


# ---------------------------------------------------------------- positions and offsets


def test_positions_and_lookups(broker: Broker, clients: Clients) -> None:
    topic = filled(broker, clients, 30)
    where = TopicPartition(topic, 0)

    async def program() -> None:
        async with made(broker, isolation_level="read_committed") as consumer:
            consumer.assign([where])
            assert await consumer.position(where) == 0
            assert await consumer.beginning_offsets([where]) == {where: 0}
            assert await consumer.end_offsets([where]) == {where: 30}
            await consumer.seek_to_end()
            assert await consumer.position(where) == 30
            consumer.seek(where, 7)
            record = await consumer.getone()
            assert record.offset == 7
            at_time = await consumer.offsets_for_times({where: record.timestamp})
            found = at_time[where]
            assert found is not None
            assert found.offset <= 7
            assert (consumer.highwater(where), consumer.last_stable_offset(where)) == (30, 30)
            assert consumer.lag(where) == 30 - await consumer.position(where)
            stamp = consumer.last_poll_timestamp(where)
            assert stamp is not None
            assert abs(stamp / 1000 - time.time()) < 30
            assert topic in await consumer.topics()
            assert consumer.partitions_for_topic(topic) == {0}
            assert consumer.partitions_for_topic("unknown") is None
            consumer.pause(where)
            assert consumer.paused() == {where}
            assert await consumer.getmany(timeout_ms=100) == {}
            consumer.resume(where)
            assert (await consumer.getone()).offset == 8
            with pytest.raises(IllegalStateError, match="not assigned"):
                await consumer.position(TopicPartition(topic, 1))

    run(program())


def test_offsets_are_committed_in_every_form_and_found_again(
    broker: Broker, clients: Clients
) -> None:
    topic = filled(broker, clients, 30)
    where = TopicPartition(topic, 0)

    async def program() -> None:
        async with made(broker, group_id=topic, enable_auto_commit=False) as consumer:
            consumer.assign([where])
            assert await consumer.committed(where) is None
            for _ in range(5):
                await consumer.getone()
            await consumer.commit()
            assert await consumer.committed(where) == 5
            forms: dict[int, Any] = {6: 6, 7: (7, "seven"), 8: OffsetAndMetadata(8, "eight")}
            for offset, form in forms.items():
                await consumer.commit({where: form})
                assert await consumer.committed(where) == offset
            whole = await consumer.committed(where, metadata=True)
            assert whole == OffsetAndMetadata(8, "eight")
            assert await consumer.seek_to_committed() == {where: 8}
            assert (await consumer.getone()).offset == 8
            other = TopicPartition(broker.create_topic("aio-other"), 0)
            consumer.assign([where, other])
            assert await consumer.seek_to_committed() == {where: 8, other: None}
            assert await consumer.position(other) == 0

    run(program())


def test_without_committed_offset_and_policy_nothing_moves(
    broker: Broker, clients: Clients
) -> None:
    topic = filled(broker, clients, 3)

    async def program() -> None:
        async with made(broker, group_id=topic, auto_offset_reset="none") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            with pytest.raises(NoOffsetForPartitionError, match=f"{topic}-0"):
                await consumer.seek_to_committed()
            with pytest.raises(NoOffsetForPartitionError, match=topic):
                await consumer.getone()

    run(program())


def test_getone_of_a_partition_waits_when_an_interceptor_removes_the_record(
    start_embedded: Any,
) -> None:
    class Odd(ConsumerInterceptor):
        """Removes the even numbers."""

        def on_consume(self, records: Any) -> Any:
            return {
                tp: [each for each in found if int(each.value) % 2] for tp, found in records.items()
            }

    broker = start_embedded()
    broker.create_topic("odd")
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(4):
            producer.send("odd", b"%d" % number)
    tp = TopicPartition("odd", 0)

    async def program() -> None:
        async with made(broker, "odd", interceptors=[Odd()]) as consumer:
            found = [int((await consumer.getone(tp)).value) for _ in range(2)]
            assert found == [1, 3]

    run(program())


def test_an_interceptor_that_removes_records_does_not_block_the_loop(
    embedded: Broker, clients: Clients
) -> None:
    topic = filled(embedded, clients, 50_000)

    class Removing(ConsumerInterceptor):
        calls = 0

        def on_consume(self, records: Any) -> Any:
            self.calls += 1
            return {}

    async def program() -> None:
        removing, calls = Removing(), [0]

        async def turn() -> None:
            while True:
                calls.append(removing.calls)
                await asyncio.sleep(0)

        async with made(embedded, topic, interceptor_classes=[removing]) as consumer:
            turns = asyncio.create_task(turn())
            waiting = asyncio.ensure_future(consumer.getone())
            await until(lambda: removing.calls == 50_000)
            waiting.cancel()
            turns.cancel()
        in_one_turn = [later - before for before, later in pairwise(calls)]
        assert max(in_one_turn) <= 1_500

    run(program())
