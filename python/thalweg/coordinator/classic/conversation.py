"""What a member has asked of its group's coordinator, and what came of it.

    join ──> Send(token) ──> joined: in a generation, heartbeats from now on
    sync ──> Send(token) ──> synced: the assignment
                └──────────> failed: to be joined again, at once or at retry_at
    end: in no generation, without heartbeats

Only the answer to the latest request counts, and none after `stop` or `end`. Heartbeats are
repeated elsewhere: they go with JoinGroup and begin as it is answered, perhaps long before the
answer is looked at. Until it is, what they bring is taken for the generation before.

When to send what is member.py's, and what an error code means, verdict.py's.
"""

import itertools
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, Final

from thalweg.coordinator.backoff import Backoff
from thalweg.coordinator.classic import requests
from thalweg.coordinator.classic.requests import MemberSettings
from thalweg.coordinator.protocol import VERSION_MAX, Assignment
from thalweg.coordinator.steps import Heartbeats, MemberAction, Send, StopHeartbeats
from thalweg.errors import InconsistentGroupProtocolError, KafkaProtocolError

__all__ = ["Conversation"]

_NO_GENERATION: Final = -1
_AT_ONCE_MAX: Final = 3  # failures in a row after which even a plain rejoin waits


class Conversation:
    """Each method that sends, starts or stops something returns the actions for it.

    Attributes:
        member_id: "" until the coordinator gave one.
        generation: -1 outside of the group.
        protocol: The assignor that the group has chosen for the generation.
        retry_at: When to join again, after a failure; None: at once.
        is_beating: Whether what heartbeats bring is of this membership.
    """

    def __init__(self, settings: MemberSettings, jitter: Callable[[], float]) -> None:
        self.member_id = ""
        self.generation = _NO_GENERATION
        self.protocol = ""
        self.retry_at: float | None = None
        self.is_beating = False
        self._settings = settings
        self._backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms, jitter)
        self._tokens = itertools.count(1)
        self._token: int | None = None  # of the request whose answer is waited for
        self._is_ordered = False  # heartbeats, or a JoinGroup that begins them

    @property
    def is_member(self) -> bool:
        """Whether it is in a generation of the group."""
        return self.generation != _NO_GENERATION

    # ------------------------------------------------------------------ requests

    def join(self, protocols: Sequence[dict[str, Any]], reason: str) -> list[MemberAction]:
        """Sends JoinGroup."""
        body = requests.join(self._settings, self.member_id, protocols, reason)
        # A JoinGroup that waits keeps the session alive by itself; its answer begins them again.
        self._is_ordered, self.is_beating = True, False
        return self._send("JoinGroup", body, self._settings.join_timeout_ms, self._heartbeats())

    def sync(self, assignments: Sequence[dict[str, Any]]) -> list[MemberAction]:
        """Sends SyncGroup; only the leader has assignments."""
        body = requests.sync(
            self._settings, self.member_id, self.generation, self.protocol, assignments
        )
        return self._send("SyncGroup", body, self._settings.request_timeout_ms)

    def leave(self, reason: str) -> list[MemberAction]:
        """Tells the group, unless static: such a member may be back (KIP-345)."""
        settings = self._settings
        if not self.member_id or settings.group_instance_id is not None:
            return []
        body = requests.leave(settings, self.member_id, reason)
        timeout_ms = settings.request_timeout_ms
        return [Send(next(self._tokens), "LeaveGroup", body, timeout_ms, leaves=True)]

    def _send(
        self, api: str, body: Mapping[str, Any], timeout_ms: float, beats: Heartbeats | None = None
    ) -> list[MemberAction]:
        self.retry_at = None
        self._token = next(self._tokens)
        return [Send(self._token, api, body, timeout_ms, beats)]

    def _heartbeats(self) -> Heartbeats:
        return requests.heartbeats(self._settings, self.member_id, self.generation)

    # ------------------------------------------------------------------ answers

    def takes(self, token: int) -> bool:
        """Whether this is the answer that is waited for; from then on none is."""
        if token != self._token:
            return False
        self._token = None
        return True

    def joined(self, body: Mapping[str, Any], offered: Container[str]) -> list[MemberAction]:
        """Part of the next generation; heartbeats start before the assignment is there.

        Raises:
            InconsistentGroupProtocolError: If the group is no consumers', or has chosen an assignor
                that was not offered.
        """
        kind, protocol = body.get("ProtocolType"), body["ProtocolName"] or ""
        if kind not in (None, requests.PROTOCOL_TYPE) or protocol not in offered:
            raise InconsistentGroupProtocolError(f"the group has chosen {kind} {protocol!r}")
        self.protocol = protocol
        self.generation, self.member_id = body["GenerationId"], body["MemberId"]
        self._is_ordered = self.is_beating = True
        return [self._heartbeats()]

    def synced(self, body: Mapping[str, Any]) -> Assignment:
        """What the member is given.

        Raises:
            InconsistentGroupProtocolError: If it is of another protocol than was joined with.
            KafkaProtocolError: If the bytes are no assignment.
        """
        if body.get("ProtocolName") not in (None, self.protocol):
            raise InconsistentGroupProtocolError(f"synced for {body['ProtocolName']!r}")
        data = body["Assignment"]
        try:
            # A leader may leave members out, who then have nothing.
            given = Assignment.decode(data) if data else Assignment(VERSION_MAX, [])
        except UnicodeDecodeError as error:
            raise KafkaProtocolError(str(error)) from error
        self._backoff.reset()
        return given

    def failed(self, now: float, *, at_once: bool = False) -> None:
        """Plans another try: after a wait, or `at_once` if that has not failed too often."""
        at_once = at_once and self._backoff.failures < _AT_ONCE_MAX
        wait_ms = self._backoff.failed()
        self.retry_at = None if at_once else now + wait_ms

    def is_due(self, now: float) -> bool:
        """Whether no wait keeps JoinGroup back."""
        return self.retry_at is None or self.retry_at <= now

    # ------------------------------------------------------------------ its end

    def poll_expired(self) -> None:
        """The driver has left the group, and stopped the heartbeats, by itself."""
        self._is_ordered = self.is_beating = False

    def stop(self) -> list[MemberAction]:
        """Gives up the request in flight, and ends the heartbeats."""
        self._token = None
        self.is_beating = False
        if not self._is_ordered:
            return []
        self._is_ordered = False
        return [StopHeartbeats()]

    def end(self, *, keep_id: bool) -> list[MemberAction]:
        """Out of the group."""
        self.generation = _NO_GENERATION
        if not keep_id:
            self.member_id = ""
        return self.stop()
