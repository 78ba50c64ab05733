"""`SharedTokens`: clients with equal settings share one token and one request in flight.

client 1 ── get() ──┬── a fresh token that this client does not have yet ──> the token
client 2 ── get() ──┤── a request in flight ── wait ────────────────────────> its outcome
client 3 ── get() ──┴── otherwise ── fetch() ───────────────────────────────> its outcome

A client that asks again has lost its token, or must refresh it: it never gets the same one back.
"""

import os
import threading
import time
import weakref
from typing import Final

from thalweg.auth.oidc.error import Failure, OidcError
from thalweg.auth.oidc.requests import fetch
from thalweg.auth.oidc.response import Kept
from thalweg.auth.oidc.settings import Settings

__all__ = ["SharedTokens", "shared"]

# For this long, no client repeats a request that the identity provider has refused. Many lock a
# client after a few wrong secrets, and each connection tries again about once a second.
_REFUSED_S: Final = 10.0
# The native core gives up a call after a minute.
_WAIT_S: Final = 60.0


class _Flight:
    """A request that is in flight, and then its outcome."""

    def __init__(self) -> None:
        self.landed = threading.Event()
        self.outcome: Kept | Failure = Failure("OIDC: the request ended without an outcome")


class SharedTokens:
    """The tokens of all clients with these settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._kept: Kept | None = None
        self._refused: tuple[float, Failure] | None = None
        self._flight: _Flight | None = None

    def get(self, given: Kept | None) -> Kept:
        """Returns a token other than `given`, which is the last one that the client got.

        Raises:
            OidcError: If there is none.
        """
        with self._lock:
            known = self._known(given)
            flight, is_ours = self._flight, False
            if known is None and flight is None:
                flight, is_ours = _Flight(), True
                self._flight = flight
        if known is None and flight is not None:
            known = self._fly(flight) if is_ours else self._join(flight)
        if isinstance(known, Kept):
            return known
        failure = known or Failure("OIDC: there is no outcome")
        raise OidcError(failure.text, failure.status, failure.code)

    def _known(self, given: Kept | None) -> Kept | Failure | None:
        """Returns the result for a client if it needs no request."""
        if self._kept is not None and self._kept is not given and self._kept.is_fresh():
            return self._kept
        if self._refused is not None and time.monotonic() < self._refused[0]:
            return self._refused[1]
        return None

    def _fly(self, flight: _Flight) -> Kept | Failure:
        """Sends a request for all clients that wait."""
        try:
            flight.outcome = fetch(self._settings)
        except OidcError as error:
            flight.outcome = Failure(str(error))
            raise
        finally:
            self._land(flight)
        return flight.outcome

    def _land(self, flight: _Flight) -> None:
        outcome = flight.outcome
        with self._lock:
            self._flight = None
            if isinstance(outcome, Kept):
                self._kept, self._refused = outcome, None
            elif outcome.status is not None and not outcome.retriable:
                self._refused = time.monotonic() + _REFUSED_S, outcome
        flight.landed.set()

    def _join(self, flight: _Flight) -> Kept | Failure:
        if flight.landed.wait(_WAIT_S):
            return flight.outcome
        return Failure(f"OIDC: the request of another client did not end within {_WAIT_S:.0f} s")


_all: weakref.WeakValueDictionary[Settings, SharedTokens] = weakref.WeakValueDictionary()
_all_lock = threading.Lock()


def shared(settings: Settings) -> SharedTokens:
    """Returns the tokens for these settings."""
    with _all_lock:
        found = _all.get(settings)
        if found is None:
            found = _all[settings] = SharedTokens(settings)
        return found


def _forget_parent() -> None:
    """Gives a forked child its own tokens. Another thread may have held the lock in the parent."""
    global _all, _all_lock
    _all, _all_lock = weakref.WeakValueDictionary(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent)
