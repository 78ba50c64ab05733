"""AIOKafkaConsumer: the records of every call, waits that do not block the loop, its life cycle."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.integration.support.aio import filled, made, run, until
from tests.integration.support.clients import Clients
from tests.support.brokers import Broker
from tests.support.ports import free_port
from tests.support.selection import one_real_broker
from tests.support.waiting import wait_until
from thalweg import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from thalweg.aio import AIOKafkaConsumer
from thalweg.errors import (
    ConsumerStoppedError,
    DeserializationError,
    IllegalStateError,
    NoBrokersAvailable,
    NoOffsetForPartitionError,
)

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
            found = await consumer.getmany(where[1], timeout_ms=5000, max_records=7)
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
                    found = await consumer.getmany(tp, timeout_ms=10_000)
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
            waiting = [asyncio.create_task(_one(consumer)) for _ in range(10)]
            await asyncio.sleep(0.1)
            for number in range(10):
                producer.send(topic, b"%d" % number, partition=number % 2)
            assert sorted(await asyncio.gather(*waiting)) == list(range(10))

    run(program())


async def _one(consumer: AIOKafkaConsumer[Any, Any]) -> int:
    return int((await consumer.getone()).value)


@one_real_broker
@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_a_consumer_takes_no_thread_of_its_own(broker: Broker, clients: Clients) -> None:
    topic = filled(broker, clients, 10)

    async def program() -> None:
        async with made(broker, topic) as first:
            await first.getone()
            before = _threads()
            for number in range(5):
                group = f"{topic}-{number}"
                async with made(broker, topic, group_id=group) as consumer:
                    await consumer.getone()
                    await consumer.commit()
                    assert _threads() <= before

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


# ---------------------------------------------------------------- life cycle


@one_real_broker
def test_stopping_ends_loops_and_waits(broker: Broker, clients: Clients) -> None:
    topic = filled(broker, clients, 3)

    async def program() -> None:
        consumer = made(broker, topic)
        await consumer.start()
        found: list[int] = []

        async def read_all() -> None:
            async for record in consumer:
                found.append(int(record.value))  # noqa: PERF401, seen as they arrive

        reading = asyncio.create_task(read_all())
        await until(lambda: len(found) == 3)
        waiting = asyncio.ensure_future(consumer.getmany(timeout_ms=50_000))
        await asyncio.sleep(0.05)
        await consumer.stop()
        await asyncio.wait_for(reading, 5)
        with pytest.raises(ConsumerStoppedError):
            await asyncio.wait_for(waiting, 5)
        for call in (consumer.getone, consumer.getmany, consumer.commit):
            with pytest.raises(ConsumerStoppedError):
                await call()
        await consumer.stop()
        assert consumer.closed

    run(program())


def test_a_stop_that_is_cancelled_goes_on(broker: Broker, clients: Clients) -> None:
    topic = filled(broker, clients, 3)

    async def program() -> None:
        consumer = made(broker, topic, group_id=topic)
        await consumer.start()
        await consumer.getone()
        stopping = asyncio.create_task(consumer.stop())
        await asyncio.sleep(0)
        stopping.cancel()
        await asyncio.wait([stopping])
        await consumer.stop()
        async with made(broker, topic, group_id=topic) as following:
            assert (await following.getone()).offset == 1

    run(program())


@one_real_broker
def test_a_start_that_found_no_broker_may_be_tried_again(broker: Broker, clients: Clients) -> None:
    topic = filled(broker, clients, 1)

    async def program() -> None:
        nowhere = f"127.0.0.1:{free_port()}"
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=nowhere, bootstrap_timeout_ms=200)
        await consumer.unsubscribe()
        consumer.unsubscribe()
        with pytest.raises(ValueError, match="topics or pattern"):
            consumer.subscribe()
        consumer.subscribe([topic])
        with pytest.raises(NoBrokersAvailable):
            await consumer.start()
        with pytest.raises(IllegalStateError, match="not started"):
            await consumer.getone()
        assert not consumer.closed
        consumer.config["bootstrap_servers"] = broker.bootstrap_servers.split(",")
        await consumer.start()
        assert consumer.assignment() == {TopicPartition(topic, 0)}
        with pytest.raises(IllegalStateError, match="started already"):
            await consumer.start()
        await consumer.stop()

    run(program())


@one_real_broker
def test_it_belongs_to_the_loop_that_started_it(broker: Broker, clients: Clients) -> None:
    topic = filled(broker, clients, 2)
    loop = asyncio.new_event_loop()
    consumer = made(broker, topic)
    loop.run_until_complete(consumer.start())
    try:
        with pytest.raises(IllegalStateError, match="another event loop"):
            asyncio.run(_one(consumer))
        assert loop.run_until_complete(_one(consumer)) == 0
    finally:
        loop.run_until_complete(consumer.stop())
        loop.close()


@one_real_broker
def test_one_that_was_not_stopped_is_told_of(broker: Broker, clients: Clients) -> None:
    topic = filled(broker, clients, 1)
    before = threading.active_count()

    async def program() -> None:
        consumer = made(broker, topic)
        await consumer.start()
        await consumer.getone()

    def forgotten() -> None:
        run(program())
        gc.collect()

    with pytest.warns(ResourceWarning, match="was not stopped"):
        forgotten()
    assert threading.active_count() <= before


@one_real_broker
def test_who_knows_its_consumer_keeps_nothing_alive(broker: Broker, clients: Clients) -> None:
    topic = filled(broker, clients, 1)

    class Knows(ConsumerRebalanceListener):
        consumer: Any = None

        def on_partitions_revoked(self, revoked: Any) -> None: ...
        def on_partitions_assigned(self, assigned: Any) -> None: ...

    def left_behind() -> list[weakref.ref[Any]]:
        async def program() -> weakref.ref[Any]:
            listener = Knows()
            consumer = listener.consumer = made(broker, group_id=topic)
            consumer.subscribe([topic], listener=listener)
            async with consumer:
                await consumer.getone()
            return weakref.ref(listener)

        listener = Knows()
        with KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=topic) as it:
            listener.consumer = it
            it.subscribe([topic], listener=listener)
        return [run(program()), weakref.ref(listener)]

    references = left_behind()

    def all_gone() -> bool:
        gc.collect()
        return not any(each() for each in references)

    # The I/O thread gives up a moment later what was in progress at the close.
    wait_until(all_gone, 10, what="the listeners' end")


@one_real_broker
def test_a_loop_that_ends_in_the_middle_of_a_wait_leaves_nothing_behind(
    broker: Broker, clients: Clients
) -> None:
    topic = broker.create_topic("aio-left")

    def left_behind() -> weakref.ref[Any]:
        loop = asyncio.new_event_loop()
        consumer = made(broker, topic)
        loop.run_until_complete(consumer.start())
        task = loop.create_task(consumer.getone())
        loop.run_until_complete(asyncio.sleep(0.05))
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.close()
        return weakref.ref(consumer._consumer)

    with pytest.warns(ResourceWarning, match="was not stopped"):
        reference = left_behind()

    def gone() -> bool:
        gc.collect()
        return reference() is None

    wait_until(gone, 10, what="the consumer's end")


@one_real_broker
def test_it_is_stopped_in_its_own_loop_only(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("aio-loops")
    loop = asyncio.new_event_loop()
    consumer = made(broker, topic)
    loop.run_until_complete(consumer.start())
    with pytest.raises(IllegalStateError, match="another event loop"):
        asyncio.run(consumer.stop())
    loop.run_until_complete(consumer.stop())
    assert consumer.closed
    loop.close()
