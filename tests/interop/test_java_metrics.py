"""Metrics have the names of Kafka's own clients. docs/metrics.md lists those that are missing."""

from __future__ import annotations

import fnmatch
import re

from tests.support import java
from tests.support.paths import ROOT
from tests.support.waiting import wait_until


def left_out(client: str) -> list[tuple[str, str]]:
    """Returns (group pattern, name pattern) from the page's table of a client."""
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    heading = f"thalweg's {client} lacks these metrics of the Java {client}:"
    table = page.split(heading)[1].split("\n\n")[1]
    patterns = []
    for row in table.splitlines()[2:]:
        cell, why = row.strip("| ").split(" | ")
        assert why
        for name, whole_group in re.findall(r"`([^`]+)`(: all)?", cell):
            patterns += [(name, "*") if whole_group else ("*", name)]
    return patterns


def test_every_metric_of_javas_producer_is_ours_or_listed_with_a_reason(broker):
    from thalweg import KafkaProducer

    topic = broker.create_topic("metrics")
    classes = java.compiled("ProducerMetricNames")
    printed = java.run("ProducerMetricNames", broker.bootstrap_servers, topic, classes=classes)
    theirs = {tuple(line.split(" ")) for line in printed.splitlines() if line.count(" ") == 1}
    assert len(theirs) > 90
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send(topic, b"x" * 10).get(timeout=30)
        ours = {(name.group, name.name) for name in producer.metrics(raw=True)}
    check(ours, theirs, left_out("producer"))


def test_every_metric_of_javas_consumer_is_ours_or_listed_with_a_reason(broker):
    from thalweg import KafkaConsumer, KafkaProducer

    topic = broker.create_topic("read-metrics")
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send(topic, b"x" * 10)
    classes = java.compiled("ConsumerMetricNames")
    arguments = broker.bootstrap_servers, topic, f"{topic}-java"
    printed = java.run("ConsumerMetricNames", *arguments, classes=classes)
    theirs = {tuple(line.split(" ")) for line in printed.splitlines() if line.count(" ") == 1}
    assert len(theirs) > 90
    with KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=f"{topic}-ours",
        auto_offset_reset="earliest",
    ) as consumer:
        wait_until(lambda: consumer.poll(100), 90)
        consumer.commit()
        ours = {(name.group, name.name) for name in consumer.metrics(raw=True)}
    check(ours, theirs, left_out("consumer"))


def check(
    ours: set[tuple[str, str]], theirs: set[tuple[str, ...]], patterns: list[tuple[str, str]]
) -> None:
    """Checks that no metric is invented, and that exactly the missing ones are listed."""
    assert ours <= theirs, "no name is made up"
    unexplained = {
        (group, name)
        for group, name in theirs - ours
        if not any(
            fnmatch.fnmatch(group, of_group) and fnmatch.fnmatch(name, of_name)
            for of_group, of_name in patterns
        )
    }
    assert unexplained == set()
    for of_group, of_name in patterns:
        assert any(
            fnmatch.fnmatch(group, of_group) and fnmatch.fnmatch(name, of_name)
            for group, name in theirs - ours
        ), f"nothing is left out by {of_group} {of_name}"
