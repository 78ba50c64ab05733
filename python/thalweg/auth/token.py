"""`Token`, and how to read it from whatever a provider returns.

'eyJ...', (token, expiry), (token, expiry, principal, extensions), Token ──> read() ──> Token
"""

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

__all__ = ["Token", "TokenProviderError", "claims", "is_encodable", "read"]

# Later than any expiry in seconds (the year 5138), and earlier than any in milliseconds.
_SECONDS_MAX: Final = 1e11
_EXPECTED: Final = (
    "must return a token as str, a thalweg.auth.Token, or a tuple (token, expiry in Unix seconds,"
    " principal, extensions) of at least two"
)


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token. Its repr hides the value.

    Attributes:
        value: The token that the client sends to the broker.
        expires_at: When the token expires, in Unix seconds. None: the client reads the time
            from `value`, if this is a JWT. If the time is unknown, the client calls the provider
            for each authentication.
        principal: The user that the token identifies, for error messages. None: the subject of the
            JWT.
        extensions: Names and values for the broker (KIP-342). None: the result of the provider's
            `extensions()`.
    """

    value: str = field(repr=False)
    expires_at: float | None = None
    principal: str | None = None
    extensions: Mapping[str, str] | None = None


class TokenProviderError(Exception):
    """An error of thalweg's own token providers. Its text is complete, and contains no secret."""


def read(returned: object, name: str) -> Token:
    """Returns the token that a provider returned, checked and completed from its JWT.

    Args:
        returned: What the provider returned.
        name: The name of the provider, for messages.

    Raises:
        TypeError: If it is nothing that a provider may return.
        ValueError: If it is empty or not ASCII, or its expiry is in milliseconds.
    """
    match returned:
        case Token():
            token = returned
        case str():
            token = Token(returned)
        case tuple() | list() if 2 <= len(returned) <= 4:
            token = Token(*returned)
        case _:
            raise TypeError(f"{name} {_EXPECTED}, not {type(returned).__name__}")
    _check(token, name)
    found = claims(token.value)
    if token.expires_at is None and _is_number(found.get("exp")):
        token = replace(token, expires_at=float(found["exp"]))
    if token.principal is None and isinstance(found.get("sub"), str):
        token = replace(token, principal=found["sub"])
    return token


def _check(token: Any, name: str) -> None:
    """Checks the types of a token, which come from the application."""
    if not isinstance(token.value, str):
        raise TypeError(f"{name} {_EXPECTED}, not a token of type {type(token.value).__name__}")
    if not token.value:
        raise ValueError(f"{name} returned an empty token")
    if not token.value.isascii():
        # The error of a later conversion would contain the token.
        raise ValueError(f"{name} returned a token with a character that is not ASCII")
    if token.expires_at is not None:
        if not _is_number(token.expires_at):
            kind = type(token.expires_at).__name__
            raise TypeError(f"{name} must return the expiry as a finite number, not {kind}")
        if token.expires_at > _SECONDS_MAX:
            raise ValueError(
                f"{name} returned the expiry {token.expires_at:.0f}. This looks like milliseconds:"
                " divide it by 1000"
            )
    if token.principal is not None and not isinstance(token.principal, str):
        raise TypeError(
            f"{name} must return the principal as str, not {type(token.principal).__name__}"
        )
    _check_extensions(token.extensions, name)


def with_extensions(token: Token, extensions: Any, name: str) -> Token:
    """Returns a token with extensions, which come from the application.

    Raises:
        TypeError: If they are not a mapping of str to str, or None.
        ValueError: If they are not ASCII.
    """
    _check_extensions(extensions, name)
    return replace(token, extensions=extensions)


def _check_extensions(given: object, name: str) -> None:
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise TypeError(
            f"{name} must return the extensions as a dict of str, not {type(given).__name__}"
        )
    if not all(isinstance(each, str) for pair in given.items() for each in pair):
        raise TypeError(f"{name} must return the extensions as a dict of str to str")
    if not all(each.isascii() for pair in given.items() for each in pair):
        raise ValueError(f"{name} returned an extension with a character that is not ASCII")


def is_encodable(text: str) -> bool:
    """Whether a text has a form in UTF-8. The error of a later conversion would contain it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an int that no float can hold
        return False


def claims(value: str) -> dict[str, Any]:
    """Returns the claims of a JWT without verifying it, or nothing if the token is not a JWT."""
    _, _, rest = value.partition(".")
    payload, found, _ = rest.partition(".")
    if not found:
        return {}
    try:
        found = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
