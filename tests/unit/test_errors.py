"""Error classes: names, codes, bases, messages, and what existing except clauses rely on."""

import copy
import pickle
from array import array

import pytest

from thalweg import BatchMetadata, errors
from thalweg.errors import (
    BatchSendError,
    BrokerResponseError,
    BufferExhaustedError,
    CommitFailedError,
    DeserializationError,
    InvalidMetadataError,
    InvalidTopicError,
    KafkaConfigurationError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    MessageSizeTooLargeError,
    NoBrokersAvailable,
    NoCredentialsError,
    NoError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    RetriableError,
    SaslAuthenticationFailedError,
    UnknownError,
    UnknownTopicOrPartitionError,
    UnsupportedOperationError,
    for_code,
    kafka_errors,
)
from thalweg.structs import TopicPartition
from tools.generate_errors import read_table

CLASSES = [
    getattr(errors, name) for name in errors.__all__ if isinstance(getattr(errors, name), type)
]


def make(kind: type[KafkaError]) -> KafkaError:
    return kind({}) if kind is LogTruncationError else kind()


@pytest.mark.parametrize("row", read_table(), ids=lambda row: row.name)
def test_every_code_of_the_protocol_has_its_class(row):
    kind = for_code(row.code)
    assert kind.errno == row.code
    assert kind.message == row.name
    assert kind.description
    assert issubclass(kind, RetriableError) == ("Retriable" in row.families)
    assert issubclass(kind, InvalidMetadataError) == ("InvalidMetadata" in row.families)
    assert issubclass(kind, BrokerResponseError)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_is_a_kafka_error_with_consistent_attributes(kind):
    assert issubclass(kind, KafkaError)
    assert issubclass(kind, RuntimeError)
    assert kind.retriable == issubclass(kind, RetriableError)
    assert kind.invalid_metadata == issubclass(kind, InvalidMetadataError)
    assert kind.__module__ == "thalweg.errors"
    assert kind.__doc__


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_can_be_made_shown_pickled_copied_and_hashed(kind):
    error = make(kind)
    assert type(error).__name__ in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert again == error
    assert copy.copy(error) == copy.deepcopy(error) == error
    assert hash(again) == hash(error)


def test_an_unknown_code_is_not_lost():
    kind = for_code(9999)
    assert issubclass(kind, UnknownError)
    assert kind.errno == 9999
    assert "9999" in str(kind("x"))
    assert for_code(9999) is kind
    again = pickle.loads(pickle.dumps(kind("x")))
    assert type(again) is kind
    assert again == copy.deepcopy(again) == kind("x")


def test_texts_are_kafka_pythons():
    assert str(KafkaTimeoutError("too long")) == "KafkaTimeoutError: too long"
    assert str(KafkaTimeoutError()) == "KafkaTimeoutError"
    text = "[Error 3] UnknownTopicOrPartitionError: no 't'"
    assert str(UnknownTopicOrPartitionError("no 't'")) == text


def test_a_broker_error_without_text_explains_itself():
    text = "[Error 3] UnknownTopicOrPartitionError: This server does not host this topic-partition."
    assert str(UnknownTopicOrPartitionError()) == text


def test_errors_compare_by_class_and_arguments():
    assert KafkaTimeoutError("a") == KafkaTimeoutError("a")
    assert KafkaTimeoutError("a") != KafkaTimeoutError("b")
    assert KafkaTimeoutError("a") != KafkaError("a")
    assert KafkaTimeoutError("a") != "a"


@pytest.mark.parametrize(
    "kind, bases",
    [
        (RecordTooLargeError, (MessageSizeTooLargeError,)),
        (BufferExhaustedError, (KafkaTimeoutError,)),
        (KafkaTimeoutError, (RetriableError, TimeoutError)),
        (KafkaConfigurationError, (KafkaError, ValueError)),
        (InvalidTopicError, (BrokerResponseError, ValueError)),
        (NoBrokersAvailable, (KafkaTimeoutError,)),
        (NoCredentialsError, (RetriableError, SaslAuthenticationFailedError)),
        (UnsupportedOperationError, (KafkaError, NotImplementedError)),
    ],
)
def test_new_errors_are_caught_by_what_users_already_catch(kind, bases):
    for base in bases:
        with pytest.raises(base):
            raise kind("x")


def test_errors_carry_what_they_are_about():
    where = TopicPartition("t", 1)
    assert OffsetOutOfRangeError("x", offsets={where: 5}).offsets == {where: 5}
    assert NoOffsetForPartitionError("x", partitions=[where]).partitions == [where]
    assert LogTruncationError({where: None}).divergent_offsets == {where: None}
    assert "TopicPartition" in str(LogTruncationError({where: None}))
    assert NoBrokersAvailable("x", addresses={"h:1": "refused"}).addresses == {"h:1": "refused"}
    assert KafkaTimeoutError("x", possibly_written=True).possibly_written is True
    assert KafkaTimeoutError("x").possibly_written is False
    assert BatchSendError(errors=[(1, KafkaError("x"))]).possibly_written is False
    late = KafkaTimeoutError("x", possibly_written=True)
    assert BatchSendError(errors=[(1, KafkaError("x")), (2, late)]).possibly_written is True
    assert errors.OutOfOrderSequenceNumberError("x").possibly_written is False
    assert errors.CorruptRecordError("x", topic_partition=where, offset=3).offset == 3
    assert SaslAuthenticationFailedError("x", by_client=True).by_client is True
    assert SaslAuthenticationFailedError("x").by_client is False
    assert NoCredentialsError("x").by_client is True


def test_what_an_error_carries_survives_pickling():
    where = TopicPartition("t", 1)
    error = pickle.loads(pickle.dumps(OffsetOutOfRangeError("x", offsets={where: 5})))
    assert error.offsets == {where: 5}
    raw = DeserializationError("x", topic="t", partition=1, offset=2, value=b"v", part="value")
    again = pickle.loads(pickle.dumps(raw))
    assert (again.topic, again.partition, again.offset, again.value) == ("t", 1, 2, b"v")
    cut = pickle.loads(pickle.dumps(LogTruncationError({where: None}, "x", offsets={where: 5})))
    assert (cut.divergent_offsets, cut.offsets, cut.args) == ({where: None}, {where: 5}, ("x",))


def test_a_batch_error_counts_its_rows_and_shows_the_first():
    error = BatchSendError(errors=[(3, KafkaTimeoutError("late")), (4, KafkaError("x"))])
    assert str(error) == (
        "BatchSendError: 2 rows were not written, the first is row 3: KafkaTimeoutError: late"
    )
    assert [row for row, _ in error.errors] == [3, 4]


def test_a_batch_error_is_pickled_and_copied_with_what_was_written():
    written = BatchMetadata({TopicPartition("t", 1): (2, 5, 9)}, array("q", [5, -1, 9]).tobytes())
    error = BatchSendError(errors=[(1, KafkaTimeoutError("late"))], metadata=written)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert again == error
        assert again.errors == [(1, KafkaTimeoutError("late"))]
        assert again.metadata.count == 2
        assert again.metadata.partitions == {TopicPartition("t", 1): (2, 5, 9)}
        assert list(again.metadata.offsets) == [5, -1, 9]
        assert len(again.metadata) == 3
    with pytest.raises(ValueError, match="whole int64"):
        BatchMetadata({}, b"1234567")


def test_a_failed_commit_says_what_to_do():
    assert "max_poll_interval_ms" in str(CommitFailedError())
    assert str(CommitFailedError("because")) == "CommitFailedError: because"


def test_no_error_has_a_class_too():
    assert for_code(0) is NoError
    assert kafka_errors[-1] is UnknownError


def test_todays_names_of_renamed_errors_exist():
    assert errors.NotLeaderOrFollowerError is errors.NotLeaderForPartitionError
    assert errors.CorruptRecordException is errors.CorruptRecordError
