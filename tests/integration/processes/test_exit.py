"""close() and interpreter exit with unfinished work: a clear outcome, no hang, no crash."""

from __future__ import annotations

import logging
import re
import textwrap
import threading
from typing import Any

import pytest

from tests.integration.support.clients import Clients, fill, within
from tests.integration.support.scripts import run, start
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker, TopicPartition
from thalweg.errors import IllegalStateError, KafkaTimeoutError

# Programs that would wait without a limit wait for a minute or longer.
EXIT_LIMIT_S = 30
# What an exit waits for a client is a second, and a busy machine may pause for longer. Programs
# whose records must arrive get more.
PATIENT = """
from thalweg._client import closing
closing.AT_EXIT_SECONDS = 20.0
"""


def patient(source: str) -> str:
    return PATIENT + textwrap.dedent(source)


@pytest.fixture
def silent(start_embedded: Any) -> EmbeddedBroker:
    """A broker that never responds to a Produce request."""
    broker: EmbeddedBroker = start_embedded()
    broker.create_topic("t")
    broker.faults.on("Produce").then_silence(times=None)
    return broker


@one_real_broker
def test_close_sends_what_is_buffered(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("closing")
    producer = clients.producer(broker, linger_ms=60_000)
    sent = [producer.send(topic, b"value") for _ in range(500)]
    with within(30):
        producer.close()
    assert [each.get(0).offset for each in sent] == list(range(500))
    assert broker.wire.end_offsets(topic) == {0: 500}


def test_close_gives_up_when_its_time_is_over_and_counts_what_is_left(
    silent: EmbeddedBroker, clients: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    producer = clients.producer(silent)
    sent = [producer.send("t", b"value") for _ in range(7)]
    with caplog.at_level(logging.WARNING, "thalweg"), within(30, at_least_s=0.4):
        producer.close(timeout=0.5)
        wait_until(lambda: "7" in caplog.text, 20, what=lambda: f"a count in {caplog.text!r}")
    for each in sent:
        with pytest.raises(KafkaTimeoutError, match="7 records"):
            each.get(20)
    with pytest.raises(IllegalStateError):
        producer.send("t", b"value")


def test_close_at_once_fails_what_is_left(silent: EmbeddedBroker, clients: Clients) -> None:
    producer = clients.producer(silent, linger_ms=60_000)
    never_sent = producer.send("t", b"value")
    with within(30):
        producer.close(timeout=0)
    assert isinstance(never_sent.exception, KafkaTimeoutError)
    assert not never_sent.exception.possibly_written
    with pytest.raises(ValueError):
        producer.close(timeout=-1)


def test_close_with_a_full_buffer_and_waiting_threads(
    silent: EmbeddedBroker, clients: Clients
) -> None:
    producer = clients.producer(silent, buffer_memory=50_000, batch_size=1000, max_block_ms=60_000)
    errors: list[BaseException] = []

    def fill() -> None:
        try:
            while True:
                producer.send("t", bytes(1000))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=fill) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: producer.metrics()["producer-metrics"]["buffer-available-bytes"] < 5000, 20)
    with within(30):
        producer.close(timeout=0.2)
        for thread in threads:
            thread.join(30)
    assert [type(error) for error in errors] == [IllegalStateError] * 4


@one_real_broker
def test_records_unsent_at_exit_are_delivered(broker: Broker) -> None:
    """Scenario 31."""
    topic = broker.create_topic("exit")
    source = """
    producer = KafkaProducer(bootstrap_servers=sys.argv[1], linger_ms=60_000)
    for number in range(1000):
        producer.send(sys.argv[2], b"%d" % number)
    """
    ended = run(patient(source), broker.bootstrap_servers, topic)
    assert ended.took_s < EXIT_LIMIT_S
    assert broker.wire.end_offsets(topic) == {0: 1000}


def test_records_that_cannot_be_delivered_at_exit_are_counted(silent: EmbeddedBroker) -> None:
    """Scenario 31."""
    source = """
    import logging
    logging.basicConfig(level=logging.WARNING)
    producer = KafkaProducer(bootstrap_servers=sys.argv[1])
    for _ in range(13):
        producer.send("t", b"value")
    """
    ended = run(source, silent.bootstrap_servers)
    assert ended.took_s < EXIT_LIMIT_S
    assert "13 records were not acknowledged" in ended.err
    assert "Traceback" not in ended.err


def test_records_that_are_lost_at_exit_are_told_without_logging(silent: EmbeddedBroker) -> None:
    source = """
    producer = KafkaProducer(bootstrap_servers=sys.argv[1])
    for _ in range(13):
        producer.send("t", b"value")
    """
    ended = run(source, silent.bootstrap_servers)
    assert "RuntimeWarning" in ended.err
    assert "13 records were not acknowledged" in ended.err


def test_records_in_work_at_exit_are_not_committed(broker: Broker, clients: Clients) -> None:
    """A record whose processing failed is not done: the group's next consumer gets it again."""
    topic = broker.create_topic("inwork")
    fill(clients, broker, topic, 10)
    source = """
    consumer = KafkaConsumer(sys.argv[2], bootstrap_servers=sys.argv[1], group_id=sys.argv[2],
                             auto_offset_reset="earliest")
    for record in consumer:
        raise LookupError(f"offset {record.offset}")
    """
    ended = run(source, broker.bootstrap_servers, topic, code=1)
    assert "LookupError: offset 0" in ended.err
    consumer = clients.consumer(broker, group_id=topic)
    assert consumer.committed(TopicPartition(topic, 0)) is None


def test_exit_while_a_broker_is_gone(start_embedded: Any) -> None:
    broker = start_embedded()
    source = """
    producer = KafkaProducer(bootstrap_servers=sys.argv[1])
    consumer = KafkaConsumer(bootstrap_servers=sys.argv[1], group_id="g")
    consumer.assign([TopicPartition("t", 0)])
    producer.send("t", b"first").get(20)
    consumer.poll(100)
    print("ready", flush=True)
    time.sleep(1.5)
    producer.send("t", b"unsent")
    """
    with start(source, broker.bootstrap_servers) as script:
        script.wait_for("ready")
        broker.close()
        ended = script.end()
    assert ended.code == 0, ended.err
    assert ended.took_s < EXIT_LIMIT_S


@one_real_broker
def test_exit_while_callbacks_are_pending(broker: Broker) -> None:
    topic = broker.create_topic("callbacks")
    source = """
    done = []
    producer = KafkaProducer(bootstrap_servers=sys.argv[1])
    for number in range(5000):
        producer.send(sys.argv[2], b"%d" % number).add_callback(done.append)
    """
    ended = run(patient(source), broker.bootstrap_servers, topic)
    assert ended.took_s < EXIT_LIMIT_S
    assert broker.wire.end_offsets(topic) == {0: 5000}


@one_real_broker
def test_exit_within_a_callback_that_hangs(broker: Broker) -> None:
    topic = broker.create_topic("hanging")
    source = """
    producer = KafkaProducer(bootstrap_servers=sys.argv[1])
    entered = threading.Event()
    def hang(_):
        entered.set()
        time.sleep(60)
    producer.send(sys.argv[2], b"value").add_callback(hang)
    entered.wait(20)
    """
    assert run(source, broker.bootstrap_servers, topic).took_s < EXIT_LIMIT_S


def test_close_waits_for_the_callbacks_of_its_records(start_embedded: Any) -> None:
    broker = start_embedded()
    source = """
    called = []
    def on_success(metadata):
        for _ in range(200): str(metadata.offset)
        called.append(metadata.offset)
    with KafkaProducer(bootstrap_servers=sys.argv[1]) as producer:
        for _ in range(20_000):
            producer.send("t", b"value").add_callback(on_success)
    print(len(called))
    """
    ended = run(source, broker.bootstrap_servers)
    assert (ended.code, ended.lines, ended.err) == (0, ["20000"], "")


def test_callbacks_that_are_due_at_exit_run_first(start_embedded: Any) -> None:
    """The open producer is collected while many callbacks are due and one of them is running."""
    broker = start_embedded()
    source = """
    from thalweg import _core
    called, stopping, stop_threads = [], threading.Event(), _core.stop_threads
    def stop(seconds):
        stopping.set()
        return stop_threads(20 * seconds)  # a busy machine may pause for longer than a second
    _core.stop_threads = stop
    def on_success(metadata):
        if metadata.offset == 0:
            stopping.wait(20)
            end = time.monotonic() + 0.2
            while time.monotonic() < end:
                pass
        called.append(metadata.offset)
        if len(called) == 500:
            print("all", flush=True)
    producer = KafkaProducer(bootstrap_servers=sys.argv[1])
    for _ in range(500):
        producer.send("t", b"value", partition=0).add_callback(on_success)
    producer.flush()
    """
    ended = run(source, broker.bootstrap_servers)
    assert (ended.code, ended.lines, ended.err) == (0, ["all"], "")


def test_callbacks_that_cannot_run_at_exit_are_counted(start_embedded: Any) -> None:
    broker = start_embedded()
    source = """
    def slow(_):
        time.sleep(0.2)
    producer = KafkaProducer(bootstrap_servers=sys.argv[1])
    for _ in range(500):
        producer.send("t", b"value").add_callback(slow)
    producer.flush()
    """
    ended = run(source, broker.bootstrap_servers)
    assert ended.code == 0
    assert re.search(r"\d+ callbacks of records did not run within 1 s", ended.err), ended.err


def test_exit_while_a_daemon_thread_deserializes(start_embedded: Any) -> None:
    broker = start_embedded()
    source = """
    with KafkaProducer(bootstrap_servers=sys.argv[1]) as producer:
        producer.send_many("t", [b"value"] * 5_000).get(20)
    began = threading.Event()
    def deserialize(value):
        began.set()
        end = time.monotonic() + 0.002
        while time.monotonic() < end:
            pass
        return value
    def poll():
        consumer = KafkaConsumer(
            "t", bootstrap_servers=sys.argv[1], auto_offset_reset="earliest",
            value_deserializer=deserialize, max_poll_records=2_000,
        )
        while True:
            consumer.poll(1000)
    threading.Thread(target=poll, daemon=True).start()
    began.wait(20)
    """
    ended = run(source, broker.bootstrap_servers)
    assert (ended.code, ended.err) == (0, "")


# A daemon thread runs the application's code within a call (`send` or `add_callback`). The exit
# begins during `work`, and waits for its end.
WORK_IN_DAEMONS = {
    "new batch": """
    class Slow(Partitioner):
        def partition(self, *_):
            return 0
        def on_new_batch(self, *_):
            work()
    producer = KafkaProducer(bootstrap_servers=sys.argv[1], partitioner=Slow())
    def call():
        producer.send("t", b"value")
    """,
    "refused record": """
    class Slow(ProducerInterceptor):
        def on_acknowledgement(self, metadata, error):
            work()
    producer = KafkaProducer(
        bootstrap_servers=sys.argv[1], interceptor_classes=[Slow()], max_request_size=1000
    )
    def call():
        producer.send("t", bytes(5000))
    """,
    "done future": """
    producer = KafkaProducer(bootstrap_servers=sys.argv[1])
    def call():
        sent = producer.send("t", b"value")
        sent.get(20)
        sent.add_callback(lambda _: work())
    """,
}


@pytest.mark.parametrize("name", WORK_IN_DAEMONS)
def test_exit_while_a_daemon_thread_runs_code_of_the_application(
    start_embedded: Any, name: str
) -> None:
    broker = start_embedded()
    broker.create_topic("t")
    setup = """
    from thalweg.interceptor import ProducerInterceptor
    from thalweg.partitioner import Partitioner
    began = threading.Event()
    def work():
        began.set()
        end = time.monotonic() + 0.7
        while time.monotonic() < end:
            time.sleep(0.001)
    """
    start = """
    def quietly():
        try:
            call()
        except errors.KafkaError:
            pass  # the record is too large, or the exit has closed the producer
    threading.Thread(target=quietly, daemon=True).start()
    assert began.wait(20)
    """
    parts = (textwrap.dedent(part) for part in (setup, WORK_IN_DAEMONS[name], start))
    ended = run(PATIENT + "".join(parts), broker.bootstrap_servers)
    assert (ended.code, ended.err) == (0, "")


@one_real_broker
@pytest.mark.parametrize("method", ["poll(None)", "poll_arrow(None)", "__next__()"])
def test_exit_while_a_daemon_thread_waits(broker: Broker, method: str) -> None:
    topic = broker.create_topic("daemon")
    source = f"""
    consumer = KafkaConsumer(bootstrap_servers=sys.argv[1])
    consumer.assign([TopicPartition(sys.argv[2], 0)])
    threading.Thread(target=lambda: consumer.{method}, daemon=True).start()
    time.sleep(0.5)
    """
    ended = run(source, broker.bootstrap_servers, topic)
    assert ended.took_s < EXIT_LIMIT_S
    assert ended.err == ""


@one_real_broker
def test_exit_while_daemon_threads_send(broker: Broker) -> None:
    topic = broker.create_topic("daemons")
    source = """
    producer = KafkaProducer(bootstrap_servers=sys.argv[1])
    def loop():
        while True:
            producer.send(sys.argv[2], b"value").add_callback(lambda _: None)
    for _ in range(4):
        threading.Thread(target=loop, daemon=True).start()
    time.sleep(1)
    """
    ended = run(source, broker.bootstrap_servers, topic)
    assert ended.took_s < EXIT_LIMIT_S
    assert "Fatal" not in ended.err


@one_real_broker
def test_exit_with_everything_open(broker: Broker) -> None:
    topic = broker.create_topic("everything")
    source = """
    servers, topic = sys.argv[1:]
    producers = [KafkaProducer(bootstrap_servers=servers) for _ in range(5)]
    consumers = [KafkaConsumer(bootstrap_servers=servers) for _ in range(5)]
    admins = [KafkaAdminClient(bootstrap_servers=servers) for _ in range(5)]
    for each in consumers:
        each.assign([TopicPartition(topic, 0)])
        each.poll(10)
    for each in producers:
        each.send(topic, b"value")
    """
    ended = run(patient(source), broker.bootstrap_servers, topic)
    assert ended.took_s < EXIT_LIMIT_S
    assert ended.err == ""
    assert broker.wire.end_offsets(topic) == {0: 5}


@one_real_broker
def test_sys_exit_and_an_uncaught_error_keep_their_status(broker: Broker) -> None:
    topic = broker.create_topic("status")
    source = patient("""
    producer = KafkaProducer(bootstrap_servers=sys.argv[1])
    producer.send(sys.argv[2], b"value")
    sys.exit(3)
    """)
    run(source, broker.bootstrap_servers, topic, code=3)
    ended = run(
        source.replace("sys.exit(3)", "raise LookupError('mine')"),
        broker.bootstrap_servers,
        topic,
        code=1,
    )
    assert ended.err.rstrip().endswith("LookupError: mine")
    assert broker.wire.end_offsets(topic) == {0: 2}


@one_real_broker
def test_a_producer_that_nobody_holds_still_sends(broker: Broker) -> None:
    topic = broker.create_topic("dropped")
    source = """
    import gc, warnings
    warnings.simplefilter("ignore")
    for _ in range(10):
        KafkaProducer(bootstrap_servers=sys.argv[1]).send(sys.argv[2], b"value")
    gc.collect()
    """
    run(patient(source), broker.bootstrap_servers, topic)
    assert broker.wire.end_offsets(topic) == {0: 10}


def test_an_embedded_broker_ends_with_the_interpreter() -> None:
    source = """
    import logging
    from thalweg import EmbeddedBroker, TopicPartition
    logging.basicConfig(level=logging.WARNING)
    broker = EmbeddedBroker().start()
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    producer.send("t", b"value").get(20)
    consumer = KafkaConsumer("t", bootstrap_servers=broker.bootstrap_servers,
                             auto_offset_reset="earliest")
    print(next(consumer).value)
    producer.send("t", b"unsent")
    """
    ended = run(patient(source))
    assert ended.lines == ["b'value'"]
    assert ended.err == ""  # its clients were closed first
    assert ended.took_s < EXIT_LIMIT_S
