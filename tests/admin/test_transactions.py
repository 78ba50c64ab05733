"""Transactions: listed, described, found hanging, aborted on a partition."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admin.conftest import Node
from tests.support.waiting import wait_until
from thalweg import OffsetSpec, TopicPartition
from thalweg.admin import AbortTransactionSpec
from thalweg.admin.transactions import TransactionState
from thalweg.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    ProducerFencedError,
    TransactionalIdNotFoundError,
    UnknownTopicOrPartitionError,
)

# Transactions count as hanging five minutes after the timeout. This value cancels that out.
AT_ONCE_MS = -5 * 60 * 1000


@pytest.fixture
def opened(node: Node) -> Any:
    """(transactional ID, partition) of an open transaction, with a record before it."""
    topic, name = node.topic(), node.name("tx")
    node.fill(topic, 1)
    producer = node.producer(transactional_id=name)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"open", partition=0).get(20)
    yield name, TopicPartition(topic, 0)
    producer.abort_transaction()


def test_an_open_transaction_is_listed_and_described(node: Node, opened: Any) -> None:
    (name, where), admin = opened, node.admin
    listed = {row.transactional_id: row for row in admin.list_transactions()[1]}
    assert listed[name].state is TransactionState.ONGOING
    producer_id = listed[name].producer_id

    def names(**filters: Any) -> list[str]:
        return [row.transactional_id for row in admin.list_transactions([1], **filters)[1]]

    assert name in names(producer_id_filters=[producer_id])
    assert name in names(state_filters=["Ongoing"])
    assert name not in names(state_filters=["Empty"])
    assert name not in names(duration_filter_ms=1_000_000)
    if node.modern:
        assert names(transactional_id_pattern=f"^{name}$") == [name]

    found = admin.describe_transactions([name])[name]
    assert (found.coordinator_id, found.state) == (1, TransactionState.ONGOING)
    assert (found.producer_id, found.topic_partitions) == (producer_id, {where})
    assert found.transaction_start_time_ms > 0

    (state,) = [
        each
        for each in admin.describe_producers([where])[where].active_producers
        if each.producer_id == producer_id
    ]
    assert state.current_transaction_start_offset == 1
    assert admin.describe_producers([where], broker_id=1)[where]

    assert name not in [row["transactional_id"] for row in admin.find_hanging_transactions()]
    hanging = admin.find_hanging_transactions([1], max_transaction_timeout_ms=AT_ONCE_MS)
    (row,) = [row for row in hanging if row["transactional_id"] == name]
    assert (row["producer_id"], row["topic_partitions"]) == (producer_id, [where])


def test_a_transaction_is_ended_on_a_partition(node: Node, opened: Any) -> None:
    (name, where), admin = opened, node.admin
    found = admin.describe_transactions([name])[name]

    def stable() -> int:
        asked = {where: OffsetSpec.LATEST}
        return admin.list_partition_offsets(asked, isolation_level="read_committed")[where].offset

    assert stable() == 1
    admin.abort_transaction(AbortTransactionSpec(where, found.producer_id, found.producer_epoch))
    wait_until(lambda: stable() == 3, 20)
    states = admin.describe_producers([where])[where].active_producers
    assert all(each.current_transaction_start_offset == -1 for each in states)


def test_what_is_not_there_is_an_error_with_its_name(node: Node) -> None:
    admin, nowhere = node.admin, TopicPartition("no-such-topic", 0)
    with pytest.raises(TransactionalIdNotFoundError, match="no-such-id"):
        admin.describe_transactions(["no-such-id"])
    with pytest.raises(UnknownTopicOrPartitionError, match="no-such-topic-0"):
        admin.describe_producers([nowhere])
    with pytest.raises(UnknownTopicOrPartitionError, match="no-such-topic-0"):
        admin.describe_producers([nowhere], broker_id=1)
    with pytest.raises(UnknownTopicOrPartitionError, match="no-such-topic-0"):
        admin.abort_transaction(AbortTransactionSpec(nowhere, 1, 0))


def test_an_abort_of_an_older_epoch_is_refused(node: Node) -> None:
    admin, name, where = node.admin, node.name("tx"), TopicPartition(node.topic(), 0)
    for _ in range(2):
        producer = node.producer(transactional_id=name)
        producer.init_transactions()
    producer.begin_transaction()
    producer.send(where.topic, b"open", partition=0).get(20)
    found = admin.describe_transactions([name])[name]
    older = AbortTransactionSpec(where, found.producer_id, found.producer_epoch - 1)
    with pytest.raises(InvalidProducerEpochError, match=f"{where.topic}-0"):
        admin.abort_transaction(older)
    producer.abort_transaction()


def test_a_prepared_transaction_is_ended_and_an_end_that_is_refused_is_named(node: Node) -> None:
    topic, name = node.topic(), node.name("prepared")
    producer = node.producer(transactional_id=name)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"value")
    prepared = producer.prepare_transaction()
    assert prepared is not None
    node.admin.end_transaction(prepared, commit=True)
    refused = (InvalidTxnStateError, InvalidProducerEpochError, ProducerFencedError)
    with pytest.raises(refused, match=name):
        node.admin.end_transaction(prepared, commit=False)
