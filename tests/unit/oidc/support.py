"""Gets tokens from an identity provider, as the native core does."""

from __future__ import annotations

import queue
import time
from typing import Any

from thalweg import Secret
from thalweg.auth.oidc import OidcTokens, Settings
from thalweg.auth.provider import TokenSource

SECRET = "hunter2/+&%"


def settings(url: str, **more: Any) -> Settings:
    """Returns settings that repeat no request for long. A slow machine has time for each."""
    given = {
        "url": url,
        "client_id": "our-client",
        "client_secret": Secret(SECRET),
        "connect_timeout_s": 30.0,
        "read_timeout_s": 30.0,
        "retry_backoff_s": 0.01,
        "retry_max_s": 0.1,
    }
    return Settings(**{**given, **more})


def tokens(url: str, **more: Any) -> OidcTokens:
    return OidcTokens(settings(url, **more), {})


class Clock:
    """Replaces `time` where requests are repeated. Only pauses move it, and they end at once."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def lives_for(life_s: float, expires_at: float | None, began: float) -> bool:
    """Whether a token that was requested after `began` expires `life_s` after its request."""
    return expires_at is not None and began - 1 <= expires_at - life_s <= time.time() + 1


class Reply:
    """Keeps the answer of a provider."""

    def __init__(self) -> None:
        self.answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def token(self, *given: Any) -> None:
        self.answers.put(given)

    def failed(self, reason: str, error: BaseException) -> None:
        self.answers.put((reason, error))


def answer(provider: Any) -> Any:
    """Returns what the core gets: a token, or (reason, error)."""
    reply = Reply()
    TokenSource(provider).request(reply)
    return reply.answers.get(timeout=60)
