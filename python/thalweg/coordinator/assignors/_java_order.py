"""The order in which a Java client iterates over members, topics and partitions.

Java's assignors iterate over `HashMap`s. So the hashes of their ids decide which of two members
keeps an additional partition. This module computes the same order, so that a group gets the same
assignment from a Java leader and from this client.

One detail differs: with eight or more keys in a bucket, Java may convert the bucket to a tree. With
random ids this is rare (less than once in ten million buckets).
"""

from collections.abc import Iterable, Sequence
from typing import Final

from thalweg.structs import TopicPartition

_MASK: Final = 0xFFFFFFFF
_LEAST_BUCKETS: Final = 16


def text_order(text: str) -> bytes:
    """Returns a sort key for Java's order of strings: UTF-16 units, not code points."""
    return text.encode("utf-16-be", "surrogatepass")


def text_hash(text: str) -> int:
    """Computes `String.hashCode`, unsigned."""
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
    """Computes `TopicPartition.hashCode`, unsigned."""
    topic, number = partition
    return 31 * (31 + number) + text_hash(topic) & _MASK


def bucket_count(most: int) -> int:
    """Returns the number of buckets of a `HashMap` that has grown to hold this many keys."""
    buckets = _LEAST_BUCKETS
    while most > buckets * 3 // 4:
        buckets *= 2
    return buckets


def bucket(code: int, buckets: int) -> int:
    """Returns the bucket of a hash in a `HashMap`. `buckets` is a power of two."""
    return (code ^ code >> 16) & (buckets - 1)


def texts_in_hash_order(texts: Iterable[str]) -> list[str]:
    """Returns the distinct strings in the order of a `HashMap` that got them by `put` in turn."""
    distinct = list(dict.fromkeys(texts))
    return _by_bucket(distinct, bucket_count(len(distinct)))


def computed_texts_in_hash_order(texts: Sequence[str]) -> list[str]:
    """Returns the distinct strings in the order of a `HashMap` after `computeIfAbsent` of each.

    `computeIfAbsent` inserts a key at the start of its bucket, where `put` appends it. And the
    table grows one call later than with `put`, even if that call is for an existing key.
    """
    before_last = dict.fromkeys(texts[:-1])
    return _by_bucket(reversed(dict.fromkeys(texts)), bucket_count(len(before_last)))


def _by_bucket(texts: Iterable[str], buckets: int) -> list[str]:
    return sorted(texts, key=lambda text: bucket(text_hash(text), buckets))
