"""Metrics on the Python side: names, reporters, the statistics callback (on a fake core)."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from thalweg import metrics
from thalweg.config import IgnoredOptionWarning
from thalweg.errors import KafkaConfigurationError
from thalweg.metrics import KafkaMetric, MetricName, MetricsReporter, named

GROUPS = {
    "producer-metrics": {
        "request-total": 3.0,
        "outgoing-byte-total": 100.0,
        "response-total": 2.0,
        "incoming-byte-total": 50.0,
        "record-send-total": 7.0,
    },
    "producer-topic-metrics.a.b": {"byte-total": 70.0},
}


class Kept(MetricsReporter):
    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.metrics: dict[MetricName, KafkaMetric] = {}

    def configure(self, configs: Any) -> None:
        self.calls.append(("configure", configs["sasl_plain_password"]))

    def init(self, metrics: list[KafkaMetric]) -> None:
        self.calls.append(("init", len(metrics)))
        self.metrics = {metric.metric_name: metric for metric in metrics}

    def metric_change(self, metric: KafkaMetric) -> None:
        self.calls.append(("change", metric.metric_name.name))
        self.metrics[metric.metric_name] = metric

    def metric_removal(self, metric: KafkaMetric) -> None:
        self.calls.append(("removal", metric.metric_name.name))

    def close(self) -> None:
        self.calls.append(("close", None))


class Broken:
    def init(self, metrics: Any) -> None:
        raise ValueError("broken reporter")

    def close(self) -> None:
        raise ValueError("broken reporter")


@pytest.fixture
def make(fake, monkeypatch) -> Any:
    made: list[Any] = []

    def call(**configs: Any) -> Any:
        producer = fake.producer.KafkaProducer(**configs)
        made.append(producer)
        return producer

    figures = {group: dict(rows) for group, rows in GROUPS.items()}
    monkeypatch.setattr(fake.core.Producer, "figures", figures)
    yield call
    for each in made:
        each.close()


def test_names_carry_client_node_and_topic():
    groups = {
        "producer-metrics": {"x": 1.0},
        "producer-node-metrics.node--1": {"x": 2.0},
        "producer-topic-metrics.a.b": {"x": 3.0},
        "consumer-fetch-manager-metrics.a-b-12": {"x": 4.0},
    }
    of_partition = (("client-id", "me"), ("topic", "a-b"), ("partition", "12"))
    assert named(groups, "me") == {
        ("x", "producer-metrics", (("client-id", "me"),)): 1.0,
        ("x", "producer-node-metrics", (("client-id", "me"), ("node-id", "node--1"))): 2.0,
        ("x", "producer-topic-metrics", (("client-id", "me"), ("topic", "a.b"))): 3.0,
        ("x", "consumer-fetch-manager-metrics", of_partition): 4.0,
    }


def test_metrics_are_grouped_or_flat_or_off(make):
    producer = make(client_id="me")
    assert producer.metrics() == GROUPS
    flat = producer.metrics(raw=True)
    of_topic = MetricName(
        "byte-total", "producer-topic-metrics", (("client-id", "me"), ("topic", "a.b"))
    )
    assert flat[of_topic].value() == 70.0
    assert flat[of_topic].metric_name == of_topic
    assert make(metrics_enabled=False).metrics() is None
    assert make(metrics_enabled=False).metrics(raw=True) is None


def test_a_reporter_is_told_what_there_is_what_comes_and_what_goes(make, fake, monkeypatch):
    monkeypatch.setattr(metrics, "_FRESH_SECONDS", 3600.0)  # longer than any pause
    reporter = Kept()
    producer = make(metric_reporters=[reporter], client_id="me")
    assert reporter.calls == [("configure", None), ("init", 6)]
    (timer,) = fake.core.timers
    figures = fake.core.Producer.figures
    figures["producer-node-metrics.node-1"] = {"request-rate": 1.0}
    del figures["producer-topic-metrics.a.b"]
    timer.f()
    assert reporter.calls[2:] == [("removal", "byte-total"), ("change", "request-rate")]
    sent = MetricName("record-send-total", "producer-metrics", (("client-id", "me"),))
    tx = MetricName("request-total", "producer-metrics", (("client-id", "me"),))
    assert (reporter.metrics[sent].value(), reporter.metrics[tx].value()) == (7.0, 3.0)
    figures["producer-metrics"]["record-send-total"] = 8.0
    assert reporter.metrics[sent].value() == 8.0, "each read takes the current value"
    figures["producer-metrics"]["request-total"] = 4.0
    assert reporter.metrics[tx].value() == 3.0, "and others are of the same moment"
    producer.close()
    producer.close()
    assert reporter.calls[4:] == [("close", None)]
    assert timer.cancelled
    assert reporter.metrics[sent].value() == 8.0, "its last figures can be read"


def test_a_reporter_that_raises_harms_no_other(make, caplog):
    reporter = Kept()
    with caplog.at_level(logging.ERROR):
        other = SimpleNamespace(init=lambda metrics: None)
        producer = make(metric_reporters=[Broken, reporter, other])
        producer.close()
    assert [call for call, _ in reporter.calls] == ["configure", "init", "close"]
    assert [str(each.exc_info[1]) for each in caplog.records] == ["broken reporter"] * 2


class Slow(Kept):
    """Blocks when the first metric is removed."""

    def __init__(self) -> None:
        super().__init__()
        self.is_told, self.go_on = threading.Event(), threading.Event()

    def metric_removal(self, metric: KafkaMetric) -> None:
        super().metric_removal(metric)
        if not self.is_told.is_set():
            self.is_told.set()
            self.go_on.wait(120)  # longer than a test waits for close()


@pytest.mark.parametrize("returns", ["before close() does", "after it"])
def test_a_refresh_during_a_close_tells_nothing_twice_or_later(make, fake, monkeypatch, returns):
    later = returns == "after it"
    monkeypatch.setattr(metrics, "_CLOSE_SECONDS", 0.05 if later else 60.0, raising=False)
    reporter = Slow()
    producer = make(metric_reporters=[reporter])
    (timer,) = fake.core.timers
    figures = fake.core.Producer.figures["producer-metrics"]
    del figures["request-total"], figures["response-total"]
    with ThreadPoolExecutor(2) as pool:
        refresh = pool.submit(timer.f)
        assert reporter.is_told.wait(60)
        close = pool.submit(producer.close)
        if later:
            close.result(60)
        reporter.go_on.set()
        close.result(60)
        refresh.result(60)
    assert sorted(reporter.calls[2:4]) == [
        ("removal", "request-total"),
        ("removal", "response-total"),
    ]
    assert reporter.calls[4:] == [("close", None)]


def test_a_reporter_may_close_the_client_when_it_is_told(make, fake):
    class Closing(Kept):
        def metric_removal(self, metric: KafkaMetric) -> None:
            super().metric_removal(metric)
            producer.close()

    reporter = Closing()
    producer = make(metric_reporters=[reporter])
    figures = fake.core.Producer.figures["producer-metrics"]
    del figures["request-total"], figures["response-total"]
    fake.core.timers[0].f()
    assert [call for call, _ in reporter.calls[2:]] == ["removal", "removal", "close"]


def test_statistics_are_one_dict(make, fake):
    told: list[dict[str, Any]] = []
    producer = make(stats_cb=told.append, statistics_interval_ms=250, client_id="me")
    (timer,) = fake.core.timers
    assert timer.seconds == 0.25
    timer.f()
    (stats,) = told
    assert stats["name"] == stats["client_id"] == "me"
    assert stats["type"] == "producer"
    assert (stats["tx"], stats["rx"], stats["txmsgs"], stats["txmsg_bytes"]) == (3, 2, 7, 70)
    assert stats["metrics"] == GROUPS
    producer.close()
    assert timer.cancelled


def test_a_statistics_callback_that_raises_is_logged(make, fake, caplog):
    def raises(stats: Any) -> None:
        raise ValueError("no statistics today")

    make(stats_cb=raises, statistics_interval_ms=250)
    with caplog.at_level(logging.ERROR):
        fake.core.timers[0].f()
    assert "no statistics today" in caplog.text
    assert not fake.core.timers[0].cancelled


def test_librdkafkas_names_are_taken(make, fake):
    make(**{"stats_cb": print, "statistics.interval.ms": 1000})
    assert fake.core.timers[0].seconds == 1.0


def test_without_metrics_nobody_is_told(make, fake):
    reporter = Kept()
    with pytest.warns(IgnoredOptionWarning, match="metrics_enabled is False"):
        make(
            metrics_enabled=False,
            metric_reporters=[reporter],
            stats_cb=print,
            statistics_interval_ms=1,
        )
    assert fake.core.timers == []
    assert reporter.calls == []


def test_a_client_that_nobody_holds_is_not_kept_by_its_timers(fake):
    producer = fake.producer.KafkaProducer(stats_cb=print, statistics_interval_ms=1000)
    held = [producer]
    del producer
    with pytest.warns(ResourceWarning):
        held.clear()
    assert fake.core.timers[0].cancelled


def test_half_of_the_statistics_options_warns(make):
    with pytest.warns(IgnoredOptionWarning, match="statistics_interval_ms is 0"):
        make(stats_cb=print)
    with pytest.warns(IgnoredOptionWarning, match="stats_cb is not set"):
        make(statistics_interval_ms=5)
    with pytest.raises(KafkaConfigurationError, match="stats_cb must be callable"):
        make(stats_cb=5, statistics_interval_ms=5)
