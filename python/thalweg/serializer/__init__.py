"""Serializers and deserializers convert keys and values; kafka-python 3's classes.

    send(topic, value, key) ── Serializer.serialize(topic, headers, data) ──> bytes
    bytes ── Deserializer.deserialize(topic, headers, data) ──> record.key, record.value

kafka-python 2's forms work, too: a function `f(data)`, and an object whose method has no `headers`
(`serialize(topic, data)`). The client detects the form once, when you create the client.

Nothing here runs unless you set a serializer or deserializer.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from inspect import getattr_static, isfunction
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
    """Converts keys or values to bytes (`org.apache.kafka.common.serialization.Serializer`)."""

    def __init__(self, **config: Any) -> None:
        """Ignores all arguments, as kafka-python 2 does."""

    @abstractmethod
    def serialize(self, topic: str, headers: Headers, data: _T_contra) -> bytes | None:
        """Returns the bytes of `data`, or None for a null. It may append to `headers`.

        If it raises, `send` raises the same error, and only this record fails.
        """

    def close(self) -> None:
        """Called when the client is closed."""


class Deserializer(ABC, Generic[_T_co]):
    """Converts the bytes of keys or values to objects (`serialization.Deserializer`)."""

    def __init__(self, **config: Any) -> None:
        """Ignores all arguments, as kafka-python 2 does."""

    @abstractmethod
    def deserialize(self, topic: str, headers: Headers, data: bytes) -> _T_co:
        """Returns the object. `data` is None for a null key or value.

        If it raises, the consumer raises a `DeserializationError` with this error as its cause.
        """

    def close(self) -> None:
        """Called when the client is closed."""


class DefaultSerializer(Serializer[Any], Deserializer[Any]):
    """Encodes and decodes text. Bytes stay as they are."""

    def __init__(self, encoding: str = "utf-8") -> None:
        """Takes the name of the encoding."""
        self.encoding = encoding

    def serialize(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        """Encodes a str, and returns bytes, bytearray, memoryview and None unchanged.

        Raises:
            TypeError: If `data` is anything else.
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
    """Encodes and decodes JSON. None becomes a null (a tombstone), not the text `null`."""

    def serialize(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        """Returns the JSON text of `data`. Raises TypeError if JSON has no such type."""
        import json

        return None if data is None else super().serialize(topic, headers, json.dumps(data))

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        """Returns the value of the JSON text. Raises ValueError if it is not JSON."""
        import json

        return None if data is None else json.loads(super().deserialize(topic, headers, data))


class SerializeWrapper(Serializer[Any]):
    """Turns a function into a Serializer."""

    def __init__(self, fn: Callable[[Any], bytes | None] | None) -> None:
        """Takes f(data) -> bytes. With None, data stays as it is."""
        self.fn = fn

    def serialize(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        """Calls the function with the data."""
        return data if self.fn is None else self.fn(data)


class DeserializeWrapper(Deserializer[Any]):
    """Turns a function into a Deserializer."""

    def __init__(self, fn: Callable[[Any], Any] | None) -> None:
        """Takes f(bytes) -> object. With None, bytes stay as they are."""
        self.fn = fn

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        """Calls the function with the bytes."""
        return data if self.fn is None else self.fn(data)


def _without_headers(method: Callable[..., Any]) -> bool:
    """Whether a (de)serialize method has the two arguments of kafka-python 2."""
    import inspect  # imported here, as only programs that set a serializer need it

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
    needs_object = isfunction(method) and isfunction(getattr_static(given, verb, None))
    if isinstance(given, type) and needs_object:
        name = given.__name__
        raise TypeError(f"expected an object with {verb}(), not the class {name}: use {name}()")
    if method is None:
        if not callable(given):
            raise TypeError(f"expected a callable or an object with {verb}(), not {given!r}")
        return lambda topic, headers, data: given(data)
    if _without_headers(method):
        return lambda topic, headers, data: method(topic, data)
    return method  # type: ignore[no-any-return]


def serialize_function(given: Any) -> SerializeFunction | None:
    """Returns `f(topic, headers, data) -> bytes` for a serializer of any form. None stays None.

    Raises:
        TypeError: If `given` is not a serializer.
    """
    return _as_function(given, "serialize")


def deserialize_function(given: Any) -> DeserializeFunction | None:
    """Returns `f(topic, headers, data) -> object`; see `serialize_function`.

    It also calls a plain callable with None, as kafka-python 3 does.
    """
    return _as_function(given, "deserialize")
