"""A member's reports: full heartbeats, each sent until it gets a response (KIP-848).

    send ──> Send(token) ──> took: response, minimal heartbeats from now on ──> settled
      ^            │                                   the repeats have responses, too
      └── failed <─┘ again at retry_at

Until the member knows the response to a report, the native core repeats full heartbeats. A minimal
one has the old epoch, which the broker refuses once it has accepted the report. It accepts a full
one, because the member owns no more than it was given. So an application that polls once a minute
keeps its membership.

A repeat may still be in flight when the minimal heartbeats replace it. Only the I/O thread knows
that, because polls may be minutes apart. The wait for it is short, and no other full heartbeat
follows.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from thalweg.coordinator.backoff import Backoff
from thalweg.coordinator.kip848 import heartbeats
from thalweg.coordinator.kip848.heartbeats import API, ConsumerMemberSettings
from thalweg.coordinator.kip848.topic_ids import IdPartition
from thalweg.coordinator.steps import (
    ForgetCoordinator,
    Heartbeats,
    MemberAction,
    Send,
    StopHeartbeats,
)

__all__ = ["Reports"]

# The longest interval of heartbeats, in case a response has an absurd one.
_INTERVAL_MAX_MS = 60_000


class Reports:
    """The reports of a member, and the state from their responses.

    Attributes:
        member_id: The member id.
        epoch: The member epoch. 0 outside the group.
        token: The token of the report that is in flight.
        retry_at: When to send the report again after a failure.
    """

    def __init__(self, settings: ConsumerMemberSettings, jitter: Callable[[], float]) -> None:
        self.member_id = settings.member_id
        self.epoch = 0
        self.token: int | None = None
        self.retry_at: float | None = None
        self._settings = settings
        self._interval_ms: float = settings.heartbeat_interval_ms
        self._has_response = self._is_settled = True
        self._last: Mapping[str, Any] = {}
        self._backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms, jitter)
        self._tokens = 0

    @property
    def is_clean(self) -> bool:
        """No report is in flight, nor will one be sent before the next `send`."""
        return self.token is None and self._is_settled and self.retry_at is None

    def is_due(self, now: float) -> bool:
        """Whether it is time for a retry."""
        return self.retry_at is not None and self.retry_at <= now

    def send(
        self,
        subscription: tuple[frozenset[str], str | None],
        owned: Iterable[IdPartition],
    ) -> list[MemberAction]:
        """Reports the subscription and the owned partitions. It replaces an earlier report."""
        body = heartbeats.full(self._settings, self.member_id, self.epoch, subscription, owned)
        self._tokens += 1
        self.token = self._tokens
        self.retry_at = None
        self._has_response = self._is_settled = False
        self._last = body
        timeout_ms = self._settings.request_timeout_ms
        return [StopHeartbeats(), Send(self.token, API, body, timeout_ms), self._repeat(body)]

    def again(self) -> list[MemberAction]:
        """Sends the last report again, to get a response to it."""
        self._tokens += 1
        self.token = self._tokens
        self.retry_at = None
        return [Send(self.token, API, self._last, self._settings.request_timeout_ms)]

    def took(
        self, body: Mapping[str, Any], *, is_report: bool, is_current: bool
    ) -> list[MemberAction]:
        """Takes a good response: to the report itself, or to a heartbeat that is repeated.

        Once a report has failed, the response to one of its repeats counts as its own.
        """
        self.epoch = body["MemberEpoch"]
        self.member_id = body.get("MemberId") or self.member_id
        if body["HeartbeatIntervalMs"] > 0:
            self._interval_ms = min(body["HeartbeatIntervalMs"], _INTERVAL_MAX_MS)
        if self._has_response or not (is_report or (is_current and self.token is None)):
            return []
        self._has_response = True
        self.token = self.retry_at = None
        self._backoff.reset()
        return [self._repeat(heartbeats.minimal(self._settings, self.member_id, self.epoch))]

    def repeats_done(self) -> bool:
        """Notes that no replaced heartbeat is in flight; whether that settles the last report."""
        settles = self._has_response and not self._is_settled
        self._is_settled = self._has_response
        return settles

    def failed(self, now: float, *, look_up: bool = False) -> list[MemberAction]:
        """Plans a retry. The result of the failed attempt is not known."""
        self.token = None
        if self.retry_at is None:
            self.retry_at = now + self._backoff.failed()
        return [ForgetCoordinator()] if look_up else []

    def leave(self) -> None:
        """Ends the membership: no report is in flight, and the next one joins."""
        self.epoch = 0
        self.token = self.retry_at = None
        self._has_response = self._is_settled = True
        self._backoff.reset()

    def leave_request(self) -> tuple[int, Send]:
        """Returns the token and the request that ends the membership."""
        self._tokens += 1
        body = heartbeats.leave(self._settings, self.member_id)
        timeout_ms = self._settings.request_timeout_ms
        return self._tokens, Send(self._tokens, API, body, timeout_ms, leaves=True)

    def _repeat(self, body: Mapping[str, Any]) -> Heartbeats:
        return Heartbeats(
            API,
            body,
            self._interval_ms,
            (API, heartbeats.leave(self._settings, self.member_id)),
            self._settings.max_poll_interval_ms,
        )
