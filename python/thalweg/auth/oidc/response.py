"""Reads the responses of a token endpoint.

200 {"access_token": ..., "expires_in": ...} ──> Kept        anything else ──> Failure
"""

import json
import math
import time
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Final

from thalweg.auth.oidc.error import Failure, shown
from thalweg.auth.oidc.http import Response, named
from thalweg.auth.token import claims

__all__ = ["Kept", "failure_of", "kept", "token_of"]

_RETRIED: Final = (408, 425, 429, 500, 502, 503, 504)
# Longer than any token lives. It keeps the arithmetic of times valid.
_LIFE_MAX_S: Final = 10 * 365 * 86_400.0
# A token younger than this part of its life is good enough for another client.
_FRESH: Final = 0.8


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A token, and how long it lives by the monotonic clock.

    Attributes:
        value: The token.
        principal: The name of its user, or None.
        received: When it came.
        life_s: How long it lives from then on. None: unknown.
    """

    value: str = field(repr=False)
    principal: str | None
    received: float
    life_s: float | None

    def is_fresh(self) -> bool:
        """Whether another client may still use it."""
        return self.life_s is not None and self.age_s() < _FRESH * self.life_s

    def age_s(self) -> float:
        """Returns how long ago it came."""
        return time.monotonic() - self.received

    def expires_at(self) -> float | None:
        """Returns when it expires, in seconds since the epoch, by the clock as it is now."""
        return None if self.life_s is None else time.time() + self.life_s - self.age_s()


def token_of(response: Response, sub_claim: str) -> Kept | Failure:
    """Returns the token of a response with status 200. No failure contains any of its body."""
    document = _json(response.body)
    if document is None:
        return Failure(
            "status 200, but the body is not a JSON object. Check"
            " sasl_oauthbearer_token_endpoint_url",
            status=200,
        )
    value = next((document[key] for key in ("access_token", "id_token") if document.get(key)), None)
    if not isinstance(value, str):
        return Failure(
            "status 200, but the response contains neither access_token nor id_token", status=200
        )
    if not value.isascii():
        return Failure(
            "status 200, but the token contains a character that is not ASCII", status=200
        )
    return kept(value, _seconds(document.get("expires_in")), sub_claim)


def kept(value: str, life_s: float | None, sub_claim: str) -> Kept:
    """Returns a token. If its life is not known, it is that of the JWT, if it is one."""
    found = claims(value)
    if life_s is None and (expires_at := _seconds(found.get("exp"))) is not None:
        life_s = expires_at - time.time()
    if life_s is not None:
        life_s = min(max(life_s, 0.0), _LIFE_MAX_S)
    principal = found.get(sub_claim)
    name = principal if isinstance(principal, str) else None
    return Kept(value, name, time.monotonic(), life_s)


def failure_of(response: Response, secrets: tuple[str, ...]) -> Failure:
    """Returns why a response with another status than 200 has no token.

    Args:
        response: The response.
        secrets: What an endpoint may repeat of the request, and no message may contain.
    """
    status = response.status
    if 200 <= status < 300:  # the body may have a token
        return Failure(f"status {status} instead of 200", status=status)
    if 300 <= status < 400:
        target = _target(response.location)
        return Failure(
            f"{status} redirects to {shown(_without(target, secrets))}. The client does not follow"
            " redirects, because its credentials would go there. Set"
            " sasl_oauthbearer_token_endpoint_url to the right address",
            status=status,
        )
    document = _json(response.body) or {}
    code, description = document.get("error"), document.get("error_description")
    code = shown(_without(code, secrets)) if isinstance(code, str) else None
    text = f"{status} {code}" if code else str(status)
    if isinstance(description, str) and description:
        text += f": {shown(_without(description, secrets))}"
    retriable = status in _RETRIED
    pause_s = _pause_s(response.retry_after) if retriable else None
    return Failure(text, status=status, code=code, retriable=retriable, pause_s=pause_s)


def _target(location: str) -> str:
    try:
        return named(location) if "://" in location else "another address"
    except ValueError:
        return "an address that is not valid"


def _without(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        if secret:
            text = text.replace(secret, "<hidden>")
    return text


def _json(body: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _seconds(given: Any) -> float | None:
    """Returns a number of seconds, which some providers write as a str."""
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        return None
    try:
        seconds = float(given)
    except (ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) else None


def _pause_s(retry_after: str | None) -> float | None:
    """Returns the seconds of a Retry-After header, which is a number or a date."""
    if retry_after is None:
        return None
    seconds = _seconds(retry_after)
    if seconds is None:
        try:
            seconds = parsedate_to_datetime(retry_after).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return max(seconds, 0.0)
