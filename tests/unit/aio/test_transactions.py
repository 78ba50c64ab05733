"""`async with producer.transaction():`, without a producer."""

import asyncio

import pytest

from thalweg.aio._transactions import Transaction
from thalweg.errors import KafkaTimeoutError, ProducerFencedError, TransactionAbortableError


class Recorder:
    """Records its calls, and raises what the test sets."""

    def __init__(self, **raises):
        self.calls, self.raises = [], raises

    async def begin_transaction(self):
        self._called("begin")

    async def commit_transaction(self):
        self._called("commit")

    async def abort_transaction(self):
        self._called("abort")

    def _called(self, name):
        self.calls.append(name)
        if name in self.raises:
            raise self.raises[name]


def run(producer, error=None):
    """Runs a block that raises the error, and returns what is raised in the end."""

    async def block():
        async with Transaction(producer):
            if error is not None:
                raise error

    try:
        asyncio.run(block())
    except BaseException as raised:
        return raised
    return None


def test_a_block_commits_at_its_end():
    producer = Recorder()
    assert run(producer) is None
    assert producer.calls == ["begin", "commit"]


@pytest.mark.parametrize("error", [ValueError("mine"), asyncio.CancelledError()])
def test_a_block_that_raises_aborts_and_raises(error):
    producer = Recorder()
    assert type(run(producer, error)) is type(error)
    assert producer.calls == ["begin", "abort"]


def test_a_commit_that_fails_aborts_and_raises():
    producer = Recorder(commit=TransactionAbortableError("lost"))
    assert isinstance(run(producer), TransactionAbortableError)
    assert producer.calls == ["begin", "commit", "abort"]


@pytest.mark.parametrize("error", [KafkaTimeoutError("late"), asyncio.CancelledError()])
def test_a_commit_of_unknown_outcome_is_not_aborted(error):
    producer = Recorder(commit=error)
    assert type(run(producer)) is type(error)
    assert producer.calls == ["begin", "commit"]


def test_a_fatal_error_is_raised_as_it_is():
    producer = Recorder()
    assert isinstance(run(producer, ProducerFencedError("newer")), ProducerFencedError)
    assert producer.calls == ["begin"]


def test_an_abort_that_fails_masks_nothing():
    raised = run(Recorder(abort=ProducerFencedError("newer")), ValueError("mine"))
    assert isinstance(raised, ValueError)
    assert "newer" in "".join(raised.__notes__)
