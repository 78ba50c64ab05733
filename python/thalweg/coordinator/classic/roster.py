"""Who is in a classic group: members, static ids, pending ids, the leader, the vote.

Only bookkeeping: no state of the group, no answers; that is group.py. Members are kept in the
order in which they came, so that elections and votes are the same in each run.
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
    """A member as the broker knows it (`ClassicGroupMember`).

    Attributes:
        protocols: (assignor's name, its metadata), the preferred one first.
        join_token: Of the JoinGroup that waits for its answer.
        sync_token: Of the SyncGroup that waits.
        is_new: Has not yet got an answer to its first JoinGroup, so that it cannot send heartbeats.
        join_deadline: When a new member that waits is given up, as it may be long gone.
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
        """Whether its session may expire: not while a request of its own waits."""
        return self.join_token is None and self.sync_token is None

    def metadata(self, protocol: str | None) -> bytes:
        """What it said for an assignor; nothing if it does not support it."""
        return dict(self.protocols).get(protocol or "", b"")

    def vote(self, candidates: Iterable[str]) -> str:
        """The first assignor of its list that all members support."""
        return next(name for name, _ in self.protocols if name in candidates)


class Roster:
    """The members of one group.

    Attributes:
        members: By id.
        pending_ids: Ids given out that did not join yet (KIP-394), until when.
        leader_id: None in an empty group.
        protocol_type: "consumer"; that of the first member.
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
        """A member joins; the first one leads, and says what the group is about."""
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        self.pending_ids.pop(member.member_id, None)
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member_id: str) -> None:
        """A member, or an id that is pending, goes; the next member leads if it led."""
        self.pending_ids.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            self._static.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)

    def replace_static(self, old_id: str, new: GroupMember) -> None:
        """A static member has come back under a new id, in its old place."""
        if new.instance_id is None or self._static.get(new.instance_id) != old_id:
            raise AssertionError(f"{old_id} is no static member")
        self.members = {
            new.member_id if each == old_id else each: new if each == old_id else member
            for each, member in self.members.items()
        }
        self._static[new.instance_id] = new.member_id
        if self.leader_id == old_id:
            self.leader_id = new.member_id

    # ------------------------------------------------------------------ who is who

    def static_id(self, instance_id: str | None) -> str | None:
        """The member id that a static member has now."""
        return None if instance_id is None else self._static.get(instance_id)

    def check(self, member_id: str, instance_id: str | None) -> int:
        """The error code for a request of this member; 0 if it is one."""
        if instance_id is not None:
            current = self.static_id(instance_id)
            if current is not None and current != member_id:
                return FencedInstanceIdError.errno
            if current is None:
                return UnknownMemberIdError.errno
        return NoError.errno if member_id in self.members else UnknownMemberIdError.errno

    def joining(self) -> int:
        """How many members wait for the answer to their JoinGroup."""
        return sum(member.join_token is not None for member in self)

    def all_joined(self) -> bool:
        """Whether nobody is missing, ids given out included."""
        return not self.pending_ids and self.joining() == len(self.members)

    def elect(self) -> bool:
        """Has a member lead that takes part; False if none does."""
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
        """The longest that a member asked for."""
        return max((member.rebalance_timeout_ms for member in self), default=0)

    # ------------------------------------------------------------------ assignors

    def _candidates(self) -> set[str]:
        """The assignors that all members support."""
        lists = [{name for name, _ in member.protocols} for member in self]
        return set.intersection(*lists) if lists else set()

    def supports(self, protocol_type: str, protocols: Mapping[str, Any]) -> bool:
        """Whether a member with these assignors can be in the group with the others."""
        if not protocol_type or not protocols:
            return False
        if not self.members:
            return True
        return self.protocol_type == protocol_type and not self._candidates().isdisjoint(protocols)

    def elected_protocol(self) -> str:
        """The assignor with most votes; of equals the one that was voted for first."""
        candidates = self._candidates()
        votes: dict[str, int] = {}
        for member in self:
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def subscribed_topics(self, protocol: str | None) -> list[str]:
        """All topics that members subscribe to; none if their metadata is not the consumer's."""
        topics: set[str] = set()
        if self.protocol_type != CONSUMER_PROTOCOL:
            return []
        try:
            for member in self:
                topics.update(Subscription.decode(member.metadata(protocol)).topics)
        except (KafkaProtocolError, UnicodeDecodeError):
            return []
        return sorted(topics)
