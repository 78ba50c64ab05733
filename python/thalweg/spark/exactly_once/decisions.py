"""`Decision`: which transactions of a batch commit. It is stored as committed offsets of groups.

    Decision ── pack ──▶ ["1 0/2 <query> <text>", "1 1/2 <query> <text>"] ── unpack ──▶ Decision

Each piece is the metadata of an offset, and the offset itself is the batch. Brokers limit the
metadata (`offset.metadata.max.bytes`, 4,096 bytes), so a decision with many tasks has several
pieces, in a group each. One transaction commits all of them.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from thalweg.structs import PreparedTransaction

_VERSION: Final = "1"
_PIECE_CHARS: Final = 3_900
_PIECES_MAX: Final = 1_000
_TEXT_BYTES_MAX: Final = 64 << 20
_GENERATIONS: Final = 16
_TASK_IDS: Final = 4


class Driver(NamedTuple):
    """The identity with which a driver stores a decision. The next plan fences it."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True)
class Attempt:
    """An attempt at a task, with the transaction that it has prepared."""

    partition: int
    number: int
    producer_id: int
    producer_epoch: int

    def prepared(self, prefix: str) -> PreparedTransaction:
        """Returns the transaction, as `end_transaction` needs it."""
        name = transactional_id(prefix, self.partition, self.number)
        return PreparedTransaction(name, self.producer_id, self.producer_epoch)


@dataclass(frozen=True)
class Decision:
    """The transactions of a batch that commit."""

    query: str
    batch: int
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True)
class Plan:
    """What the tasks of a batch need to know. Spark pickles it."""

    driver: Driver
    last: Decision | None


def attempt_number(driver: Driver, attempt: int, task_id: int) -> int:
    """Returns the number of an attempt at a task, which is a part of its transactional ID.

    If a producer starts with the transactional ID of another one, the coordinator aborts the other
    one's transaction, even if the driver has decided to commit it. So a task looks whether it is
    late before it starts its producer. If it becomes late a moment after that, its number still
    differs from that of a decided attempt in most cases:

    - Attempts of the same stage differ in the attempt number.
    - If Spark repeats a stage, attempt numbers begin with 0 again, while tasks of the first stage
      may still run. Their task IDs differ, and count modulo 4.
    - If the driver has died, its tasks may still run. Their plan had another epoch of the driver,
      which counts modulo 16.

    There are few numbers, because brokers remember every transactional ID for days.
    """
    number = attempt * _TASK_IDS + task_id % _TASK_IDS
    return number * _GENERATIONS + driver.producer_epoch % _GENERATIONS


def transactional_id(prefix: str, partition: int, number: int) -> str:
    """Returns the transactional ID of an attempt at a task."""
    return f"{prefix}-{partition}-{number}"


def pack(decision: Decision) -> list[str]:
    """Returns the pieces of a decision."""
    rows = [
        [each.partition, each.number, each.producer_id, each.producer_epoch]
        for each in decision.attempts
    ]
    packed = zlib.compress(json.dumps(rows, separators=(",", ":")).encode(), 9)
    text = base64.b64encode(packed).decode()
    chunks = [text[at : at + _PIECE_CHARS] for at in range(0, len(text), _PIECE_CHARS)]
    return [
        f"{_VERSION} {index}/{len(chunks)} {decision.query} {chunk}"
        for index, chunk in enumerate(chunks)
    ]


def count(piece: str) -> int:
    """Returns the number of pieces of the decision to which this piece belongs.

    Raises:
        ValueError: If it is not a piece of a decision.
    """
    version, _, rest = piece.partition(" ")
    pieces = rest.partition(" ")[0].partition("/")[2]
    if version != _VERSION or not pieces.isdecimal() or not 0 < int(pieces[:9]) <= _PIECES_MAX:
        raise ValueError("the metadata of the offset has another form")
    return int(pieces)


def unpack(batch: int, pieces: Sequence[str]) -> Decision:
    """Returns the decision that was stored for a batch.

    Raises:
        ValueError: If the pieces do not belong together, or have another form.
    """
    fields = [piece.split(" ", 3) for piece in pieces]
    expected = [f"{index}/{len(pieces)}" for index in range(len(pieces))]
    if [each[1:2] for each in fields] != [[each] for each in expected]:
        raise ValueError("pieces of the decision are missing")
    if any(len(each) != 4 or each[0] != _VERSION for each in fields):
        raise ValueError("the metadata of the offset has another form")
    queries = {each[2] for each in fields}
    if len(queries) != 1:
        raise ValueError("the pieces belong to several queries")
    try:
        packed = base64.b64decode("".join(each[3] for each in fields), validate=True)
        unpacked = zlib.decompressobj()
        rows = json.loads(unpacked.decompress(packed, _TEXT_BYTES_MAX))
        attempts = tuple(Attempt(*map(_whole, row)) for row in rows)
    except (binascii.Error, zlib.error, TypeError, ValueError) as error:
        raise ValueError("the metadata of the offset is damaged") from error
    return Decision(queries.pop(), batch, attempts)


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("not a whole number")
    return value
