"""Clients that are opened and closed many times leak no thread, file or memory."""

from __future__ import annotations

import pytest

from tests.integration.support.clients import Clients
from tests.integration.support.scripts import run
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker
from tests.support.scale import scaled

pytestmark = one_real_broker

COUNTS = """
import ctypes, gc

def threads():
    return len(os.listdir("/proc/self/task"))

def files():
    return len(os.listdir("/proc/self/fd"))

class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost",
    )]

mallinfo = ctypes.CDLL(None).mallinfo2
mallinfo.restype = Mallinfo

def memory():
    # Bytes that were allocated and not freed; Python's objects too, by PYTHONMALLOC.
    gc.collect()
    found = mallinfo()
    return found.uordblks + found.hblkhd

def settle(what, limit, seconds=30):
    # Sockets are closed by the I/O thread, a moment after close() returned.
    end = time.monotonic() + seconds
    while what() > limit and time.monotonic() < end:
        time.sleep(0.05)
    return what()
"""
# The largest leaks that the test does not detect, for each client and each record. Up to 700 bytes
# and 1 byte are measured.
BYTES_A_ROUND, BYTES_A_RECORD = 5_000, 20
# Without it Python keeps small objects in arenas that C's allocator does not know.
COUNTED = {"PYTHONMALLOC": "malloc"}
ROUND = {
    "producer": """
    with KafkaProducer(bootstrap_servers=servers, buffer_memory=1_000_000) as producer:
        producer.send(topic, b"value").get(20)
""",
    "consumer": """
    with KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.poll(1000)
        consumer.poll_arrow(10)
""",
    "admin": """
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.list_topics()
""",
    "embedded broker": """
    with EmbeddedBroker(nodes=2) as broker:
        with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("t", b"value").get(20)
""",
    "failed constructor": """
    try:
        KafkaProducer(bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=20)
    except errors.NoBrokersAvailable:
        pass
""",
}


@pytest.mark.parametrize("name", ROUND)
def test_opening_and_closing_leaves_nothing_behind(
    broker: Broker, clients: Clients, name: str
) -> None:
    topic = broker.create_topic("leaks")
    clients.producer(broker).send(topic, b"to read").get(20)
    source = f"""
from thalweg import EmbeddedBroker
{COUNTS}
BYTES_A_ROUND = {BYTES_A_ROUND}
servers, topic, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])

def one():
{ROUND[name]}

def after(count):
    for _ in range(count):
        one()
    return memory()

after(10)
before = threads(), files(), memory()
half = after(rounds // 2)
end = after(rounds // 2)
assert settle(threads, before[0]) <= before[0], (before, threads())
assert settle(files, before[1]) <= before[1], (before, files())
# Of a closed client the I/O thread frees the last a moment later.
allowed = rounds // 2 * BYTES_A_ROUND
grown = settle(memory, half + allowed) - half
assert grown <= allowed, (grown, half - before[2])
"""
    rounds = scaled(1000, minimum=40)
    run(source, broker.bootstrap_servers, topic, rounds, limit_s=280, environment=COUNTED)


def test_sending_and_polling_for_long_does_not_grow(broker: Broker) -> None:
    topic = broker.create_topic("growth", configs={"retention.bytes": "10000000"})
    source = f"""
{COUNTS}
BYTES_A_RECORD = {BYTES_A_RECORD}
servers, topic, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
producer = KafkaProducer(bootstrap_servers=servers)
consumer = KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
consumer.assign([TopicPartition(topic, 0)])

def one():
    for number in range(500):
        producer.send(topic, bytes(100), key=b"k", headers=[("h", b"1")]).add_callback(id)
    producer.flush(20)
    found = 0
    while found < 500:
        for records in consumer.poll(1000).values():
            found += len(records)
            records[0].headers

for _ in range(20):
    one()
before = threads(), files(), memory()
for _ in range(rounds):
    one()
assert settle(threads, before[0]) <= before[0]
assert settle(files, before[1]) <= before[1]  # a slow response may have cost a connection
allowed = rounds * 500 * BYTES_A_RECORD
grown = settle(memory, before[2] + allowed) - before[2]
assert grown <= allowed, grown
producer.close()
consumer.close()
"""
    rounds = scaled(5000, minimum=50)
    run(source, broker.bootstrap_servers, topic, rounds, limit_s=280, environment=COUNTED)


def test_threads_are_few_and_start_at_first_use(broker: Broker) -> None:
    topic = broker.create_topic("few")
    source = f"""
{COUNTS}
servers, topic = sys.argv[1:]
assert threads() == 1
clients = [KafkaProducer(bootstrap_servers=servers) for _ in range(20)]
for each in clients:
    each.send(topic, b"value").get(20)
few = threads()
assert few < 10, os.listdir("/proc/self/task")
more = [KafkaConsumer(bootstrap_servers=servers) for _ in range(20)]
assert threads() == few
for each in clients + more:
    each.close()
"""
    run(source, broker.bootstrap_servers, topic)


def test_importing_starts_nothing_and_loads_no_native_code() -> None:
    source = """
    import subprocess
    code = (
        "import sys, os, thalweg, thalweg.spark;"
        "assert 'thalweg._core' not in sys.modules;"
        "assert len(os.listdir('/proc/self/task')) == 1"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    """
    assert run(source).code == 0
