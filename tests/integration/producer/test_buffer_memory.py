"""buffer_memory: the limit holds, waits for memory are limited, and memory is given back."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tests.integration.support.clients import Clients, read, within
from tests.integration.support.scripts import run
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker
from tests.support.scale import scaled
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker, KafkaProducer
from thalweg.errors import BatchSendError, BufferExhaustedError, KafkaTimeoutError

MEMORY = 1_000_000
# A limit that is large compared with the rest of the process, and the size of that rest: the
# batches' own data, headers of requests, threads, the interpreter and the allocator.
LARGE_MEMORY = 64_000_000
BESIDES_BYTES = 16_000_000
# Prints the bytes of records that fit, the growth of the process at its peak, and what is left.
FILLER = """
import psutil

memory = int(sys.argv[2])
producer = KafkaProducer(bootstrap_servers=sys.argv[1], buffer_memory=memory, max_block_ms=50)
while True:
    try:
        producer.partitions_for("full")
        break
    except errors.KafkaTimeoutError:
        pass  # 50 ms were too short for metadata
process, full = psutil.Process(), threading.Event()
sizes = [process.memory_info().rss]

def sample():
    while not full.wait(0.002):
        sizes.append(process.memory_info().rss)

# A daemon: an error ends the program with its message.
sampler = threading.Thread(target=sample, daemon=True)
sampler.start()
value, large, fitted = bytes(1000), bytes(1_000_000), 0
try:
    while fitted <= memory:
        producer.send("full", value)
        fitted += len(value)
except errors.BufferExhaustedError:
    for _ in range(40):
        try:
            producer.send("full", large)
        except errors.BufferExhaustedError:
            continue
        raise AssertionError("room for a megabyte")
    sizes.append(process.memory_info().rss)  # however late the other thread looks
full.set()
sampler.join()
figures = producer.metrics()["producer-metrics"]
print(fitted, max(sizes) - sizes[0], int(figures["buffer-available-bytes"]))
producer.close(timeout=0)
"""


@pytest.fixture
def silent(start_embedded: Any) -> EmbeddedBroker:
    """A broker that accepts Produce requests and never responds to them."""
    broker: EmbeddedBroker = start_embedded()
    broker.create_topic("full")
    broker.faults.on("Produce").then_silence(times=None)
    return broker


def _small(clients: Clients, broker: Any, **options: Any) -> KafkaProducer[Any, Any]:
    options = {"buffer_memory": MEMORY, "max_block_ms": 800, **options}
    return clients.producer(broker, **options)


def _wait_known(producer: KafkaProducer[Any, Any], topic: str) -> None:
    """Waits until metadata names the topic, which may take longer than `max_block_ms`."""

    def is_known() -> bool:
        try:
            return bool(producer.partitions_for(topic))
        except KafkaTimeoutError:
            return False

    wait_until(is_known, 60, what=f"metadata of {topic}")


def _fill_up(producer: Any, topic: str, size: int = 1000) -> list[Any]:
    """Sends until the memory is full."""
    _wait_known(producer, topic)
    sent: list[Any] = []
    for _ in range(10 * MEMORY // size):
        try:
            sent.append(producer.send(topic, bytes(size)))
        except BufferExhaustedError:
            return sent
    raise AssertionError(f"{len(sent)} records of {size} bytes fit into {MEMORY}")


def test_a_full_buffer_ends_in_an_error_for_that_record_only(
    silent: EmbeddedBroker, clients: Clients
) -> None:
    """Scenario 28."""
    producer = _small(clients, silent)
    sent = _fill_up(producer, "full")
    assert 0.5 * MEMORY <= len(sent) * 1000 <= MEMORY
    for _ in range(2):
        with within(30, at_least_s=0.7), pytest.raises(BufferExhaustedError, match="max_block_ms"):
            producer.send("full", bytes(1000))
    assert not any(each.is_done for each in sent)
    silent.faults.clear()
    producer.close(timeout=0)
    assert all(isinstance(each.exception, KafkaTimeoutError) for each in sent)


def test_memory_stays_under_the_cap(silent: EmbeddedBroker) -> None:
    """Scenario 28: while the buffer fills and when it is full. The broker runs in this process."""
    ended = run(FILLER, silent.bootstrap_servers, LARGE_MEMORY)
    fitted, grown, available = map(int, ended.lines[-1].split())
    assert 0.5 * LARGE_MEMORY <= fitted <= LARGE_MEMORY
    assert 0.8 * fitted <= grown <= LARGE_MEMORY + BESIDES_BYTES
    assert 0 <= available < 0.2 * LARGE_MEMORY


def test_a_waiting_send_goes_on_as_soon_as_there_is_room(
    start_embedded: Any, clients: Clients
) -> None:
    broker: EmbeddedBroker = start_embedded()
    broker.create_topic("room")
    producer = _small(clients, broker, max_block_ms=60_000)
    producer.partitions_for("room")
    broker.faults.on("Produce").then_delay(1500)
    with within(30, at_least_s=0.8):
        for _ in range(2 * MEMORY // 1000):
            producer.send("room", bytes(1000))
    producer.flush(20)
    wait_until(lambda: _available(producer) == MEMORY, 10)


def _available(producer: KafkaProducer[Any, Any]) -> float:
    return float(producer.metrics()["producer-metrics"]["buffer-available-bytes"])


@one_real_broker
def test_all_memory_comes_back(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("back", 3)
    producer = _small(clients, broker, max_block_ms=30_000, compression_type="lz4")
    producer.send(topic, b"first").get(20)
    for number in range(scaled(200_000, minimum=1000)):
        producer.send(topic, b"%06d" % number * 50, partition=number % 3)
    producer.flush(60)
    # A batch gives its memory back a moment after its records are acknowledged.
    wait_until(lambda: _available(producer) == MEMORY, 10)


@one_real_broker
def test_threads_that_wait_are_all_served(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("crowd", 2)
    producer = _small(clients, broker, buffer_memory=100_000, max_block_ms=60_000)
    each = scaled(20_000, minimum=100)

    def send(number: int) -> None:
        for _ in range(each):
            producer.send(topic, bytes([number]) * 3000, partition=number % 2)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    producer.flush(60)
    assert sum(broker.wire.end_offsets(topic).values()) == 8 * each


@one_real_broker
@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_sixteen_threads_share_a_pool_of_two_batches(
    broker: Broker, clients: Clients, codec: str | None
) -> None:
    """All threads finish, in whatever order the appenders and the sender wait."""
    topic = broker.create_topic(f"two-batches-{codec}", 3)
    batch = 16_384
    producer = clients.producer(
        broker,
        buffer_memory=2 * batch,
        batch_size=batch,
        linger_ms=50,
        compression_type=codec,
        max_block_ms=60_000,
    )
    each = scaled(5_000, minimum=60)
    refused: list[BaseException] = []

    def send(number: int) -> None:
        try:
            for row in range(each):
                producer.send(topic, bytes([number]) * (100 + 700 * (row % 3)), partition=row % 3)
        except BaseException as error:
            refused.append(error)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    producer.flush(60)
    assert refused == []
    assert sum(broker.wire.end_offsets(topic).values()) == 16 * each
    wait_until(lambda: _available(producer) == 2 * batch, 10)


def test_waiting_for_memory_does_not_hold_the_interpreter(
    silent: EmbeddedBroker, clients: Clients
) -> None:
    producer = _small(clients, silent, max_block_ms=1000)
    _fill_up(producer, "full")
    turns = 0
    stop = threading.Event()

    def count() -> None:
        nonlocal turns
        while not stop.is_set():
            turns += 1
            time.sleep(0.005)

    counter = threading.Thread(target=count)
    counter.start()
    # A busy machine gets more time, but between these waits the other thread has few turns.
    for _ in range(5):
        with pytest.raises(BufferExhaustedError):
            producer.send("full", bytes(1000))
        if turns > 20:
            break
    stop.set()
    counter.join()
    assert turns > 20
    producer.close(timeout=0)


def test_the_rest_of_a_list_fails_when_its_time_is_over(
    silent: EmbeddedBroker, clients: Clients
) -> None:
    producer = _small(clients, silent)
    rows = 3 * MEMORY // 1000
    _wait_known(producer, "full")
    with within(30):
        sent = producer.send_many("full", [bytes(1000)] * rows)
    silent.faults.clear()
    producer.close(timeout=0)
    with pytest.raises(BatchSendError) as caught:
        sent.get(10)
    failed = caught.value.errors
    assert [row for row, _ in failed] == list(range(rows))
    kinds = [type(error) for _, error in failed]
    written, refused = kinds.index(BufferExhaustedError), kinds.count(BufferExhaustedError)
    assert 0.5 * MEMORY <= written * 1000 <= MEMORY
    assert written + refused == rows


def test_metadata_and_memory_share_one_budget(start_embedded: Any, clients: Clients) -> None:
    broker: EmbeddedBroker = start_embedded()
    producer = _small(clients, broker, max_block_ms=1000)
    with (
        broker.faults.on("Metadata").then_silence(times=None),
        within(20, at_least_s=0.9),
        pytest.raises(KafkaTimeoutError),
    ):
        producer.send("unknown", b"value")
    producer.close(timeout=0)


def test_what_metadata_took_of_the_budget_is_gone_for_memory(
    start_embedded: Any, clients: Clients
) -> None:
    broker: EmbeddedBroker = start_embedded()
    broker.create_topic("full")
    broker.create_topic("later")
    producer = _small(clients, broker, max_block_ms=10_000, request_timeout_ms=60_000)
    _wait_known(producer, "full")
    broker.faults.on("Produce").then_silence(times=None)
    while _available(producer) > 100_000:
        producer.send("full", bytes(10_000))
    broker.faults.on("Metadata").then_delay(5000, times=None)
    # 5 s pass for metadata, then 5 s are left. Two limits of 10 s would take 15 s. A pause of the
    # machine may take most of the 5 s, before or after the metadata.
    with within(14.8, at_least_s=9.9), pytest.raises(BufferExhaustedError):
        producer.send("later", bytes(200_000))
    producer.close(timeout=0)


def test_delivery_timeout_frees_memory_and_tells_of_a_possible_write(
    silent: EmbeddedBroker, clients: Clients
) -> None:
    producer = _small(
        clients, silent, delivery_timeout_ms=4000, request_timeout_ms=600, max_block_ms=60_000
    )
    sent = producer.send("full", bytes(1000))
    with within(30), pytest.raises(KafkaTimeoutError, match="delivery_timeout_ms") as caught:
        sent.get(40)
    assert caught.value.possibly_written
    silent.faults.clear()
    wait_until(lambda: _available(producer) == MEMORY, 20)
    assert producer.send("full", b"next").get(20).offset == 0
    consumer = clients.consumer(silent, "full")
    assert [each.value for each in read(consumer, 1)] == [b"next"]
