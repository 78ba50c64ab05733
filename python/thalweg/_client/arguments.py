"""Checks the arguments of calls. Errors name the parameter, the given value and what is expected.

A wrong type raises TypeError and a wrong value ValueError, as in kafka-python 3. An invalid topic
name raises InvalidTopicError, which is also a ValueError.

It does not check options (see `config.py`), nor anything that depends on a client's state.
"""

import functools
import re
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from thalweg._config.concealment import concealed, mappings_hidden
from thalweg._config.secret import Secret
from thalweg.errors import InvalidTopicError
from thalweg.structs import OffsetAndMetadata, TopicPartition

__all__ = [
    "OFFSETS",
    "by_partition",
    "check_topic",
    "constructor_topics",
    "count_given",
    "duration_given",
    "int_given",
    "keywords_only",
    "mapping_given",
    "names_given",
    "number_given",
    "offsets_given",
    "partition_given",
    "partitions_given",
    "partitions_named",
    "shown",
    "topics_given",
]

OFFSETS: Final = "{TopicPartition: OffsetAndMetadata or int}"

_PARTITION: Final = "TopicPartition(topic, partition)"
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def shown(given: Any) -> str:
    """Returns an argument's type and short repr, for messages."""
    return "None" if given is None else f"{type(given).__name__} {reprlib.repr(given)}"


def _listed(given: Any, name: str, expected: str) -> list[Any]:
    try:
        items = iter(given)
    except TypeError:
        raise TypeError(f"{name} must be {expected}, got {shown(given)}") from None
    return list(items)


def mapping_given(given: Any, name: str, expected: str) -> Mapping[Any, Any]:
    """Returns the argument if it is a mapping.

    Raises:
        TypeError: If it is not.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"{name} must be {expected}, got {shown(given)}")
    return given


def by_partition(given: Any, name: str, expected: str) -> dict[TopicPartition, Any]:
    """Returns a mapping from partitions as a dict.

    Raises:
        TypeError: If it is not a mapping, or a key is not a TopicPartition.
    """
    found = {}
    for key, value in mapping_given(given, name, expected).items():
        where = _as(TopicPartition, key)
        if where is None:
            raise TypeError(f"{name} must be {expected}, but one key is {shown(key)}")
        found[where] = value
    return found


def names_given(given: Any, name: str, kinds: type | tuple[type, ...] = str) -> list[Any]:
    """Returns names as a list. One str would otherwise be a list of its letters.

    Raises:
        TypeError: If the argument is one str, or an element is not of `kinds`.
    """
    if isinstance(given, str | bytes):
        hint = f": use [{reprlib.repr(given)}]" if isinstance(given, str) else ""
        raise TypeError(f"{name} must be a list of names, not one {type(given).__name__}{hint}")
    found = _listed(given, name, "a list of names")
    for index, each in enumerate(found):
        if not isinstance(each, kinds):
            raise TypeError(f"{name} must be a list of names, but {name}[{index}] is {shown(each)}")
    return found


# ---------------------------------------------------------------------- constructors


def _refuse_mapping(called: str, given: Iterable[object]) -> None:
    # The mapping is hidden, and the message does not show it: it may contain passwords.
    if any(isinstance(each, Secret) for each in given):
        raise TypeError(
            f"{called} takes options as keyword arguments, not as a dict. To pass a dict, call"
            f" {called}.from_config(options)"
        )


def keywords_only(init: Callable[..., None]) -> Callable[..., None]:
    """Makes a constructor explain what to do if options come as one dict, as in confluent-kafka.

    The signature remains that of `init`.
    """
    called = init.__qualname__.partition(".")[0]

    @functools.wraps(init)
    def checked(self: object, *given: object, **configs: object) -> None:
        given, configs = mappings_hidden(given), concealed(configs)
        if given:
            _refuse_mapping(called, given)
            raise TypeError(
                f"{called} takes only keyword arguments, for example"
                f" {called}(bootstrap_servers='host:9092'), got {shown(given[0])}"
            )
        init(self, **configs)

    return checked


def constructor_topics(called: str, topics: tuple[Any, ...]) -> list[str]:
    """Returns the topics that a consumer's constructor got, with `mappings_hidden`.

    Raises:
        TypeError: If one of them is not a str, for example a dict of options.
        InvalidTopicError: If a topic name is not valid.
    """
    _refuse_mapping(called, topics)
    for each in topics:
        if isinstance(each, list | tuple | set | frozenset):
            raise TypeError(
                f"{called} takes topics as separate arguments, for example {called}('a', 'b'),"
                f" got {shown(each)}"
            )
        check_topic(each)
    return list(topics)


# ---------------------------------------------------------------------- topics and partitions


def check_topic(name: Any) -> None:
    """Checks a topic name (`org.apache.kafka.common.internals.Topic`).

    Raises:
        TypeError: If the name is not a str.
        InvalidTopicError: If the name is not valid.
    """
    if not isinstance(name, str):
        raise TypeError(f"a topic's name must be a str, got {shown(name)}")
    if _TOPIC.fullmatch(name) is None or name in (".", ".."):
        raise InvalidTopicError(
            f"{name!r} is not a topic name: it must be 1 to 249 of the characters a-z, A-Z, 0-9,"
            " '.', '_' and '-', and not '.' or '..'"
        )


def topics_given(topics: Any) -> list[str]:
    """Returns the topics to subscribe to as a list.

    Raises:
        TypeError: If `topics` is one str, or not a list of str.
        InvalidTopicError: If a topic name is not valid.
    """
    if isinstance(topics, str | bytes):
        hint = f": use [{reprlib.repr(topics)}]" if isinstance(topics, str) else ""
        raise TypeError(f"topics must be a list of str, not one {shown(topics)}{hint}")
    found = _listed(topics, "topics", "a list of str")
    for each in found:
        check_topic(each)
    return found


def _as(kind: type[Any], given: Any) -> Any:
    """Converts a named tuple of kafka-python or aiokafka with the same fields to `kind`.

    Returns:
        The tuple, or None if the fields differ.
    """
    if isinstance(given, kind):
        return given
    fields = getattr(given, "_fields", ())
    is_like_ours = fields and isinstance(given, tuple) and fields == kind._fields[: len(fields)]
    return kind(*given) if is_like_ours and len(fields) > 1 else None


def partition_given(partition: Any) -> TopicPartition:
    """Returns the argument as a TopicPartition.

    Raises:
        TypeError: If `partition` is not a TopicPartition.
    """
    found: TopicPartition | None = _as(TopicPartition, partition)
    if found is None:
        raise TypeError(f"partition must be a {_PARTITION}, got {shown(partition)}")
    return found


def partitions_named(partitions: Collection[Any]) -> list[TopicPartition]:
    """Returns partitions given as separate arguments, as in `pause(*partitions)`.

    Raises:
        TypeError: If an argument is not a TopicPartition.
    """
    found = [_as(TopicPartition, each) for each in partitions]
    for each, known in zip(partitions, found, strict=True):
        if known is None:
            one_by_one = isinstance(each, list | set | frozenset)
            hint = ": pass partitions as separate arguments, not as a list" if one_by_one else ""
            raise TypeError(f"each partition must be a {_PARTITION}, got {shown(each)}{hint}")
    return found


def partitions_given(partitions: Any) -> list[TopicPartition]:
    """Returns partitions given as one list.

    Raises:
        TypeError: If `partitions` is not a list of TopicPartitions.
        ValueError: If a partition is negative.
        InvalidTopicError: If a topic name is not valid.
    """
    expected = f"a list of {_PARTITION}"
    if _as(TopicPartition, partitions) is not None:
        raise TypeError(f"partitions must be {expected}, not one: use [{partitions!r}]")
    if isinstance(partitions, str | bytes):
        raise TypeError(f"partitions must be {expected}, got {shown(partitions)}")
    given = _listed(partitions, "partitions", expected)
    found: list[TopicPartition] = []
    topics: set[str] = set()
    for index, one in enumerate(given):
        each = _as(TopicPartition, one)
        if each is None:
            raise TypeError(
                f"partitions must be {expected}, but partitions[{index}] is {shown(one)}"
            )
        found.append(each)
        topic: Any = each.topic
        number: Any = each.partition
        if not hasattr(number, "__index__"):
            raise TypeError(f"the partition of topic {topic} must be an int, got {shown(number)}")
        if number < 0:
            raise ValueError(f"partition {number} of topic {topic}: a partition is 0 or more")
        if not isinstance(topic, str) or topic not in topics:
            check_topic(topic)
            topics.add(topic)
    return found


# ---------------------------------------------------------------------- numbers


def number_given(given: Any, name: str, unit: str) -> Any:
    """Returns the argument unchanged if it is a number.

    Raises:
        TypeError: If it is not a number.
    """
    if not hasattr(given, "__float__"):
        raise TypeError(f"{name} must be a number of {unit}, got {shown(given)}")
    return given


def duration_given(given: Any, name: str, unit: str) -> Any:
    """Returns a time to wait unchanged. It may be infinite.

    Raises:
        TypeError: If it is not a number.
        ValueError: If it is negative or NaN.
    """
    if not number_given(given, name, unit) >= 0:
        raise ValueError(f"{name} must be a number of {unit}, 0 or more, got {given}")
    return given


def count_given(given: Any, name: str) -> None:
    """Checks a limit of a count.

    Raises:
        TypeError: If it is not an int.
        ValueError: If it is below 1.
    """
    if not hasattr(given, "__index__"):
        raise TypeError(f"{name} must be an int, 1 or more, got {shown(given)}")
    if given < 1:
        raise ValueError(f"{name} must be at least 1, got {given}")


def int_given(given: Any, name: str, least: int, most: int) -> int:
    """Returns the argument if it is an int from `least` to `most`.

    Raises:
        TypeError: If it is not an int.
        ValueError: If it is outside these limits.
    """
    if not hasattr(given, "__index__"):
        raise TypeError(f"{name} must be an int from {least} to {most}, got {shown(given)}")
    if not least <= given <= most:
        raise ValueError(f"{name} must be from {least} to {most}, got {given}")
    return int(given)


# ---------------------------------------------------------------------- offsets


def _offset_given(value: Any) -> OffsetAndMetadata | None:
    """Converts a value of the mapping for `offsets_given`. Returns None if it has a wrong type."""
    found: OffsetAndMetadata | None = _as(OffsetAndMetadata, value)
    if found is not None:
        return found
    if type(value) is tuple and len(value) == 2:
        return OffsetAndMetadata(*value)
    is_number = hasattr(value, "__index__") and not isinstance(value, bool)
    return OffsetAndMetadata(value) if is_number else None


def offsets_given(offsets: Any) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns the offsets to commit, every value as an OffsetAndMetadata.

    A value may also be an int, or a tuple (int, metadata string).

    Raises:
        TypeError: If `offsets` is not a {TopicPartition: OffsetAndMetadata}.
        ValueError: If an offset is negative.
    """
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for key, value in mapping_given(offsets, "offsets", OFFSETS).items():
        where, at = _as(TopicPartition, key), _offset_given(value)
        if where is None:
            raise TypeError(f"offsets must be {OFFSETS}, but one key is {shown(key)}")
        name = f"{where.topic}-{where.partition}"
        if at is None:
            raise TypeError(f"offsets must be {OFFSETS}, but the value of {name} is {shown(value)}")
        found[where] = at
        offset: Any = at.offset
        if not hasattr(offset, "__index__"):
            raise TypeError(f"the offset of {name} must be an int, got {shown(offset)}")
        if offset < 0:
            raise ValueError(f"the offset of {name} must not be negative, got {offset}")
    return found
