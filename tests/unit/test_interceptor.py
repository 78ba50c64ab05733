"""Interceptors: a chain runs in order, skips one that raises, and costs nothing when empty."""

import logging

import pytest

from thalweg.interceptor import (
    ClusterResourceListener,
    ConsumerInterceptor,
    ProducerInterceptor,
    ProducerRecord,
    chain,
    notify,
)
from thalweg.serializer import DefaultSerializer
from thalweg.structs import ClusterResource


class Adds(ProducerInterceptor):
    def __init__(self, text: str) -> None:
        self.text = text
        self.seen: list[object] = []

    def on_send(self, record):
        return record._replace(value=record.value + self.text)

    def on_acknowledgement(self, metadata, exception):
        self.seen.append((metadata, exception))


class Raises(ProducerInterceptor):
    def on_send(self, record):
        raise ValueError("no")

    def on_acknowledgement(self, metadata, exception):
        raise ValueError("no")


def test_each_interceptor_may_change_the_record_in_order():
    run = chain([Adds("b"), Adds("c")], "on_send")
    assert run is not None
    assert run(ProducerRecord("t", "a")).value == "abc"


def test_one_that_raises_is_logged_and_skipped(caplog):
    run = chain([Adds("b"), Raises(), Adds("c")], "on_send")
    assert run is not None
    with caplog.at_level(logging.ERROR, "thalweg"):
        assert run(ProducerRecord("t", "a")).value == "abc"
    assert "on_send of the interceptor Raises failed" in caplog.text
    assert "ValueError: no" in caplog.text


@pytest.mark.parametrize(
    ("verb", "value", "expected"),
    [("on_send", ProducerRecord("t", "a"), "a record"), ("on_consume", {}, "a dict of records")],
)
@pytest.mark.parametrize("returned", [None, [1]])
def test_an_interceptor_that_returns_no_records_is_logged_and_skipped(
    caplog, verb, value, expected, returned
):
    class Forgets:
        def on_send(self, record):
            return returned

        on_consume = on_send

    run = chain([Forgets()], verb)
    assert run is not None
    assert run(value) is value
    assert f"{verb} of the interceptor " in caplog.text
    assert "Forgets failed" in caplog.text
    assert f"{verb} must return {expected}, not {type(returned).__name__}" in caplog.text


def test_all_are_told_even_if_one_raises(caplog):
    first, last = Adds(""), Adds("")
    run = notify([first, Raises(), last], "on_acknowledgement")
    assert run is not None
    error = KeyError("x")
    run(None, error)
    assert first.seen == last.seen == [(None, error)]
    assert "on_acknowledgement of the interceptor Raises raised" in caplog.text


def test_methods_that_are_not_overridden_cost_nothing():
    assert chain([], "on_send") is None
    assert chain([ProducerInterceptor()], "on_send") is None
    assert chain([ConsumerInterceptor()], "on_consume") is None
    assert notify([ProducerInterceptor(), object()], "on_acknowledgement") is None


def test_an_interceptor_need_not_derive_from_ours():
    class Own:
        def on_send(self, record):
            return record._replace(key=b"k")

    run = chain([Own()], "on_send")
    assert run is not None
    assert run(ProducerRecord("t")).key == b"k"


def test_whatever_listens_hears_of_the_cluster(fake, caplog):
    heard: list[tuple[str, str]] = []

    class Listens(ProducerInterceptor, ConsumerInterceptor, ClusterResourceListener):
        def on_update(self, cluster_resource: ClusterResource) -> None:
            heard.append((type(self).__name__, cluster_resource.cluster_id))

    class Encodes(DefaultSerializer, Listens):
        pass

    class Raises(Listens):
        def on_update(self, cluster_resource: ClusterResource) -> None:
            raise ValueError("not interested")

    fake.producer.KafkaProducer(
        interceptor_classes=[Raises, Listens], value_serializer=Encodes()
    ).close()
    assert sorted(heard) == [("Encodes", "cluster-1"), ("Listens", "cluster-1")]
    assert "not interested" in caplog.text
    fake.consumer.KafkaConsumer(interceptor_classes=[Listens]).close()
    assert len(heard) == 3
