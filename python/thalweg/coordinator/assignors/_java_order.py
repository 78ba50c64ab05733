"""The orders in which a Java client looks at members, topics and partitions.

Java's assignors walk over `HashMap`s: which of two members keeps its surplus partition follows
from the hashes of their ids. That is a fixed order, so it is computed here instead of being left
to chance, and a group gets the same assignment from a leader of either kind.

One thing is not followed: from eight keys of one bucket on Java may turn the bucket into a tree.
Ids that are random do not get there (less than once in ten million buckets).
"""

from collections.abc import Iterable, Sequence
from typing import Final

from thalweg.structs import TopicPartition

_MASK: Final = 0xFFFFFFFF
_LEAST_BUCKETS: Final = 16


def text_order(text: str) -> bytes:
    """Sorts as Java compares strings: by UTF-16 units, where Python compares code points."""
    return text.encode("utf-16-be", "surrogatepass")


def text_hash(text: str) -> int:
    """`String.hashCode`, unsigned."""
    if text.isascii():
        units: Iterable[int] = text.encode()
    else:
        raw = text_order(text)
        units = (raw[at] << 8 | raw[at + 1] for at in range(0, len(raw), 2))
    found = 0
    for unit in units:
        found = 31 * found + unit & _MASK
    return found


def partition_hash(partition: TopicPartition) -> int:
    """`TopicPartition.hashCode`, unsigned."""
    topic, number = partition
    return 31 * (31 + number) + text_hash(topic) & _MASK


def bucket_count(most: int) -> int:
    """Buckets of a `HashMap` that grew from its default size until it held this many keys."""
    buckets = _LEAST_BUCKETS
    while most > buckets * 3 // 4:
        buckets *= 2
    return buckets


def bucket(code: int, buckets: int) -> int:
    """Where a `HashMap` of so many buckets (a power of two) keeps a hash."""
    return (code ^ code >> 16) & (buckets - 1)


def texts_in_hash_order(texts: Iterable[str]) -> list[str]:
    """Distinct strings in the order of a `HashMap` into which they were `put` in turn."""
    distinct = list(dict.fromkeys(texts))
    return _by_bucket(distinct, bucket_count(len(distinct)))


def computed_texts_in_hash_order(texts: Sequence[str]) -> list[str]:
    """Distinct strings in the order of a `HashMap` that took each by `computeIfAbsent` in turn.

    That sets a key before those of its bucket, where `put` sets it behind them. And the table
    grows at the call after the one that filled it, be that for a key that is there already.
    """
    before_last = dict.fromkeys(texts[:-1])
    return _by_bucket(reversed(dict.fromkeys(texts)), bucket_count(len(before_last)))


def _by_bucket(texts: Iterable[str], buckets: int) -> list[str]:
    return sorted(texts, key=lambda text: bucket(text_hash(text), buckets))
