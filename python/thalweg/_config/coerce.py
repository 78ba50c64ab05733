"""Converts the values of options from every form that a user may write to one form.

    "5000", 5000.0, 5000 ──> 5000        "true" ──> True        "a,b:1" ──> ["a:9092", "b:1"]

There is one function for each kind of option. It raises ValueError with the end of a sentence that
begins with the option's name ("linger_ms must be ...").
"""

import importlib
import math
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from thalweg._config.concealment import hide
from thalweg._config.options import Option
from thalweg._config.secret import revealed
from thalweg.partitioner import NATIVE, partition_function
from thalweg.serializer import deserialize_function, serialize_function

_TRUE: Final = {"true": True, "false": False}
_RESETS: Final = {
    "smallest": "earliest",
    "beginning": "earliest",
    "largest": "latest",
    "end": "latest",
    "error": "none",
}
_PARTITIONERS: Final = {
    "default": "default",
    "murmur2_random": "default",
    "round_robin": "round_robin",
    "consistent_random": "consistent_random",
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": "round_robin",
}
# Patterns are compiled when they are used: it would take half of this module's import time.
_DURATION: Final = (
    r"(?P<sign>-?)P(?:(?P<days>\d+)D)?"
    r"(?:T(?=[\d])(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,9})?)S)?)?"
)


def shown(option: Option, value: Any) -> str:
    """Returns a value for a message, but never the value of a secret."""
    return "the given value, which is secret and not shown" if option.secret else repr(value)


def _limits(option: Option) -> str:
    if option.low is not None and option.high is not None:
        return f" from {option.low:.0f} to {option.high:.0f}"
    return f" of at least {option.low:.0f}" if option.low is not None else ""


def _number(option: Option, value: Any) -> int:
    wrong = ValueError(f"must be a whole number{_limits(option)}, not {shown(option, value)}")
    if isinstance(value, bool) or not (
        isinstance(value, float | str) or hasattr(value, "__index__")
    ):
        raise wrong
    try:
        number = int(value)
    except (ValueError, OverflowError):
        raise wrong from None
    if isinstance(value, float) and number != value:
        raise wrong
    below = option.low is not None and number < option.low
    if below or (option.high is not None and number > option.high):
        raise wrong
    return number


def _int(option: Option, value: Any) -> int | None:
    if option.nullable and isinstance(value, float) and value == math.inf:
        return None
    return _number(option, value)


def _count(option: Option, value: Any) -> int:
    if isinstance(value, float) and value == math.inf:
        return int(option.high or 0)
    return _number(option, value)


def _float(option: Option, value: Any) -> float:
    wrong = ValueError(f"must be a number from {option.low} to {option.high}, not {value!r}")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise wrong
    try:
        number = float(value)
    except (ValueError, OverflowError):
        raise wrong from None
    if not (option.low or 0) <= number <= (option.high or math.inf):  # also refuses nan
        raise wrong
    return number


def _bool(option: Option, value: Any) -> bool:
    if isinstance(value, str) and value.strip().lower() in _TRUE:
        return _TRUE[value.strip().lower()]
    if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise ValueError(f"must be true or false, not {shown(option, value)}")


def _str(option: Option, value: Any) -> str:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str):
        raise ValueError(f"must be a str, not {type(value).__name__}")
    return value


def _password(option: Option, value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise ValueError("must be UTF-8 if it is bytes") from None
    if not isinstance(value, str):
        raise ValueError(f"must be a str or bytes, not {type(value).__name__}")
    return value


def _choice(option: Option, value: Any) -> str:
    if isinstance(value, str):
        for choice in option.choices:
            if value.strip().lower() == choice.lower():
                return choice
    allowed = ", ".join(map(repr, option.choices))
    raise ValueError(f"must be one of {allowed}, not {shown(option, value)}")


def _acks(option: Option, value: Any) -> int:
    known = {"all": -1, "-1": -1, "0": 0, "1": 1}
    if isinstance(value, str) and value.strip().lower() in known:
        return known[value.strip().lower()]
    if isinstance(value, int) and not isinstance(value, bool) and value in (-1, 0, 1):
        return value
    raise ValueError(f"must be 'all' (or -1), 1 or 0, not {shown(option, value)}")


def _list(option: Option, value: Any) -> list[Any]:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    return [value]


def _server(text: str) -> str:
    if "@" in text:  # the text may hold a password, so the error does not show it
        raise ValueError(
            "has an address with '@'. An address cannot contain a user and a password:"
            " set sasl_plain_username and sasl_plain_password"
        )
    match = re.fullmatch(
        r"(?:\w+://)?(?:\[(?P<v6>[0-9A-Fa-f:.%\w]+)\]|(?P<name>[^\s:\[\]/]+))(?::(?P<port>\d+))?",
        text,
    )
    if match is None and text.count(":") > 1 and "]" not in text:
        raise ValueError(
            f"has an IPv6 address without brackets: {text!r}. Write it as '[address]:port'"
        )
    if match is None:
        raise ValueError(f"has {text!r}, which is not an address 'host[:port]'")
    port = int(match["port"] or 9092)
    if not 0 < port < 65536:
        raise ValueError(f"has {text!r}, whose port is not from 1 to 65535")
    host = match["name"] or f"[{match['v6']}]"
    return f"{host}:{port}"


def _servers(option: Option, value: Any) -> list[str]:
    parts = _list(option, value)
    if not parts or not all(isinstance(part, str) for part in parts):
        raise ValueError("must be 'host[:port]', several of them separated by commas, or a list")
    flat = [piece for part in parts for piece in _list(option, part)]
    found = list(dict.fromkeys(_server(part) for part in flat))
    if not found:
        raise ValueError("names no broker: give at least one 'host[:port]'")
    return found


def server_pair(text: str) -> tuple[str, int]:
    """Returns ('host', port) of a coerced 'host:port', without brackets."""
    host, _, port = text.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _socket_options(option: Option, value: Any) -> list[tuple[int, int, int]]:
    wrong = ValueError("must be a list of tuples (level, option, value) of three int")
    try:
        rows = [tuple(map(int, row)) for row in value]
    except (TypeError, ValueError, OverflowError):
        raise wrong from None
    if not all(len(row) == 3 for row in rows):
        raise wrong
    return rows  # type: ignore[return-value]


def duration_ms(text: str) -> int | None:
    """Returns the milliseconds of an ISO 8601 duration, or None if it is not valid.

    The syntax is that of `java.time.Duration.parse`, but without signs, and with a point before the
    fraction. A duration of 2**63 ms or more is not valid.
    """
    if len(text) > 200:
        return None  # int() raises for more than 4,300 digits
    match = re.fullmatch(_DURATION, text.strip(), re.IGNORECASE | re.ASCII)
    if match is None or not any(match[part] for part in ("days", "hours", "minutes", "seconds")):
        return None
    if match["sign"]:
        return None
    whole = int(match["days"] or 0) * 86400 + int(match["hours"] or 0) * 3600
    whole += int(match["minutes"] or 0) * 60
    seconds, _, fraction = (match["seconds"] or "0").partition(".")
    ms = (whole + int(seconds)) * 1000 + int(f"{fraction}000"[:3])
    return ms if ms < 2**63 else None


def _reset(option: Option, value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, str):
        word = value.strip()
        word = _RESETS.get(word.lower(), word)
        if word.lower() in ("earliest", "latest", "none"):
            return word.lower()
        kind, _, duration = word.partition(":")
        if kind.lower() == "by_duration" and duration_ms(duration) is not None:
            return f"by_duration:{duration}"
    raise ValueError(
        "must be 'earliest', 'latest', 'none' or 'by_duration:PnDTnHnMn.nS',"
        f" not {shown(option, value)}"
    )


def _partitioner(option: Option, value: Any) -> Any:
    if isinstance(value, str):
        known = _PARTITIONERS.get(value) or _PARTITIONERS.get(value.lower())
        if known is None:
            names = ", ".join(repr(name) for name in _PARTITIONERS if "." not in name)
            raise ValueError(f"must be a Partitioner, a callable or one of {names}, not {value!r}")
        return known
    if isinstance(value, type):
        value = value()
    _checked(partition_function, value)
    return value


def native_partitioner(value: Any) -> str:
    """Returns the native core's name of a partitioner, or 'default' for the user's own class."""
    return value if isinstance(value, str) else NATIVE.get(type(value), "default")


def _checked(check: Callable[[Any], Any], value: Any) -> None:
    try:
        check(value)
    except TypeError as wrong:
        raise ValueError(f"is not usable: {wrong}") from None


def _token_provider(option: Option, value: Any) -> Any:
    """Returns a provider. A name is that of a class or function that makes one."""
    # The value may be a token, by mistake. So only a valid name is shown.
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", value):
        module, _, name = value.partition(":")
        try:
            value = getattr(importlib.import_module(module), name)()
        except Exception as wrong:
            raise ValueError(
                f"names a token provider that cannot be created: {value!r}"
                f" ({type(wrong).__name__}: {wrong}). It must name a class, or a function without"
                " arguments that returns the provider, in a module on Python's path"
            ) from None
    elif isinstance(value, type):
        raise ValueError(f"must be an instance of {value.__name__}, not the class")
    if not callable(getattr(value, "token", None)) and not callable(value):
        raise ValueError(
            "must be an object with a method token(), a function, or the name 'module:factory' of"
            f" what makes one, not {type(value).__name__}"
        )
    return value


def _kerberos_name(option: Option, value: Any) -> str:
    # A name of the package gssapi, as kafka-python takes it, is its str.
    if type(value).__module__.partition(".")[0] == "gssapi":
        return str(value)
    return _str(option, value)


def _interceptor(value: Any) -> Any:
    if isinstance(value, str):
        module, _, name = value.rpartition(".")
        try:
            value = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as wrong:
            raise ValueError(
                f"names a class that cannot be imported: {value!r} ({wrong})"
            ) from None
    return value() if isinstance(value, type) else value


# The methods of which an object must have at least one.
_METHODS: Final = {
    "interceptor_classes": ("on_send", "on_acknowledgement", "on_consume", "on_commit"),
    "metric_reporters": ("init", "metric_change", "metric_removal"),
}


def _interceptors(option: Option, value: Any) -> list[Any]:
    found = [_interceptor(each) for each in _list(option, value)]
    methods = (*_METHODS[option.name], "on_update", "configure", "close")
    for each in found:
        if not any(callable(getattr(each, name, None)) for name in methods):
            raise ValueError(
                f"has an object of type {type(each).__name__}, which has none of the methods"
                f" {', '.join(methods)}"
            )
    return found


def _object(option: Option, value: Any) -> Any:
    if option.name.endswith("_deserializer"):
        _checked(deserialize_function, value)
    elif option.name.endswith("_serializer"):
        _checked(serialize_function, value)
    return value


COERCE: Final[Mapping[str, Callable[[Option, Any], Any]]] = {
    "acks": _acks,
    "bool": _bool,
    "choice": _choice,
    "count": _count,
    "float": _float,
    "int": _int,
    "interceptors": _interceptors,
    "kerberos_name": _kerberos_name,
    "list": _list,
    "object": _object,
    "partitioner": _partitioner,
    "password": _password,
    "pem": _str,
    "reset": _reset,
    "servers": _servers,
    "socket_options": _socket_options,
    "str": _str,
    "token_provider": _token_provider,
    "url": _str,
}


def coerce(option: Option, value: Any) -> Any:
    """Converts the value of an option to the form that the clients use. A secret is a `Secret`.

    Raises:
        ValueError: If it is wrong. The text is the end of a sentence that begins with the option's
            name.
    """
    if value is None and option.kind != "reset":
        if option.kind == "choice" and option.nullable:
            return option.choices[0]
        return None
    if option.secret and option.kind in ("str", "password") and callable(value):
        return value  # a function that supplies the text when it is needed
    return hide(option, COERCE[option.kind](option, revealed(value)))
