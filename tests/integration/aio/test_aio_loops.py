"""AIOKafkaProducer with other loops, threads and processes, and without a task."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.aio.producers import WithoutReaders, made
from tests.integration.support.aio import LIMIT_S, filled, run
from tests.integration.support.clients import Clients
from tests.integration.support.scripts import run as run_program
from tests.integration.support.scripts import start as start_program
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker
from thalweg import EmbeddedBroker
from thalweg.errors import IllegalStateError


@one_real_broker
def test_a_loop_without_readers_is_woken_once_for_many_outcomes(broker: Broker) -> None:
    topic = broker.create_topic("aio-no-readers")

    async def program(count: int) -> list[int]:
        # The last batch is not full: its result arrives when the loop has waited for a long time.
        async with made(broker, linger_ms=500) as producer:
            futures = [await producer.send(topic, b"v") for _ in range(count)]
            return [(await each).offset for each in futures]

    with asyncio.Runner(loop_factory=WithoutReaders) as runner:
        assert runner.run(program(3000)) == list(range(3000))
        loop: Any = runner.get_loop()
        assert 0 < loop.wakes < 300


@one_real_broker
def test_two_loops_in_two_threads_have_a_producer_each(broker: Broker) -> None:
    topic = broker.create_topic("aio-threads", 2)
    failed: list[BaseException] = []

    async def program(partition: int) -> None:
        async with made(broker) as producer:
            for _ in range(20):
                futures = [
                    await producer.send(topic, b"v", partition=partition) for _ in range(100)
                ]
                await asyncio.gather(*futures)

    def thread(partition: int) -> None:
        try:
            run(program(partition))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=thread, args=(each,)) for each in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(LIMIT_S)
    assert failed == []
    assert broker.wire.end_offsets(topic) == {0: 2000, 1: 2000}


def test_another_loop_is_refused_with_a_clear_error(embedded: Broker) -> None:
    topic = embedded.create_topic("aio-loops")
    calls: list[Callable[[Any], Awaitable[Any]]] = [
        lambda producer: producer.send(topic, b"v"),
        lambda producer: producer.send_many(topic, [b"v"]),
        lambda producer: producer.flush(),
        lambda producer: producer.stop(),
    ]

    async def program() -> None:
        async with made(embedded) as producer:
            for call in calls:

                async def elsewhere(call: Any = call) -> None:
                    with pytest.raises(IllegalStateError, match="another event loop"):
                        await call(producer)

                await asyncio.to_thread(asyncio.run, elsewhere())
            # The producer still works in its own loop.
            await producer.send_and_wait(topic, b"v")

    run(program())
    assert embedded.wire.end_offsets(topic) == {0: 1}


def test_another_loop_is_refused_while_a_task_of_its_own_is_at_work(embedded: Broker) -> None:
    topic = embedded.create_topic("aio-busy-loops")
    attempts = 2_000

    async def program() -> int:
        sent = 0
        async with made(embedded) as producer:
            await producer.send_and_wait(topic, b"v")

            async def elsewhere() -> None:
                for _ in range(attempts):
                    with pytest.raises(IllegalStateError, match="another event loop"):
                        await producer.send(topic, b"not this")

            other = asyncio.create_task(asyncio.to_thread(asyncio.run, elsewhere()))
            while not other.done():
                await producer.send(topic, b"v")
                sent += 1
            await other
        return sent + 1

    sent = run(program())
    assert embedded.wire.end_offsets(topic) == {0: sent}


def test_awaitables_may_be_driven_by_hand(embedded: Broker) -> None:
    """Libraries that wrap coroutines call `send` and `next`, with results in StopIteration."""
    topic = embedded.create_topic("aio-by-hand")

    async def program() -> None:
        async with made(embedded) as producer:
            await producer.send_and_wait(topic, b"v")
            with pytest.raises(StopIteration) as sent:
                producer.send(topic, b"v").__await__().send(None)
            future = sent.value.value
            assert await future == future.result()
            with pytest.raises(StopIteration) as outcome:
                next(future.__await__())
            assert outcome.value.value == future.result()
            # When traced, the interpreter takes results as from any iterator.
            before = sys.gettrace()
            sys.settrace(lambda *event: None)
            try:
                traced = await producer.send_and_wait(topic, b"v")
            finally:
                sys.settrace(before)
            assert traced.offset == future.result().offset + 1
            in_a_task = await asyncio.create_task(producer.send(topic, b"v"))
            assert (await in_a_task).offset == traced.offset + 1
            call = producer.send(topic, b"v")
            await call
            with pytest.raises(RuntimeError, match="already awaited"):
                await call

    run(program())
    assert embedded.wire.end_offsets(topic) == {0: 5}


@pytest.mark.parametrize("option", ["value_serializer", "partitioner"])
def test_a_stop_iteration_of_the_users_is_an_error_and_no_result(
    embedded: Broker, option: str
) -> None:
    topic = embedded.create_topic("aio-stop-iteration")
    none_left: Any = iter(())

    async def program() -> None:
        async with made(embedded, **{option: lambda *given: next(none_left)}) as producer:
            for sent in (producer.send, lambda *record: _in_a_task(producer.send(*record))):
                with pytest.raises(RuntimeError, match="raised StopIteration") as raised:
                    await sent(topic, b"v", b"k")
                assert isinstance(raised.value.__cause__, StopIteration)

    run(program())
    assert embedded.wire.end_offsets(topic) == {0: 0}


async def _in_a_task(call: Any) -> Any:
    return await asyncio.create_task(call)


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_a_producer_starts_no_thread(embedded: Broker) -> None:
    topic = embedded.create_topic("aio-no-threads")

    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    async def program() -> list[int]:
        counts = []
        producers = []
        for _ in range(12):
            producers.append(made(embedded))
            await producers[-1].start()
            await producers[-1].send_and_wait(topic, b"v")
            counts.append(threads())
        for each in producers:
            await each.stop()
        return counts

    run(program())  # starts what is started once per process
    counts = run(program())
    # Threads that others use may begin and end meanwhile, but not one for each producer.
    assert counts[-1] - counts[0] < len(counts) // 2, counts


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_is_told_and_the_parent_goes_on(embedded: Broker) -> None:
    topic = embedded.create_topic("aio-fork")
    source = """
    import asyncio, warnings
    from thalweg.aio import AIOKafkaProducer
    warnings.simplefilter("ignore")
    servers, topic = sys.argv[1:3]

    async def main():
        producer = AIOKafkaProducer(bootstrap_servers=servers)
        await producer.start()
        await producer.send_and_wait(topic, b"before")
        pid = os.fork()
        if pid == 0:
            try:
                await producer.send(topic, b"child")
            except errors.IllegalStateError as told:
                await producer.stop()
                os._exit(0 if producer.closed and "fork" in str(told) else 2)
            os._exit(1)
        print("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        await producer.send_and_wait(topic, b"after")
        await producer.stop()

    asyncio.run(main())
    """
    ended = run_program(source, embedded.bootstrap_servers, topic)
    assert (ended.code, ended.out.strip()) == (0, "child 0"), ended.err
    assert embedded.wire.end_offsets(topic) == {0: 2}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_consumer_that_was_created_before_a_fork_starts_in_the_child(
    embedded: Broker, clients: Clients
) -> None:
    topic = filled(embedded, clients, 1)
    source = """
    import asyncio
    from thalweg.aio import AIOKafkaConsumer

    options = {"group_id": sys.argv[2], "auto_offset_reset": "earliest"}
    consumer = AIOKafkaConsumer(sys.argv[2], bootstrap_servers=sys.argv[1], **options)

    async def main():
        async with consumer:
            record = await consumer.getone()
            where = TopicPartition(record.topic, record.partition)
            await consumer.commit({where: 1})
            assert await consumer.committed(where) == 1
        assert consumer.closed

    pid = os.fork()
    if pid == 0:
        asyncio.run(main())
    else:
        print("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """
    ended = run_program(source, embedded.bootstrap_servers, topic)
    assert (ended.code, ended.lines) == (0, ["child 0"]), ended.err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_commit_in_a_child_that_was_forked_during_a_commit_raises(start_embedded: Any) -> None:
    broker: EmbeddedBroker = start_embedded()
    broker.create_topic("t")
    loading = broker.faults.on("OffsetCommit").then_fail("COORDINATOR_LOAD_IN_PROGRESS", times=None)
    source = """
    import asyncio, warnings
    from thalweg.aio import AIOKafkaConsumer
    warnings.simplefilter("ignore")

    async def again(consumer, offsets):
        await asyncio.wait_for(consumer.commit(offsets), 30)

    async def main():
        consumer = AIOKafkaConsumer("t", bootstrap_servers=sys.argv[1], group_id="g")
        await consumer.start()
        offsets = {TopicPartition("t", 0): 1}
        commit = asyncio.create_task(consumer.commit(offsets))
        await asyncio.sleep(0)  # it has begun
        pid = os.fork()
        if pid == 0:
            try:
                asyncio.run(again(consumer, offsets))  # no loop runs in a forked child
            except errors.IllegalStateError as told:
                os._exit(0 if "fork" in str(told) else 2)
            os._exit(1)
        print("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        await commit  # ends when the broker accepts commits again
        await consumer.stop()

    asyncio.run(main())
    """
    with start_program(source, broker.bootstrap_servers) as program:
        program.wait_for("child 0")
        loading.remove()
        ended = program.end()
    assert ended.code == 0, ended.err


def test_a_call_that_nobody_awaits_does_nothing_and_is_told(embedded: Broker) -> None:
    topic = embedded.create_topic("aio-never")

    async def program() -> None:
        async with made(embedded) as producer:
            with pytest.warns(RuntimeWarning, match="never awaited"):
                producer.send(topic, b"v")  # type: ignore[unused-coroutine]
            call = producer.send(topic, b"v")
            await call
            with pytest.raises(RuntimeError, match="already awaited"):
                await call
            assert asyncio.iscoroutine(call)

    run(program())
    assert embedded.wire.end_offsets(topic) == {0: 1}


def test_a_loop_of_sends_leaves_turns_to_others(embedded: Broker) -> None:
    topic = embedded.create_topic("aio-turns")

    async def program() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        async with made(embedded) as producer:
            await producer.partitions_for(topic)
            task = asyncio.create_task(other())
            for _ in range(10_000):
                await producer.send(topic, b"v")
            task.cancel()
        return turns

    assert run(program()) >= 15
