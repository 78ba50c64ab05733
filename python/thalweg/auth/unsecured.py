"""Tokens without a signature, for tests (KIP-255).

    'principal=alice scope=a,b lifeSeconds=60 extension_traceId=7' ──> UnsecuredTokens ──> alg: none

The text is librdkafka's. Brokers accept these tokens only with Kafka's default validator, which is
for tests as well.
"""

import base64
import json
import time
from typing import Any, Final

from thalweg.auth.token import Token

__all__ = ["UnsecuredTokens", "problem"]

_LIFE_SECONDS: Final = 3600
_KEYS: Final = ("principal", "scope", "lifeSeconds", "principalClaimName", "scopeClaimName")
_EXTENSION: Final = "extension_"


def problem(config: str) -> str | None:
    """Returns why a configuration is not valid, as the end of a sentence, or None.

    The sentence quotes nothing of it, because a key may be part of a secret.
    """
    entries = _entries(config)
    for key in entries:
        if key not in _KEYS and not key.startswith(_EXTENSION):
            return f"has an unknown key. The keys are {', '.join(_KEYS)} and extension_NAME"
    if not entries.get("principal"):
        return "needs principal=NAME"
    life = entries.get("lifeSeconds", "1")
    if not (life.isascii() and life.isdigit() and 0 < int(life) < 2**31):
        return "has a lifeSeconds that is not a whole number above 0"
    return None


def _entries(config: str) -> dict[str, str]:
    return {key: value for key, _, value in (part.partition("=") for part in config.split())}


class UnsecuredTokens:
    """A token provider that makes its tokens itself."""

    def __init__(self, config: str) -> None:
        """Takes a configuration without a `problem`."""
        entries = _entries(config)
        self._principal = entries["principal"]
        self._life = int(entries.get("lifeSeconds", _LIFE_SECONDS))
        self._claims = {entries.get("principalClaimName", "sub"): self._principal}
        scope = [each for each in entries.get("scope", "").split(",") if each]
        self._scope: dict[str, Any] = (
            {entries.get("scopeClaimName", "scope"): scope} if scope else {}
        )
        self._extensions = {
            key.removeprefix(_EXTENSION): value
            for key, value in entries.items()
            if key.startswith(_EXTENSION)
        }

    def token(self) -> Token:
        """Returns a new token."""
        now = time.time()
        expires_at = now + self._life
        # Kafka rounds a time to the nearest millisecond, and refuses a token from the future.
        claims = {**self._claims, **self._scope, "iat": int(now), "exp": expires_at}
        value = f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."
        return Token(value, expires_at, self._principal, self._extensions)


def _encoded(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
