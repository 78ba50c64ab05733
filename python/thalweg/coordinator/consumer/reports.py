"""A member's reports: full heartbeats, each sent until it is answered (KIP-848).

    send ──> Send(token) ──> took: answered, minimal heartbeats from now on
      ^         └──────────> failed: again at retry_at
      └── repeats of it may have been under way when the answer came: once more, to be sure

While a report is not known to be answered, the heartbeats that are repeated elsewhere are full,
too: minimal ones have the old epoch, which the broker refuses once it has taken the report. It
takes a full one, as what the member owns is no more than what it was given. So an application
that polls once a minute keeps its membership, whenever the answer is looked at.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from thalweg.coordinator.backoff import Backoff
from thalweg.coordinator.consumer import heartbeats
from thalweg.coordinator.consumer.heartbeats import API, ConsumerMemberSettings
from thalweg.coordinator.consumer.topic_ids import IdPartition
from thalweg.coordinator.steps import (
    ForgetCoordinator,
    Heartbeats,
    MemberAction,
    Send,
    StopHeartbeats,
)

__all__ = ["Reports"]

# The native core repeats heartbeats at least this often, whatever interval a damaged answer names.
_INTERVAL_MAX_MS = 60_000


class Reports:
    """What a member has told the broker, and what came of it.

    Attributes:
        member_id: As the broker knows it.
        epoch: The member's; 0 outside of the group.
        token: Of the report that is under way.
        retry_at: When to report again, after a failure.
    """

    def __init__(self, settings: ConsumerMemberSettings, jitter: Callable[[], float]) -> None:
        self.member_id = settings.member_id
        self.epoch = 0
        self.token: int | None = None
        self.retry_at: float | None = None
        self._settings = settings
        self._interval_ms: float = settings.heartbeat_interval_ms
        self._repeated_from: float | None = None
        self._last: Mapping[str, Any] = {}
        self._backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms, jitter)
        self._tokens = 0

    @property
    def is_clean(self) -> bool:
        """No report is under way, nor will one be sent before the next `send`."""
        return self.token is None and self._repeated_from is None and self.retry_at is None

    def is_due(self, now: float) -> bool:
        """Whether it is time to try again."""
        return self.retry_at is not None and self.retry_at <= now

    def send(
        self,
        subscription: tuple[frozenset[str], str | None],
        owned: Iterable[IdPartition],
        now: float,
    ) -> list[MemberAction]:
        """Reports what the member subscribes to and owns; in the place of an earlier report."""
        body = heartbeats.full(self._settings, self.member_id, self.epoch, subscription, owned)
        self._tokens += 1
        self.token = self._tokens
        self.retry_at = None
        self._repeated_from = now + self._interval_ms
        self._last = body
        timeout_ms = self._settings.request_timeout_ms
        return [StopHeartbeats(), Send(self.token, API, body, timeout_ms), self._repeat(body)]

    def again(self) -> list[MemberAction]:
        """The same once more, to learn what the broker has made of it."""
        self._tokens += 1
        self.token = self._tokens
        self.retry_at = None
        return [Send(self.token, API, self._last, self._settings.request_timeout_ms)]

    def may_be_repeated(self, now: float) -> bool:
        """Whether repeats of the report may have been sent."""
        return self._repeated_from is not None and now >= self._repeated_from

    def took(
        self, body: Mapping[str, Any], now: float, is_report: bool
    ) -> list[MemberAction] | None:
        """Takes a good answer, to the report itself or to a repeated heartbeat.

        Returns:
            What is to be done. None if the report has to be sent once more, as repeats of it may
            still be on their way: the answer to the next one says that they have arrived.
        """
        self.epoch = body["MemberEpoch"]
        self.member_id = body.get("MemberId") or self.member_id
        self._interval_ms = min(body["HeartbeatIntervalMs"] or self._interval_ms, _INTERVAL_MAX_MS)
        if self._repeated_from is None or not (is_report or self.token is None):
            return []
        if self.may_be_repeated(now):
            return None
        if not is_report:
            return []
        self.token = self.retry_at = self._repeated_from = None
        self._backoff.reset()
        return [self._repeat(heartbeats.minimal(self._settings, self.member_id, self.epoch))]

    def failed(self, now: float, *, look_up: bool = False) -> list[MemberAction]:
        """Plans another try; whatever it was that failed, its answer is not known."""
        self.token = None
        if self.retry_at is None:
            self.retry_at = now + self._backoff.failed()
        return [ForgetCoordinator()] if look_up else []

    def leave(self) -> None:
        """Nothing is under way any more; the next report joins."""
        self.epoch = 0
        self.token = self.retry_at = self._repeated_from = None
        self._backoff.reset()

    def leave_request(self) -> tuple[int, Send]:
        """The request that ends the membership, with its token."""
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
