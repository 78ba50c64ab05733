"""The Python part of the producer's transaction calls (on a fake core)."""

from typing import Any

import pytest

from thalweg import errors
from thalweg.errors import (
    AbortableTransactionError,
    CommitFailedError,
    FatalTransactionError,
    KafkaTimeoutError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionalIdAuthorizationFailedError,
    TransactionCommitFailedError,
)
from thalweg.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

OFFSETS = {TopicPartition("in", 3): OffsetAndMetadata(7, "note", 2)}
ROWS = [("in", 3, 7, "note", 2)]


@pytest.fixture
def producer(fake) -> Any:
    made = fake.producer.KafkaProducer(transactional_id="t")
    made.raises = {}
    yield made
    made.close()


def names(producer: Any) -> list[str]:
    return [call[0] for call in producer.calls]


def test_the_calls_are_the_cores(producer):
    producer.init_transactions()
    producer.begin_transaction()
    producer.commit_transaction()
    producer.abort_transaction()
    assert names(producer) == ["init", "begin", "commit", "abort"]
    assert producer.core_config["transactional_id"] == "t"


@pytest.mark.parametrize(
    ("args", "group"),
    [
        ({"group_metadata": "g"}, ("g", -1, "", None)),
        ({"consumer_group_id": "g"}, ("g", -1, "", None)),
        ({"group_metadata": ConsumerGroupMetadata("g")}, ("g", -1, "", None)),
        ({"group_metadata": ConsumerGroupMetadata("g", 4, "m", "i")}, ("g", 4, "m", "i")),
    ],
)
def test_offsets_go_to_the_core_as_rows(producer, args, group):
    producer.send_offsets_to_transaction(OFFSETS, **args)
    assert producer.calls == [("send_offsets", ROWS, group)]


@pytest.mark.parametrize(
    ("offsets", "group", "error"),
    [
        (OFFSETS, None, TypeError),
        (OFFSETS, 7, TypeError),
        ("in", "g", TypeError),
        (OFFSETS, ConsumerGroupMetadata(), ValueError),
        (OFFSETS, "", ValueError),
        (OFFSETS, ConsumerGroupMetadata("g", 4), ValueError),
        ({("in", 3): OffsetAndMetadata(1)}, "g", TypeError),
        ({TopicPartition("in", 3): "7"}, "g", TypeError),
        ({TopicPartition("in", 3): OffsetAndMetadata(-1)}, "g", ValueError),
    ],
)
def test_other_arguments_are_refused(producer, offsets, group, error):
    with pytest.raises(error):
        producer.send_offsets_to_transaction(offsets, group)
    with pytest.raises(TypeError):
        producer.send_offsets_to_transaction(OFFSETS, "g", consumer_group_id="g")
    assert producer.calls == []


def test_a_block_commits_at_its_end(producer):
    with producer.transaction():
        assert names(producer) == ["begin"]
    assert names(producer) == ["begin", "commit"]


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt()])
def test_a_block_that_raises_aborts_and_raises(producer, error):
    with pytest.raises(type(error)) as caught, producer.transaction():
        raise error
    assert caught.value is error
    assert names(producer) == ["begin", "abort"]


def test_a_commit_that_fails_aborts_and_raises(producer):
    producer.raises["commit"] = TransactionAbortableError("lost")
    with pytest.raises(TransactionAbortableError, match="lost"), producer.transaction():
        pass
    assert names(producer) == ["begin", "commit", "abort"]


def test_what_the_abort_after_a_commit_finds_out_is_raised(producer):
    producer.raises["commit"] = AbortableTransactionError("a record failed")
    producer.raises["abort"] = ProducerFencedError("newer")
    with pytest.raises(ProducerFencedError, match="newer") as caught, producer.transaction():
        pass
    assert caught.value.__cause__ is producer.raises["commit"]
    producer.raises["abort"] = KafkaTimeoutError("late")
    with pytest.raises(AbortableTransactionError, match="a record failed"), producer.transaction():
        pass


def test_a_commit_of_unknown_outcome_is_not_aborted(producer):
    producer.raises["commit"] = KafkaTimeoutError("late")
    with pytest.raises(KafkaTimeoutError, match="late"), producer.transaction():
        pass
    assert names(producer) == ["begin", "commit"]


def test_a_fatal_error_is_raised_as_it_is(producer):
    with pytest.raises(ProducerFencedError), producer.transaction():
        raise ProducerFencedError("newer")
    assert names(producer) == ["begin"]


def test_an_abort_that_fails_masks_nothing(producer):
    producer.raises["abort"] = ProducerFencedError("newer")
    with pytest.raises(ValueError, match="mine") as caught, producer.transaction():
        raise ValueError("mine")
    assert "newer" in "".join(caught.value.__notes__)


def test_errors_of_transactions_are_told_apart_by_class():
    for fatal in (ProducerFencedError, TransactionalIdAuthorizationFailedError):
        assert issubclass(fatal, FatalTransactionError)
        assert issubclass(fatal, errors.BrokerResponseError)
    for abortable in (TransactionAbortableError, TransactionCommitFailedError):
        assert issubclass(abortable, AbortableTransactionError)
    assert issubclass(TransactionCommitFailedError, CommitFailedError)
    assert not issubclass(AbortableTransactionError, FatalTransactionError)
