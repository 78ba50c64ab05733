"""A member's requests to the coordinator, and their responses.

    join ──> Send(token) ──> joined: in a generation, heartbeats begin
    sync ──> Send(token) ──> synced: the assignment
                └──────────> failed: join again, at once or at retry_at
    end: in no generation, without heartbeats

Only the response to the latest request counts, and none after `stop` or `end`. The native core
sends the heartbeats. A JoinGroup includes them, and they begin when its response arrives, perhaps
long before the application handles the response. Until then, responses to heartbeats count for the
generation before.

member.py decides when to send a request, and verdict.py has the meaning of error codes.
"""

import itertools
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, Final

from thalweg.coordinator.backoff import Backoff
from thalweg.coordinator.classic import requests
from thalweg.coordinator.classic.requests import MemberSettings
from thalweg.coordinator.protocol import VERSION_MAX, Assignment
from thalweg.coordinator.steps import Heartbeats, MemberAction, Send, StopHeartbeats
from thalweg.errors import InconsistentGroupProtocolError

__all__ = ["Conversation"]

_NO_GENERATION: Final = -1
_AT_ONCE_MAX: Final = 3  # after this many failures in a row, also a rejoin waits


class Conversation:
    """The membership and its requests. Methods that send, start or stop return the actions.

    Attributes:
        member_id: The id from the coordinator. "" before that.
        generation: The generation. -1 outside the group.
        protocol: The assignor that the group has chosen for the generation.
        retry_at: When to join again after a failure. None: at once.
        is_beating: Whether responses to heartbeats belong to this membership.
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
        self._token: int | None = None  # of the request that waits for its response
        self._is_ordered = False  # whether heartbeats, or a JoinGroup that begins them, were sent

    @property
    def is_member(self) -> bool:
        """Whether the member is in a generation of the group."""
        return self.generation != _NO_GENERATION

    # ------------------------------------------------------------------ requests

    def join(self, protocols: Sequence[dict[str, Any]], reason: str) -> list[MemberAction]:
        """Sends JoinGroup."""
        body = requests.join(self._settings, self.member_id, protocols, reason)
        # A waiting JoinGroup keeps the session alive. Its response begins heartbeats again.
        self._is_ordered, self.is_beating = True, False
        return self._send("JoinGroup", body, self._settings.join_timeout_ms, self._heartbeats())

    def sync(self, assignments: Sequence[dict[str, Any]]) -> list[MemberAction]:
        """Sends SyncGroup. Only the leader has assignments."""
        body = requests.sync(
            self._settings, self.member_id, self.generation, self.protocol, assignments
        )
        return self._send("SyncGroup", body, self._settings.request_timeout_ms)

    def leave(self, reason: str) -> list[MemberAction]:
        """Sends LeaveGroup, unless the member is static and so may return (KIP-345)."""
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

    # ------------------------------------------------------------------ responses

    def takes(self, token: int) -> bool:
        """Whether this is the awaited response. After that, no response is awaited."""
        if token != self._token:
            return False
        self._token = None
        return True

    def joined(self, body: Mapping[str, Any], offered: Container[str]) -> list[MemberAction]:
        """Enters the next generation. Heartbeats begin before the assignment is known.

        Raises:
            InconsistentGroupProtocolError: If it is not a group of consumers, or has chosen an
                assignor that this member did not offer.
        """
        kind, protocol = body.get("ProtocolType"), body["ProtocolName"] or ""
        if kind not in (None, requests.PROTOCOL_TYPE) or protocol not in offered:
            raise InconsistentGroupProtocolError(
                f"the group chose the assignor {protocol!r} (protocol type {kind!r}), which this"
                " member did not offer. Check partition_assignment_strategy of all members"
            )
        self.protocol = protocol
        self.generation, self.member_id = body["GenerationId"], body["MemberId"]
        self._is_ordered = self.is_beating = True
        return [self._heartbeats()]

    def synced(self, body: Mapping[str, Any]) -> Assignment:
        """Returns the assignment of the member.

        Raises:
            InconsistentGroupProtocolError: If its assignor is not that of the generation.
            KafkaProtocolError: If the bytes are not an assignment.
        """
        if body.get("ProtocolName") not in (None, self.protocol):
            raise InconsistentGroupProtocolError(
                f"the assignment comes from the assignor {body['ProtocolName']!r}, but the group"
                f" chose {self.protocol!r}. Check partition_assignment_strategy of all members"
            )
        data = body["Assignment"]
        # A leader may omit members, which then get no partitions.
        given = Assignment.decode(data) if data else Assignment(VERSION_MAX, [])
        self._backoff.reset()
        return given

    def failed(self, now: float, *, at_once: bool = False) -> None:
        """Plans a retry: after a wait, or `at_once` if it has not failed too often."""
        at_once = at_once and self._backoff.failures < _AT_ONCE_MAX
        wait_ms = self._backoff.failed()
        self.retry_at = None if at_once else now + wait_ms

    def is_due(self, now: float) -> bool:
        """Whether the backoff allows a JoinGroup now."""
        return self.retry_at is None or self.retry_at <= now

    # ------------------------------------------------------------------ its end

    def poll_expired(self) -> None:
        """Called after max_poll_interval_ms: the core has left and stopped the heartbeats."""
        self._is_ordered = self.is_beating = False

    def stop(self) -> list[MemberAction]:
        """Ignores the request in flight, and stops the heartbeats."""
        self._token = None
        self.is_beating = False
        if not self._is_ordered:
            return []
        self._is_ordered = False
        return [StopHeartbeats()]

    def end(self, *, keep_id: bool) -> list[MemberAction]:
        """Ends the membership."""
        self.generation = _NO_GENERATION
        if not keep_id:
            self.member_id = ""
        return self.stop()
