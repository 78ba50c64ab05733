"""A producer's figures have the names of Kafka's own producer; docs/metrics.md lists what lacks."""

from __future__ import annotations

import fnmatch
import re

from tests.support import java
from tests.support.paths import ROOT


def left_out() -> list[tuple[str, str]]:
    """(group pattern, name pattern) of the page's first table."""
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    table = page.split("These of its figures are not here:")[1].split("\n\n")[1]
    patterns = []
    for row in table.splitlines()[2:]:
        cell, why = row.strip("| ").split(" | ")
        assert why
        for name, whole_group in re.findall(r"`([^`]+)`(: all)?", cell):
            patterns += [(name, "*") if whole_group else ("*", name)]
    return patterns


def test_every_metric_of_javas_producer_is_ours_or_listed_with_a_reason(broker):
    from thalweg import KafkaProducer

    topic = broker.create_topic("figures")
    classes = java.compiled("ProducerMetricNames")
    printed = java.run("ProducerMetricNames", broker.bootstrap_servers, topic, classes=classes)
    theirs = {tuple(line.split(" ")) for line in printed.splitlines() if line.count(" ") == 1}
    assert len(theirs) > 90
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send(topic, b"x" * 10).get(timeout=30)
        ours = {(name.group, name.name) for name in producer.metrics(raw=True)}
    assert ours <= theirs, "no name is made up"
    patterns = left_out()
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
