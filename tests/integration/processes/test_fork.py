"""fork() with open clients: a clear error in the child, an unharmed parent, new clients work."""

from __future__ import annotations

import sys

import pytest

from tests.integration.support.scripts import run
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="there is no fork"),
    one_real_broker,
]

PRELUDE = """
import warnings
warnings.simplefilter("ignore")
servers, topic = sys.argv[1:3]

def in_child(work):
    # Runs work in a forked child; it has 60 seconds.
    pid = os.fork()
    if pid == 0:
        try:
            work()
            sys.stdout.flush()
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGABRT)
    os.waitpid(pid, 0)
    raise SystemExit("the child hangs")
"""
OPEN = """
producer = KafkaProducer(bootstrap_servers=servers)
producer.send(topic, b"before").get(20)
consumer = KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
consumer.assign([TopicPartition(topic, 0)])
assert next(consumer).value == b"before"
admin = KafkaAdminClient(bootstrap_servers=servers)
"""


def test_clients_of_the_parent_say_so_in_the_child(broker: Broker) -> None:
    """As in confluent-kafka-python #172, #1409 and librdkafka #2374: flush hung in the child.

    It waited for threads that exist only in the parent. Bug 22.
    """
    topic = broker.create_topic("fork")
    source = f"""{PRELUDE}{OPEN}
def work():
    calls = dict(
        send=lambda: producer.send(topic, b"child"),
        send_many=lambda: producer.send_many(topic, [b"child"]),
        flush=lambda: producer.flush(1),
        partitions=lambda: producer.partitions_for(topic),
        poll=lambda: consumer.poll(100),
        poll_arrow=lambda: consumer.poll_arrow(100),
        next=lambda: next(consumer),
        position=lambda: consumer.position(TopicPartition(topic, 0)),
        topics=lambda: admin.list_topics(),
    )
    for name, call in calls.items():
        began = time.monotonic()
        try:
            call()
        except errors.IllegalStateError as error:
            assert "fork" in str(error), error
        else:
            raise AssertionError(name + " worked in the child")
        assert time.monotonic() - began < 15, name
    print("child done", flush=True)

assert in_child(work) == 0
# The parent continues.
assert producer.send(topic, b"after").get(20).offset == 1
assert next(consumer).value == b"after"
assert topic in admin.list_topics()
for each in (producer, consumer, admin):
    each.close()
print("parent done")
"""
    ended = run(source, broker.bootstrap_servers, topic)
    assert ended.lines == ["child done", "parent done"]
    assert broker.wire.end_offsets(topic) == {0: 2}


def test_futures_and_requests_of_the_parent_say_so_in_the_child(broker: Broker) -> None:
    topic = broker.create_topic("futures")
    source = f"""{PRELUDE}{OPEN}
from functools import partial

slow = KafkaProducer(bootstrap_servers=servers, linger_ms=60_000)
done = slow.send(topic, b"done")
slow.flush(20)
one = slow.send(topic, b"one")
many = slow.send_many(topic, [b"two", b"three"])
partition = dict(Partition=0, FetchOffset=2, PartitionMaxBytes=1000)
asked = slow._core_client.submit(
    "Fetch",
    dict(MaxWaitMs=30_000, MinBytes=1, Topics=[dict(Topic=topic, Partitions=[partition])]),
    node=1,
    version=11,
)

def work():
    assert done.get(1).offset == 1
    seen = []
    done.add_callback(lambda metadata: seen.append(metadata.offset))
    assert seen == [1]
    calls = [
        call
        for future in (one, many)
        for call in (future.get, partial(future.get, 5), partial(future.add_both, print))
    ]
    for call in [*calls, asked.result]:
        began = time.monotonic()
        try:
            call()
        except errors.IllegalStateError as error:
            assert "fork" in str(error), error
        else:
            raise AssertionError("a call worked in the child")
        assert time.monotonic() - began < 15
    assert not one.is_done and not many.is_done

assert in_child(work) == 0
slow.flush(20)
assert one.get(0).offset == 2
assert list(many.get(0).offsets) == [3, 4]
assert asked.result()["Responses"]
"""
    run(source, broker.bootstrap_servers, topic)


def test_closing_a_client_of_the_parent_is_quiet_in_the_child(broker: Broker) -> None:
    """The client is closed by a call, at the end of a with block, or when it is collected."""
    topic = broker.create_topic("quiet")
    source = f"""{PRELUDE}{OPEN}
import gc, logging

logging.basicConfig(level=logging.INFO)
member = KafkaConsumer(topic, bootstrap_servers=servers, group_id=topic)
member.poll(100)
slow = KafkaProducer(bootstrap_servers=servers, linger_ms=60_000)
unsent = slow.send(topic, b"unsent")
clients = [producer, consumer, admin, member, slow]
del producer, consumer, admin, member, slow
heard = []

def quietly(work):
    def checked():
        warnings.resetwarnings()
        logging.getLogger().addHandler(type("H", (logging.Handler,), dict(
            emit=lambda self, record: heard.append(record.getMessage())
        ))())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            work()
        assert not caught, [str(each.message) for each in caught]
        assert not heard, heard
    return checked

def closed():
    for each in clients:
        assert each.closed
        began = time.monotonic()
        with each:
            pass
        each.close()
        assert time.monotonic() - began < 15, each

def collected():
    clients.clear()
    gc.collect()

assert in_child(quietly(closed)) == 0
assert in_child(quietly(collected)) == 0
assert not unsent.is_done, "a child sent what its parent has buffered"
for each in clients:
    assert not each.closed
    each.close()
assert unsent.get(0).offset == 1
"""
    run(source, broker.bootstrap_servers, topic)
    assert broker.wire.end_offsets(topic) == {0: 2}


def test_a_child_makes_clients_of_its_own(broker: Broker) -> None:
    topic = broker.create_topic("again")
    source = f"""{PRELUDE}{OPEN}
def work():
    with KafkaProducer(bootstrap_servers=servers) as mine:
        assert mine.send(topic, b"child").get(20).offset == 1
    with KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as mine:
        mine.assign([TopicPartition(topic, 0)])
        assert [next(mine).value for _ in range(2)] == [b"before", b"child"]
    with KafkaAdminClient(bootstrap_servers=servers) as mine:
        assert topic in mine.list_topics()

assert in_child(work) == 0
assert next(consumer).value == b"child"
assert producer.send(topic, b"after").get(20).offset == 2
def again():
    with KafkaProducer(bootstrap_servers=servers) as mine:
        mine.send(topic, b"again").get(20)

def child_with_child():
    mine = KafkaProducer(bootstrap_servers=servers)
    mine.send(topic, b"child").get(20)
    assert in_child(again) == 0
    mine.send(topic, b"child").get(20)
    mine.close()

assert in_child(again) == 0
assert in_child(child_with_child) == 0
assert producer.send(topic, b"last").get(20).offset == 7
"""
    run(source, broker.bootstrap_servers, topic)


def test_a_child_that_just_ends_touches_nothing(broker: Broker) -> None:
    """The child ends by os._exit or by a normal interpreter exit, with unsent records."""
    topic = broker.create_topic("ends")
    source = f"""{PRELUDE}{OPEN}
slow = KafkaProducer(bootstrap_servers=servers, linger_ms=3000)
unsent = [slow.send(topic, b"unsent") for _ in range(10)]
assert in_child(lambda: None) == 0
pid = os.fork()
if pid == 0:
    sys.exit(0)  # atexit handlers and destructors run in the child
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
slow.flush(20)
assert [each.get(0).offset for each in unsent] == list(range(1, 11))
"""
    run(source, broker.bootstrap_servers, topic)
    assert broker.wire.end_offsets(topic) == {0: 11}


def test_a_child_that_just_ends_leaves_an_embedded_broker_to_its_parent() -> None:
    source = """
from thalweg import EmbeddedBroker

broker = EmbeddedBroker().start()
broker.create_topic("t")
read, write = os.pipe()
pid = os.fork()
if pid == 0:
    os.dup2(write, 2)
    sys.exit(0)  # what was made at the start ends in the child, too
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
os.close(write)
assert os.read(read, 1000) == b"", "the child complains"
with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
    assert producer.send("t", b"v").get(20).offset == 0
broker.close()
"""
    run(source, "", "")


def test_a_child_that_leaves_the_block_of_an_embedded_broker_ends_well() -> None:
    source = """
from thalweg import EmbeddedBroker

with EmbeddedBroker() as broker:
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        assert repr(broker) == f"<EmbeddedBroker of process {parent}>"
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert broker.bootstrap_servers in repr(broker)
    broker.create_topic("t")
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        assert producer.send("t", b"v").get(20).offset == 0
"""
    run(source, "", "")


def test_fork_while_threads_send_and_poll(broker: Broker) -> None:
    """Other threads may hold any lock at that moment."""
    topic = broker.create_topic("busy")
    source = f"""{PRELUDE}
producer = KafkaProducer(bootstrap_servers=servers)
consumer = KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
consumer.assign([TopicPartition(topic, 0)])
stop = threading.Event()

def send():
    while not stop.is_set():
        producer.send(topic, b"value")
        time.sleep(0)

def poll():
    while not stop.is_set():
        consumer.poll(10)

threads = [threading.Thread(target=send) for _ in range(2)] + [threading.Thread(target=poll)]
for each in threads:
    each.start()

def work():
    try:
        producer.send(topic, b"child")
    except errors.IllegalStateError:
        pass
    else:
        raise AssertionError("sent in the child")
    with KafkaProducer(bootstrap_servers=servers) as mine:
        mine.send(topic, b"child").get(20)

for _ in range(10):
    assert in_child(work) == 0
stop.set()
for each in threads:
    each.join()
producer.close()
consumer.close()
"""
    run(source, broker.bootstrap_servers, topic)


def test_multiprocessing_by_fork(broker: Broker) -> None:
    topic = broker.create_topic("multi", 4)
    source = f"""{PRELUDE}
import multiprocessing
context = multiprocessing.get_context("fork")
parent = KafkaProducer(bootstrap_servers=servers)
parent.send(topic, b"parent", partition=0).get(20)

def work(partition):
    try:
        parent.send(topic, b"wrong", partition=partition)
    except errors.IllegalStateError:
        pass
    else:
        raise AssertionError("sent by the parent's producer")
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for number in range(100):
            producer.send(topic, b"%d" % number, partition=partition)

processes = [context.Process(target=work, args=(partition,)) for partition in range(4)]
for each in processes:
    each.start()
for each in processes:
    each.join(90)
assert [each.exitcode for each in processes] == [0] * 4, [each.exitcode for each in processes]
parent.send(topic, b"parent", partition=0).get(20)
parent.close()
"""
    run(source, broker.bootstrap_servers, topic)
    assert broker.wire.end_offsets(topic) == {0: 102, 1: 100, 2: 100, 3: 100}


def test_a_pool_of_forked_workers_may_use_clients_of_their_own(broker: Broker) -> None:
    topic = broker.create_topic("pool")
    source = f"""{PRELUDE}
import concurrent.futures, multiprocessing

def send(number):
    with KafkaProducer(bootstrap_servers=servers) as producer:
        return producer.send(topic, b"%d" % number).get(20).partition

context = multiprocessing.get_context("fork")
with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
    assert list(pool.map(send, range(10))) == [0] * 10
"""
    run(source, broker.bootstrap_servers, topic)
    assert broker.wire.end_offsets(topic) == {0: 10}
