"""Gets tokens from an identity provider, as the native core does."""

from __future__ import annotations

import queue
from typing import Any

from thalweg import Secret
from thalweg.auth.oidc import OidcTokens, Settings
from thalweg.auth.provider import TokenSource

SECRET = "hunter2/+&%"


def settings(url: str, **more: Any) -> Settings:
    """Returns settings with short times, so that failures end soon."""
    given = {
        "url": url,
        "client_id": "our-client",
        "client_secret": Secret(SECRET),
        "connect_timeout_s": 2.0,
        "read_timeout_s": 0.5,
        "retry_backoff_s": 0.01,
        "retry_max_s": 0.1,
    }
    return Settings(**{**given, **more})


def tokens(url: str, **more: Any) -> OidcTokens:
    return OidcTokens(settings(url, **more), {})


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
    return reply.answers.get(timeout=20)
