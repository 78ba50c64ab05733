"""The application's code always runs with the signal mask of the application's own threads.

A process inherits the mask of the thread that starts it. With all signals blocked it would ignore
SIGTERM and SIGINT.
"""

from __future__ import annotations

import sys

import pytest

from tests.integration.support.scripts import run
from tests.support.brokers import Broker

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no signal masks")


def test_callbacks_reporters_and_log_handlers_run_with_the_applications_mask(
    embedded: Broker,
) -> None:
    topic = embedded.create_topic("masks")
    source = """
    import logging, subprocess

    signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGUSR2})
    masks, ended = {}, []

    def note(name):
        if threading.current_thread() is not threading.main_thread():
            masks.setdefault(name, signal.pthread_sigmask(signal.SIG_BLOCK, []))

    class Reporter:
        def metric_change(self, metric):
            note("reporter")

    class Handler(logging.Handler):
        def emit(self, record):
            note("log")

    def done(metadata):
        note("callback")
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])
        child.terminate()
        ended.append(child.wait(20))

    logging.getLogger("thalweg").addHandler(Handler())
    logging.getLogger("thalweg").setLevel(logging.DEBUG)
    producer = KafkaProducer(
        bootstrap_servers=sys.argv[1],
        linger_ms=60_000,
        metric_reporters=[Reporter()],
        stats_cb=lambda statistics: note("statistics"),
        statistics_interval_ms=50,
    )
    producer._core_client.watch_cluster_id(lambda cluster_id: note("listener"))
    producer.send(sys.argv[2], b"v").add_callback(done)
    producer.flush(60)  # only now, as a callback that is added late runs in this thread
    wanted = {"callback", "reporter", "statistics", "listener", "log"}
    end = time.monotonic() + 60
    while time.monotonic() < end and not (wanted <= set(masks) and ended):
        time.sleep(0.01)
    producer.close()
    assert set(masks) == wanted, masks
    assert all(mask == {signal.SIGUSR2} for mask in masks.values()), masks
    assert ended == [-signal.SIGTERM], ended
    """
    run(source, embedded.bootstrap_servers, topic)


def test_signal_handlers_run_with_the_mask_of_the_waiting_thread(embedded: Broker) -> None:
    topic = embedded.create_topic("handlers")
    source = """
    import _thread

    masks, stop = [], threading.Event()

    def handler(number, frame):
        masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))

    def trip():
        # As a signal that another thread gets: it does not end the main thread's sleep.
        while not stop.wait(0.003):
            _thread.interrupt_main(signal.SIGUSR1)

    signal.signal(signal.SIGUSR1, handler)
    consumer = KafkaConsumer(bootstrap_servers=sys.argv[1])
    consumer.assign([TopicPartition(sys.argv[2], 0)])
    tripping = threading.Thread(target=trip)
    tripping.start()
    end = time.monotonic() + 60
    while len(masks) <= 20 and time.monotonic() < end:
        for _ in range(20):
            consumer.poll(60)
    stop.set()
    tripping.join()
    assert len(masks) > 20
    assert not any(masks), masks
    """
    run(source, embedded.bootstrap_servers, topic)


def test_a_signal_that_another_thread_gets_is_noticed_by_a_waiting_one(embedded: Broker) -> None:
    topic = embedded.create_topic("noticed")
    source = """
    import _thread

    signal.signal(signal.SIGINT, signal.default_int_handler)
    consumer = KafkaConsumer(bootstrap_servers=sys.argv[1])
    consumer.assign([TopicPartition(sys.argv[2], 0)])
    consumer.poll(100)
    timer = threading.Timer(0.3, _thread.interrupt_main)
    began = time.monotonic()
    try:
        timer.start()
        consumer.poll(60_000)
    except KeyboardInterrupt:
        assert time.monotonic() - began < 30
    else:
        raise AssertionError("it was not noticed")
    """
    run(source, embedded.bootstrap_servers, topic)
