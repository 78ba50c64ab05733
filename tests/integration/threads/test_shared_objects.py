"""Objects that several threads use at once: no thread waits for a lock while it holds the GIL."""

from __future__ import annotations

from tests.integration.support.scripts import run

LIMIT_S = 60


def test_threads_may_look_at_a_broker_that_is_starting() -> None:
    source = """
    from thalweg import EmbeddedBroker
    for _ in range(20):
        broker = EmbeddedBroker(nodes=3)
        def look():
            broker.start()
            assert broker.running
            broker.bootstrap_servers
        threads = [threading.Thread(target=look) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        broker.close()
    print("done", flush=True)
    """
    ended = run(source)
    assert ended.out.strip() == "done", ended.err
    assert ended.took_s < LIMIT_S


def test_a_reader_that_waits_in_one_thread_is_refused_to_another() -> None:
    source = """
    from thalweg import EmbeddedBroker
    from thalweg.errors import IllegalStateError
    from thalweg.range_reader import OffsetRange, RangeReader
    with EmbeddedBroker() as broker:
        broker.create_topic("t")
        with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("t", b"value").get(30)
        broker.faults.on("Fetch").then_silence(times=None)
        config = {"bootstrap.servers": broker.bootstrap_servers}
        is_refused = False
        # Once, unless the process pauses until the time of the reader is over.
        while not is_refused:
            heard = []
            reader = RangeReader(config)
            batches = reader.read([OffsetRange("t", 0, 0, 1)], timeout_ms=3000)
            def read():
                try:
                    list(batches)
                except Exception as error:
                    heard.append(type(error).__name__)
            before = broker.requests("Fetch").get("Fetch", 0)
            thread = threading.Thread(target=read)
            thread.start()
            while thread.is_alive() and broker.requests("Fetch").get("Fetch", 0) == before:
                time.sleep(0.01)
            try:
                reader.close()
            except IllegalStateError:
                is_refused = True
            thread.join()
            reader.close()
        print("refused", *heard, flush=True)
    """
    ended = run(source)
    assert ended.out.split() == ["refused", "KafkaTimeoutError"], ended.err
    assert ended.took_s < LIMIT_S


def test_all_who_wait_for_one_response_get_it() -> None:
    source = """
    from thalweg import EmbeddedBroker
    with EmbeddedBroker() as broker:
        broker.faults.on("ListGroups").then_delay(300)
        with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            pending = producer._core_client.submit("ListGroups", {})
            heard = []
            pending.add_done_callback(lambda _: heard.append("callback"))
            def wait():
                heard.append(pending.result(30_000)["ErrorCode"])
            threads = [threading.Thread(target=wait) for _ in range(4)]
            for thread in threads:
                thread.start()
            wait()
            for thread in threads:
                thread.join()
            while "callback" not in heard:
                time.sleep(0.01)
    print(heard.count(0), flush=True)
    """
    ended = run(source)
    assert ended.out.strip() == "5", ended.err
    assert ended.took_s < LIMIT_S
