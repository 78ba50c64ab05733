"""A log that no longer has what was read (KIP-320): the error, and where reading continues.

An epoch that ends below the position looks like the loss of an unclean election. The embedded
broker can have such epochs without a loss: the next leader's records begin where the epoch ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.support.aio import made, run
from tests.integration.support.clients import Clients, fill, read, within
from tests.support.brokers import Broker
from thalweg import EmbeddedBroker, OffsetAndMetadata, TopicPartition
from thalweg.errors import LogTruncationError

WHERE = TopicPartition("cut", 0)
END, CUT, POSITION = 10, 6, 8
LOST = OffsetAndMetadata(POSITION, "", 0)  # read in epoch 0, which ends at CUT
AT_THE_CUT = OffsetAndMetadata(CUT, "", 0)


@pytest.fixture
def cut(start_embedded: Callable[..., EmbeddedBroker], clients: Clients) -> EmbeddedBroker:
    """A log of ten records, of which another leader wrote the last four."""
    broker = start_embedded(nodes=2)
    broker.create_topic(WHERE.topic)
    fill(clients, broker, WHERE.topic, CUT)
    (other,) = {*broker.nodes} - {broker.leader(WHERE)}
    broker.move_leader(WHERE, other)
    fill(clients, broker, WHERE.topic, END - CUT)
    return broker


def check(error: LogTruncationError) -> None:
    """Checks that the error says what was lost and where to continue."""
    assert error.offsets == {WHERE: POSITION}
    assert error.divergent_offsets == {WHERE: AT_THE_CUT}
    assert "cut-0 was truncated: position 8 (leader epoch 0)" in str(error)
    assert "diverges at 6" in str(error)


def test_without_a_policy_poll_raises_until_the_application_seeks(
    cut: EmbeddedBroker, clients: Clients
) -> None:
    consumer = clients.consumer(cut, WHERE.topic, auto_offset_reset="none")
    consumer.seek(WHERE, LOST)
    for _ in range(2):
        with within(20), pytest.raises(LogTruncationError) as caught:
            consumer.poll(20_000)
        check(caught.value)
    consumer.seek(WHERE, caught.value.divergent_offsets[WHERE])
    assert [each.offset for each in read(consumer, END - CUT)] == list(range(CUT, END))


def test_a_committed_offset_is_held_against_the_log_too(
    cut: EmbeddedBroker, clients: Clients
) -> None:
    """KAFKA-7747: a committed offset reveals the loss if its epoch was committed with it."""
    options: dict[str, Any] = {"group_id": "g", "enable_auto_commit": False}
    with clients.consumer(cut, WHERE.topic, **options) as before:
        before.commit({WHERE: LOST})
    consumer = clients.consumer(cut, WHERE.topic, auto_offset_reset="none", **options)
    with within(20), pytest.raises(LogTruncationError) as caught:
        consumer.poll(20_000)
    check(caught.value)


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_with_a_policy_reading_goes_on_where_the_logs_part(
    cut: EmbeddedBroker, clients: Clients, policy: str
) -> None:
    """As in Java, reading does not restart at the beginning or the end: no record is repeated."""
    consumer = clients.consumer(cut, WHERE.topic, auto_offset_reset=policy)
    consumer.seek(WHERE, LOST)
    assert consumer.position(WHERE, timeout_ms=20_000) == CUT
    assert [each.offset for each in read(consumer, END - CUT)] == list(range(CUT, END))


CALLS: dict[str, Callable[[Any], Any]] = {
    "getmany": lambda consumer: consumer.getmany(timeout_ms=20_000),
    "getone": lambda consumer: consumer.getone(),
    "poll_arrow": lambda consumer: consumer.poll_arrow(20_000),
    "async for": lambda consumer: anext(consumer),
}


@pytest.mark.parametrize("call", CALLS)
def test_calls_of_asyncio_raise_it_too(cut: EmbeddedBroker, call: str) -> None:
    async def program() -> None:
        async with made(cut, auto_offset_reset="none") as consumer:
            consumer.assign([WHERE])
            consumer.seek(WHERE, LOST)
            with pytest.raises(LogTruncationError) as caught:
                await CALLS[call](consumer)
            check(caught.value)
            consumer.seek(WHERE, caught.value.divergent_offsets[WHERE])
            assert (await consumer.getone()).offset == CUT

    run(program())


def _of_an_unknown_epoch(
    broker: Broker, clients: Clients, policy: str
) -> tuple[Any, TopicPartition]:
    """Makes a consumer at offset 8 of ten, with an epoch that no leader of the log had."""
    topic = broker.create_topic("unknown-epoch")
    fill(clients, broker, topic, END)
    consumer = clients.consumer(broker, topic, auto_offset_reset=policy)
    where = TopicPartition(topic, 0)
    consumer.seek(where, POSITION, leader_epoch=7)
    return consumer, where


def test_where_the_logs_part_may_be_unknown(broker: Broker, clients: Clients) -> None:
    consumer, where = _of_an_unknown_epoch(broker, clients, "none")
    with within(20), pytest.raises(LogTruncationError, match="diverges at unknown") as caught:
        consumer.poll(20_000)
    assert caught.value.offsets == {where: POSITION}
    assert caught.value.divergent_offsets == {where: None}


@pytest.mark.parametrize("policy, offset", [("earliest", 0), ("latest", END)])
def test_the_policy_counts_where_the_logs_part_at_an_unknown_place(
    broker: Broker, clients: Clients, policy: str, offset: int
) -> None:
    consumer, where = _of_an_unknown_epoch(broker, clients, policy)
    assert consumer.position(where, timeout_ms=20_000) == offset
