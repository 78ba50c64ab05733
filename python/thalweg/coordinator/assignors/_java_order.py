"""The orders in which a Java client looks at members, topics and partitions.

Java's assignors walk over `HashMap`s: which of two members keeps its surplus partition follows
from the hashes of their ids. That is a fixed order, so it is computed here instead of being left
to chance, and a group gets the same assignment from a leader of either kind.

One thing is not followed: from eight keys of one bucket on Java may turn the bucket into a tree.
Ids that are random do not get there (less than once in ten million buckets).
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from thalweg.structs import TopicPartition

_Key = TypeVar("_Key")
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


def hash_ordered(keys: Iterable[_Key], code: Callable[[_Key], int]) -> list[_Key]:
    """Distinct keys in the order of a `HashMap` into which they were put one after the other."""
    distinct = list(dict.fromkeys(keys))
    buckets = bucket_count(len(distinct))
    return sorted(distinct, key=lambda key: bucket(code(key), buckets))


def texts_in_hash_order(texts: Iterable[str]) -> list[str]:
    """`hash_ordered` for strings."""
    return hash_ordered(texts, text_hash)
