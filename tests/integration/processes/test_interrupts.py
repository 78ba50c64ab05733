"""Ctrl-C during every call that waits raises KeyboardInterrupt at once, and the program ends."""

from __future__ import annotations

import ctypes
import itertools
import operator
import signal
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tests.integration.support.aio import made
from tests.integration.support.aio import run as run_loop
from tests.integration.support.clients import Clients, fill, read
from tests.integration.support.scripts import run, start
from tests.support.brokers import Broker
from tests.support.ports import free_port
from tests.support.runs.selection import one_real_broker
from thalweg import ConsumerInterceptor, EmbeddedBroker, TopicPartition

PROMPT_S = 30.0

# Each of these calls blocks for far longer than the test waits.
CONSUMER = """
consumer = KafkaConsumer(bootstrap_servers=sys.argv[1])
consumer.assign([TopicPartition(sys.argv[2], 0)])
consumer.poll(100)
"""
PRODUCER = """
producer = KafkaProducer(
    bootstrap_servers=sys.argv[1], linger_ms=0, buffer_memory=100_000, batch_size=10_000
)
producer.partitions_for(sys.argv[2])
"""
WAITS = {
    "poll": (CONSUMER, "consumer.poll(60_000)"),
    "poll without limit": (CONSUMER, "consumer.poll(None)"),
    "poll_arrow": (CONSUMER, "consumer.poll_arrow(60_000)"),
    "next": (CONSUMER, "next(consumer)"),
    "for": (CONSUMER, "for _ in consumer: pass"),
    "get": (PRODUCER, "producer.send(sys.argv[2], b'v').get()"),
    "get with limit": (PRODUCER, "producer.send(sys.argv[2], b'v').get(60)"),
    "flush": (PRODUCER, "producer.send(sys.argv[2], b'v'); producer.flush()"),
    "close": (PRODUCER, "producer.send(sys.argv[2], b'v'); producer.close()"),
    "memory": (PRODUCER, "[producer.send(sys.argv[2], bytes(1000)) for _ in range(1000)]"),
    "send_many": (PRODUCER, "producer.send_many(sys.argv[2], [bytes(1000)] * 1000)"),
}
SOURCE = """
# As a shell has it for a job in the foreground; a test runner may have it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
{setup}
try:
    print("waiting", flush=True)
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
os._exit(7)
"""


@pytest.fixture
def silent(start_embedded: Any) -> EmbeddedBroker:
    """A broker whose topic t is empty, and which accepts no records."""
    broker: EmbeddedBroker = start_embedded()
    broker.create_topic("t")
    broker.faults.on("Produce").then_silence(times=None)
    return broker


@pytest.mark.parametrize("name", WAITS)
def test_ctrl_c_ends_a_wait_at_once(silent: EmbeddedBroker, name: str) -> None:
    setup, call = WAITS[name]
    source = SOURCE.format(setup=setup, call=call)
    with start(source, silent.bootstrap_servers, "t") as script:
        script.wait_for("waiting")
        time.sleep(0.3)  # until the call waits
        began = time.monotonic()
        script.interrupt()
        script.wait_for("interrupted")
        assert time.monotonic() - began < PROMPT_S
        assert script.end().code == 7


def test_ctrl_c_ends_a_constructor_that_waits_for_a_broker() -> None:
    setup, call = "", "KafkaProducer(bootstrap_servers=sys.argv[1], bootstrap_timeout_ms=60_000)"
    source = SOURCE.format(setup=setup, call=call)
    with start(source, f"127.0.0.1:{free_port()}") as script:
        script.wait_for("waiting")
        time.sleep(0.3)
        began = time.monotonic()
        script.interrupt()
        script.wait_for("interrupted")
        assert time.monotonic() - began < PROMPT_S


@one_real_broker
def test_ctrl_c_ends_a_program_that_does_not_catch_it(broker: Broker) -> None:
    """Open clients are closed at exit, within a limit."""
    topic = broker.create_topic("uncaught")
    source = """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    producer = KafkaProducer(bootstrap_servers=sys.argv[1])
    consumer = KafkaConsumer(bootstrap_servers=sys.argv[1])
    consumer.assign([TopicPartition(sys.argv[2], 0)])
    print("waiting", flush=True)
    consumer.poll(60_000)
    """
    with start(source, broker.bootstrap_servers, topic) as script:
        script.wait_for("waiting")
        time.sleep(0.3)
        began = time.monotonic()
        script.interrupt()
        ended = script.end()
    assert time.monotonic() - began < PROMPT_S
    assert "KeyboardInterrupt" in ended.err
    assert ended.code in (130, -2)


@one_real_broker
def test_an_interrupted_client_goes_on(broker: Broker) -> None:
    topic = broker.create_topic("goeson")
    source = """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    servers, topic = sys.argv[1:]
    consumer = KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    try:
        print("waiting", flush=True)
        consumer.poll(600_000)  # longer than the test waits
    except KeyboardInterrupt:
        pass
    with KafkaProducer(bootstrap_servers=servers) as producer:
        producer.send(topic, b"value").get(20)
    print(next(consumer).value)
    consumer.close()
    """
    with start(source, broker.bootstrap_servers, topic) as script:
        script.wait_for("waiting")
        time.sleep(0.3)
        script.interrupt()
        ended = script.end()
    assert ended.lines == ["waiting", "b'value'"]
    assert ended.code == 0


@one_real_broker
def test_a_signal_handler_that_returns_does_not_end_the_wait(broker: Broker) -> None:
    topic = broker.create_topic("handler")
    source = """
    calls = []
    signal.signal(signal.SIGUSR1, lambda *_: calls.append(1))
    consumer = KafkaConsumer(bootstrap_servers=sys.argv[1])
    consumer.assign([TopicPartition(sys.argv[2], 0)])
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    began = time.monotonic()
    found = consumer.poll(1500)
    took = time.monotonic() - began
    timer.join()  # on a busy machine the signal may come after the wait
    end = time.monotonic() + 20
    while not calls and time.monotonic() < end:
        time.sleep(0.01)
    print(found, calls, took >= 1.4)
    consumer.close()
    """
    ended = run(source, broker.bootstrap_servers, topic)
    assert ended.lines == ["{} [1] True"]


@one_real_broker
def test_signals_reach_the_main_thread_while_another_waits(broker: Broker) -> None:
    topic = broker.create_topic("other")
    source = """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    consumer = KafkaConsumer(bootstrap_servers=sys.argv[1])
    consumer.assign([TopicPartition(sys.argv[2], 0)])
    def wait():
        try:
            consumer.poll(600_000)
        except errors.WakeupError:
            pass
    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    try:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        time.sleep(30)
    except KeyboardInterrupt:
        print("main", waiting.is_alive())
    consumer.wakeup()
    waiting.join()
    consumer.close()
    """
    assert run(source, broker.bootstrap_servers, topic).lines == ["main True"]


@pytest.mark.parametrize(
    "call",
    [
        "[producer.send(topic, bytes(1000)) for _ in range(1000)]",
        "producer.send_many(topic, [bytes(1000)] * 1000)",
    ],
)
def test_an_interceptor_hears_of_the_record_that_ctrl_c_kept_from_being_sent(
    call: str, silent: EmbeddedBroker
) -> None:
    source = f"""
    from thalweg import ProducerInterceptor
    signal.signal(signal.SIGINT, signal.default_int_handler)

    class Hears(ProducerInterceptor):
        def on_send(self, record):
            return record

        def on_acknowledgement(self, metadata, error):
            if isinstance(error, KeyboardInterrupt):
                print("heard", flush=True)

    topic = sys.argv[2]
    producer = KafkaProducer(
        bootstrap_servers=sys.argv[1],
        linger_ms=0,
        buffer_memory=100_000,
        batch_size=10_000,
        interceptors=[Hears()],
    )
    producer.partitions_for(topic)

    def watch():
        # What is appended and never acknowledged fills the memory; then the next one waits.
        end = time.monotonic() + 30
        while time.monotonic() < end:
            found = producer.metrics()["producer-metrics"]
            if found["buffer-available-bytes"] <= 10_000 and found["waiting-threads"]:
                break
            time.sleep(0.01)
        print("waiting", flush=True)

    threading.Thread(target=watch, daemon=True).start()
    try:
        {call}
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    os._exit(7)
    """
    with start(source, silent.bootstrap_servers, "t") as script:
        script.wait_for("waiting")
        time.sleep(0.3)  # until the call waits
        script.interrupt()
        script.wait_for("interrupted")
        ended = script.end()
    assert ended.lines == ["waiting", "heard", "interrupted"]


@one_real_broker
def test_ctrl_c_in_a_serializer_ends_a_list_there(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("list")

    def serialize(value: int) -> bytes:
        if value == 2:
            raise KeyboardInterrupt
        return b"%d" % value

    producer = clients.producer(broker, value_serializer=serialize)
    with pytest.raises(KeyboardInterrupt):
        producer.send_many(topic, [0, 1, 2, 3], partition=0)
    producer.flush()
    consumer = clients.consumer(broker)
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    assert [record.value for record in read(consumer, 2)] == [b"0", b"1"]
    assert consumer.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 2}


class Interrupted(ConsumerInterceptor):
    """Raises Ctrl-C within the second call."""

    def __init__(self) -> None:
        self._calls = 0

    def on_consume(self, records: Any) -> Any:
        self._calls += 1
        if self._calls == 2:
            raise KeyboardInterrupt
        return records


def _poll(consumer: Any) -> list[Any]:
    return [each for found in consumer.poll(20_000).values() for each in found]


@one_real_broker
@pytest.mark.parametrize("take", [_poll, lambda consumer: [next(consumer)]], ids=["poll", "next"])
def test_records_whose_interceptor_ctrl_c_ends_are_handed_out_again(
    broker: Broker, clients: Clients, take: Callable[[Any], list[Any]]
) -> None:
    topic = broker.create_topic("within", 2)
    for partition in (0, 1):
        fill(clients, broker, topic, 10, partition=partition)
    where = [TopicPartition(topic, partition) for partition in (0, 1)]
    consumer = clients.consumer(
        broker, topic, (0, 1), max_poll_records=15, interceptors=[Interrupted()]
    )
    found = take(consumer)
    with pytest.raises(KeyboardInterrupt):
        take(consumer)
    assert sum(map(consumer.position, where)) == len(found)
    found += read(consumer, 20 - len(found))
    offsets = [[each.offset for each in found if each.partition == p] for p in (0, 1)]
    assert offsets == [list(range(10))] * 2


def test_a_close_after_ctrl_c_commits_only_what_was_handed_out(
    broker: Broker, clients: Clients
) -> None:
    topic = broker.create_topic("committed")
    fill(clients, broker, topic, 20)
    options: dict[str, Any] = {"group_id": topic, "max_poll_records": 5}
    consumer = clients.consumer(broker, topic, interceptors=[Interrupted()], **options)
    received = len(read(consumer, 1))
    with pytest.raises(KeyboardInterrupt):
        read(consumer, 1)
    consumer.close()
    after = clients.consumer(broker, topic, **options)
    assert after.committed(TopicPartition(topic, 0)) == received


@one_real_broker
def test_records_of_asyncio_whose_interceptor_ctrl_c_ends_are_handed_out_again(
    broker: Broker, clients: Clients
) -> None:
    topic = broker.create_topic("task")
    fill(clients, broker, topic, 20)

    async def program(many: bool) -> None:
        async with made(broker, topic, interceptors=[Interrupted()]) as consumer:

            async def take(most: int) -> list[int]:
                if not many:
                    return [(await consumer.getone()).offset]
                batches = await consumer.getmany(timeout_ms=20_000, max_records=most)
                return [each.offset for records in batches.values() for each in records]

            found = await take(5)
            with pytest.raises(KeyboardInterrupt):
                await take(5)
            while len(found) < 20:
                found += await take(20)
            assert found == list(range(20))

    for many in (True, False):
        run_loop(program(many))


def test_close_after_an_interrupted_close_closes_the_serializer(silent: EmbeddedBroker) -> None:
    source = """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    class Kept:
        def serialize(self, topic, headers, value):
            return value
        def close(self):
            print("closed", flush=True)
    producer = KafkaProducer(
        bootstrap_servers=sys.argv[1], linger_ms=0, value_serializer=Kept(),
        request_timeout_ms=1000,
    )
    producer.send("t", b"v")
    def interrupt():
        while True:  # until close() waits
            try:
                producer.send("t", b"v")
            except errors.IllegalStateError:
                break
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        producer.close()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    while not producer.closed:
        time.sleep(0.01)
    producer.close(0)
    producer.close(0)
    """
    with start(source, silent.bootstrap_servers) as script:
        script.wait_for("interrupted")
        silent.faults.clear()  # the close continues in the background, and can end now
        ended = script.end()
    assert ended.code == 0, ended.err
    assert ended.out.split() == ["interrupted", "closed"]


class Alarm(Exception):
    """What the handler of a signal raises."""


def _interrupt(number: int, frame: Any) -> None:
    raise Alarm


def _send_with_alarm(producer: Any, topic: str, stream: Any) -> None:
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.02)
    producer.send_arrow(topic, stream)


def test_a_signal_ends_the_reading_of_an_arrow_stream(embedded: Broker, clients: Clients) -> None:
    topic, producer = embedded.create_topic("stream"), clients.producer(embedded)
    batch = pa.record_batch({"value": [b"v"]})
    # Python runs no code between these batches, so it runs no handler.
    batches = itertools.repeat(batch, 100_000)
    stream = pa.RecordBatchReader.from_batches(batch.schema, batches)
    before = signal.signal(signal.SIGVTALRM, _interrupt)
    try:
        with pytest.raises(Alarm):
            _send_with_alarm(producer, topic, stream)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert operator.length_hint(batches) > 0
    producer.flush(10)
    assert embedded.wire.end_offsets(topic) == {0: 0}


def test_a_signal_comes_before_an_error_of_an_arrow_stream(
    embedded: Broker, clients: Clients
) -> None:
    topic, producer = embedded.create_topic("broken"), clients.producer(embedded)
    batch = pa.record_batch({"value": [b"v"]})
    # Unlike Python's own function, C's only sets a flag. A number instead of a batch is an error.
    sends = map(ctypes.CDLL(None)["raise"], [signal.SIGVTALRM])
    stream = pa.RecordBatchReader.from_batches(batch.schema, itertools.chain([batch], sends))
    before = signal.signal(signal.SIGVTALRM, _interrupt)
    try:
        with pytest.raises(Alarm) as caught:
            producer.send_arrow(topic, stream)
        assert caught.value.__context__ is None
    finally:
        signal.signal(signal.SIGVTALRM, before)
