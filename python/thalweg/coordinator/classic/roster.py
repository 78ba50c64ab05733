"""The roster of a classic group: members, static ids, pending ids, the leader, the vote.

It has no state of the group and no responses: see group.py. Members are in the order in which they
joined, so that elections and votes are the same in each run.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from thalweg.coordinator.protocol import Subscription
from thalweg.errors import FencedInstanceIdError, KafkaProtocolError, NoError, UnknownMemberIdError

__all__ = ["GroupMember", "Roster"]

CONSUMER_PROTOCOL: Final = "consumer"


@dataclass(slots=True)
class GroupMember:
    """A member of the group (`ClassicGroupMember`).

    Attributes:
        protocols: (name of the assignor, its metadata), the preferred one first.
        join_token: The token of the JoinGroup that waits for its response.
        sync_token: The token of the SyncGroup that waits for its response.
        is_new: Whether its first JoinGroup has no response yet, so that it sends no heartbeats.
        join_deadline: When a waiting new member is removed, because it may no longer exist.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes = b""
    join_token: int | None = None
    sync_token: int | None = None
    is_new: bool = True
    join_deadline: float | None = None

    @property
    def watched(self) -> bool:
        """Whether its session may expire: not while one of its requests waits."""
        return self.join_token is None and self.sync_token is None

    def metadata(self, protocol: str | None) -> bytes:
        """Returns its metadata for an assignor, or b"" if it does not support the assignor."""
        return dict(self.protocols).get(protocol or "", b"")

    def vote(self, candidates: Iterable[str]) -> str:
        """Returns the first assignor of its list that all members support."""
        return next(name for name, _ in self.protocols if name in candidates)


class Roster:
    """The members of one group.

    Attributes:
        members: {member id: member}.
        pending_ids: {member id that has not joined yet: its deadline} (KIP-394).
        leader_id: The member id of the leader. None in an empty group.
        protocol_type: The type of the first member: "consumer".
    """

    def __init__(self) -> None:
        self.members: dict[str, GroupMember] = {}
        self.pending_ids: dict[str, float] = {}
        self.leader_id: str | None = None
        self.protocol_type: str | None = None
        self._static: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[GroupMember]:
        return iter(list(self.members.values()))

    def __contains__(self, member_id: object) -> bool:
        return member_id in self.members

    # ------------------------------------------------------------------ coming and going

    def add(self, member: GroupMember, protocol_type: str) -> None:
        """Adds a member. The first one is the leader, and sets the protocol type."""
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        self.pending_ids.pop(member.member_id, None)
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member_id: str) -> None:
        """Removes a member or a pending id. If it was the leader, the next member leads."""
        self.pending_ids.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            self._static.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)

    def replace_static(self, old_id: str, new: GroupMember) -> None:
        """Replaces a static member that has returned with a new id. It keeps its place."""
        if new.instance_id is None or self._static.get(new.instance_id) != old_id:
            raise AssertionError(f"{old_id} is not a static member")
        self.members = {
            new.member_id if each == old_id else each: new if each == old_id else member
            for each, member in self.members.items()
        }
        self._static[new.instance_id] = new.member_id
        if self.leader_id == old_id:
            self.leader_id = new.member_id

    # ------------------------------------------------------------------ questions

    def static_id(self, instance_id: str | None) -> str | None:
        """Returns the current member id of a static member."""
        return None if instance_id is None else self._static.get(instance_id)

    def check(self, member_id: str, instance_id: str | None) -> int:
        """Returns the error code for a request of this member. 0 if it is a member."""
        if instance_id is not None:
            current = self.static_id(instance_id)
            if current is not None and current != member_id:
                return FencedInstanceIdError.errno
            if current is None:
                return UnknownMemberIdError.errno
        return NoError.errno if member_id in self.members else UnknownMemberIdError.errno

    def joining(self) -> int:
        """Returns how many members wait for the response to their JoinGroup."""
        return sum(member.join_token is not None for member in self)

    def all_joined(self) -> bool:
        """Whether all members have sent JoinGroup, and there are no pending ids."""
        return not self.pending_ids and self.joining() == len(self.members)

    def elect(self) -> bool:
        """Makes sure that the leader has joined. Returns False if no member has joined."""
        leader = self.members.get(self.leader_id or "")
        if leader is None:
            return False
        if leader.join_token is not None:
            return True
        present = next((each for each in self if each.join_token is not None), None)
        if present is None:
            return False
        self.leader_id = present.member_id
        return True

    def rebalance_timeout_ms(self) -> int:
        """Returns the longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self), default=0)

    # ------------------------------------------------------------------ assignors

    def _candidates(self) -> set[str]:
        """Returns the assignors that all members support."""
        lists = [{name for name, _ in member.protocols} for member in self]
        return set.intersection(*lists) if lists else set()

    def supports(self, protocol_type: str, protocols: Mapping[str, Any]) -> bool:
        """Whether a member with these assignors can join the other members."""
        if not protocol_type or not protocols:
            return False
        if not self.members:
            return True
        return self.protocol_type == protocol_type and not self._candidates().isdisjoint(protocols)

    def elected_protocol(self) -> str:
        """Returns the assignor with the most votes. Of equal ones, the first that got a vote."""
        candidates = self._candidates()
        votes: dict[str, int] = {}
        for member in self:
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def subscribed_topics(self, protocol: str | None) -> list[str]:
        """Returns all subscribed topics. Empty if the metadata is not that of consumers."""
        topics: set[str] = set()
        if self.protocol_type != CONSUMER_PROTOCOL:
            return []
        try:
            for member in self:
                topics.update(Subscription.decode(member.metadata(protocol)).topics)
        except KafkaProtocolError:
            return []
        return sorted(topics)
