"""The Python part of EmbeddedBroker (on a fake core)."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.waiting import wait_until
from thalweg.errors import KafkaConfigurationError, NoError, NotLeaderForPartitionError


@pytest.fixture
def broker(fake):
    return fake.broker.EmbeddedBroker(nodes=2)


def test_it_starts_and_stops_with_its_block(broker):
    with broker as started:
        assert started is broker
        assert broker.running
        assert "2 nodes, 127.0.0.1:9092" in repr(broker)
    assert not broker.running
    assert "not running" in repr(broker)


def test_it_starts_and_stops_with_an_asynchronous_block(broker):
    async def run() -> bool:
        async with broker:
            return bool(broker.running)

    assert asyncio.run(run())
    assert not broker.running


def test_threads_may_start_it_at_the_same_time(broker, monkeypatch):
    serve, count = broker._groups.start, 3
    asked, served = [], []

    def ask():
        asked.append(True)

    def serve_when_all_have_asked():
        served.append(True)
        wait_until(lambda: len(asked) == count, what="the other threads")
        serve()

    monkeypatch.setattr(broker._native, "start", ask)
    monkeypatch.setattr(broker._groups, "start", serve_when_all_have_asked)
    with ThreadPoolExecutor(count) as threads:
        starts = [threads.submit(broker.start) for _ in range(count)]
        assert [each.result(30) for each in starts] == [broker] * count
    assert len(served) == 1
    broker.close()


def test_options_reach_the_core_as_text(fake):
    broker = fake.broker.EmbeddedBroker(1, 9093, "::1", {"num.partitions": 3})
    assert broker._native.args[:4] == (1, 9093, "::1", {"num.partitions": "3"})


def test_topics_are_made_with_options_as_text(broker):
    broker.create_topic("t", 3, configs={"retention.ms": -1})
    assert broker._native.calls == [("create_topic", "t", 3, 1, {"retention.ms": "-1"})]


@pytest.mark.parametrize(
    "build, expected",
    [
        (lambda rule: rule.then_fail(6), ("fail", 6, 0, 1)),
        (lambda rule: rule.then_fail("NOT_LEADER_OR_FOLLOWER"), ("fail", 6, 0, 1)),
        (lambda rule: rule.then_fail(NotLeaderForPartitionError, times=3), ("fail", 6, 0, 3)),
        (lambda rule: rule.then_delay(50), ("delay", 0, 50, 1)),
        (lambda rule: rule.then_disconnect(times=None), ("disconnect", 0, 0, None)),
        (lambda rule: rule.apply_then_disconnect(), ("apply_then_disconnect", 0, 0, 1)),
        (lambda rule: rule.then_silence(), ("silence", 0, 0, 1)),
    ],
)
def test_faults_are_built_fluently(broker, build, expected):
    fault = build(broker.faults.on("Produce", node=1, topic="t"))
    action, code, delay, times = expected
    assert broker._native.calls[-1] == ("Produce", action, 1, "t", code, delay, times)
    assert fault.hits == 10


def test_a_fault_is_taken_back_at_the_end_of_its_block(broker):
    with broker.faults.on("Fetch").then_silence(times=None) as fault:
        assert fault.hits == 10
    assert broker._native.calls[-1] == ("remove_fault", 1)
    broker.faults.clear()
    assert broker._native.calls[-1] == ("clear_faults",)


def test_an_error_that_does_not_exist_is_refused(broker):
    with pytest.raises(ValueError, match="Kafka's protocol has no error named 'NOPE'"):
        broker.faults.on().then_fail("NOPE")
    with pytest.raises(ValueError, match="has no error code"):
        broker.faults.on().then_fail(NoError.__mro__[1])


def test_nodes_and_leaders_are_moved(broker):
    broker.move_leader(("t", 0), 1)
    broker.move_coordinator("g", 1)
    broker.stop_node(1)
    broker.start_node(1)
    assert [call[0] for call in broker._native.calls] == [
        "move_leader",
        "move_coordinator",
        "stop_node",
        "start_node",
    ]


@pytest.mark.parametrize(
    "build, kind, words",
    [
        (lambda f: f.on("Produse"), ValueError, r"'Produse' \(did you mean 'Produce'\?\)"),
        (lambda f: f.on(0), TypeError, "api must be"),
        (lambda f: f.on("Produce", node=3), ValueError, "node must be from 1 to 2, got 3"),
        (lambda f: f.on("Produce", node="1"), TypeError, "node must be"),
        (lambda f: f.on("Produce", topic=1), TypeError, "topic must be"),
        (lambda f: f.on().then_disconnect(times=0), ValueError, "times must be from 1"),
        (lambda f: f.on().then_silence(times=-1), ValueError, "times must be from 1"),
        (lambda f: f.on().then_delay(-1), ValueError, "ms must be from 0"),
        (lambda f: f.on().then_delay(1.5), TypeError, "ms must be"),
        (lambda f: f.on().then_fail(9999), ValueError, "no error with the code 9999"),
        (lambda f: f.on().then_fail(0), ValueError, "no error with the code 0"),
        (lambda f: f.on().then_fail(ValueError), TypeError, "error must be"),
        (lambda f: f.on().then_fail(None), TypeError, "error must be"),
        (
            lambda f: f.on().then_fail("NOT_LEADER"),
            ValueError,
            r"'NOT_LEADER' \(did you mean 'NOT_LEADER_OR_FOLLOWER'\?\)",
        ),
    ],
)
def test_a_fault_that_could_never_apply_is_refused(broker, build, kind, words):
    with pytest.raises(kind, match=words):
        build(broker.faults)
    assert broker._native.calls == []


def test_unknown_options_are_named_with_the_nearest(fake):
    broker = fake.broker.EmbeddedBroker(configs={"mesage.max.bytes": 5, "num.partition": 1})
    with pytest.raises(KafkaConfigurationError) as caught:
        broker.start()
    assert caught.value.problems == (
        "unknown broker option 'mesage.max.bytes' (did you mean 'message.max.bytes'?)",
        "unknown broker option 'num.partition' (did you mean 'num.partitions'?)",
    )
    assert not broker.running
