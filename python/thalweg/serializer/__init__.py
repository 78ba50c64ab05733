"""Turning keys and values into bytes and back; kafka-python 3's classes.

    send(topic, value, key) ── Serializer.serialize(topic, headers, data) ──> bytes
    bytes ── Deserializer.deserialize(topic, headers, data) ──> record.key, record.value

Older shapes are taken too, so that 2.x code runs: a plain callable `f(data)`, and an object
whose method has no `headers` (`serialize(topic, data)`). The shape is found once, when the
client is made, never per record.

What is deliberately absent: nothing here runs unless the user set a (de)serializer.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

__all__ = [
    "DefaultSerializer",
    "DeserializeWrapper",
    "Deserializer",
    "JsonSerializer",
    "SerializeWrapper",
    "Serializer",
]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)
_T_contra = TypeVar("_T_contra", contravariant=True)

Headers: TypeAlias = list[tuple[str, bytes]]
SerializeFunction: TypeAlias = Callable[[str, Headers, Any], bytes | None]
DeserializeFunction: TypeAlias = Callable[[str, Any, bytes | None], Any]


class Serializer(ABC, Generic[_T_contra]):
    """Makes bytes of a key or value (`org.apache.kafka.common.serialization.Serializer`)."""

    def __init__(self, **config: Any) -> None:
        """Takes and ignores anything, as kafka-python 2 does."""

    @abstractmethod
    def serialize(self, topic: str, headers: Headers, data: _T_contra) -> bytes | None:
        """Bytes of `data`, or None for a null; may append to `headers`.

        Whatever it raises is raised by `send` unchanged, and fails that send alone.
        """

    def close(self) -> None:
        """Called when the client is closed."""


class Deserializer(ABC, Generic[_T_co]):
    """Makes an object of a key's or value's bytes (`serialization.Deserializer`)."""

    def __init__(self, **config: Any) -> None:
        """Takes and ignores anything, as kafka-python 2 does."""

    @abstractmethod
    def deserialize(self, topic: str, headers: Headers, data: bytes) -> _T_co:
        """The object; `data` is None for a null key or value.

        Whatever it raises becomes the cause of a `DeserializationError`.
        """

    def close(self) -> None:
        """Called when the client is closed."""


class DefaultSerializer(Serializer[Any], Deserializer[Any]):
    """Text in an encoding; bytes pass through."""

    def __init__(self, encoding: str = "utf-8") -> None:
        """Takes the name of the encoding."""
        self.encoding = encoding

    def serialize(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        """Encodes a str; bytes, bytearray, memoryview and None are passed on.

        Raises:
            TypeError: If it is anything else.
        """
        if data is None or isinstance(data, bytes | bytearray | memoryview):
            return data  # type: ignore[return-value]
        if not isinstance(data, str):
            raise TypeError(
                f"{type(self).__name__} takes str, bytes or None, not {type(data).__name__}"
            )
        return data.encode(self.encoding)

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        """Decodes bytes to a str; None stays None."""
        return None if data is None else data.decode(self.encoding)


class JsonSerializer(DefaultSerializer):
    """JSON in an encoding; None stays a null, it does not become the text `null`."""

    def serialize(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        """The JSON text of `data`; TypeError if it has none."""
        import json

        return None if data is None else super().serialize(topic, headers, json.dumps(data))

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        """The value of the JSON text; ValueError if it is none."""
        import json

        return None if data is None else json.loads(super().deserialize(topic, headers, data))


class SerializeWrapper(Serializer[Any]):
    """A plain function as a Serializer."""

    def __init__(self, fn: Callable[[Any], bytes | None] | None) -> None:
        """Takes f(data) -> bytes; None passes data through."""
        self.fn = fn

    def serialize(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        """Calls the function with the data alone."""
        return data if self.fn is None else self.fn(data)


class DeserializeWrapper(Deserializer[Any]):
    """A plain function as a Deserializer."""

    def __init__(self, fn: Callable[[Any], Any] | None) -> None:
        """Takes f(bytes) -> object; None passes bytes through."""
        self.fn = fn

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        """Calls the function with the bytes alone."""
        return data if self.fn is None else self.fn(data)


def _without_headers(method: Callable[..., Any]) -> bool:
    """Whether a (de)serialize method has kafka-python 2.x's two arguments."""
    import inspect  # here and below: only who sets a serializer pays for these imports

    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):
        return False
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return False
    positional = (
        each
        for each in parameters
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    )
    return sum(1 for _ in positional) == 2


def _as_function(given: Any, verb: str) -> Callable[..., Any] | None:
    if given is None:
        return None
    method = getattr(given, verb, None)
    if method is None:
        if not callable(given):
            raise TypeError(f"expected a callable or an object with {verb}(), not {given!r}")
        return lambda topic, headers, data: given(data)
    if _without_headers(method):
        return lambda topic, headers, data: method(topic, data)
    return method  # type: ignore[no-any-return]


def serialize_function(given: Any) -> SerializeFunction | None:
    """`f(topic, headers, data) -> bytes` of a Serializer, an older one, or a plain callable.

    Raises:
        TypeError: If it is none of them.
    """
    return _as_function(given, "serialize")


def deserialize_function(given: Any) -> DeserializeFunction | None:
    """`f(topic, headers, data) -> object`; see `serialize_function`.

    A plain callable is called for None too, as kafka-python 3 does.
    """
    return _as_function(given, "deserialize")
