"""The state machine of one classic group, the broker's side (`ClassicGroup` in Kafka).

        JoinGroup                 all joined, or time is over          SyncGroup of the leader
    Empty ────> PreparingRebalance ────────────────> CompletingRebalance ────────> Stable
                        ^  └─ no members: Empty               │                       │
                        └── members join, leave, change, or do not sync in time ──────┘

JoinGroup waits for all known members, for at most the longest rebalance timeout. In an empty group
it waits for `initial_rebalance_delay_ms`. Only the leader gets the list of members. It sends the
assignment in its SyncGroup, and all other members wait for it.

roster.py has the members and their vote, rules.py the refusals, responses.py the bodies of
responses and the view. The broker responds to heartbeats and commits, and watches sessions, from
the view. An empty group stays until it is deleted, because the broker's store of offsets decides
when nothing of the group is left.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from thalweg.coordinator.classic import responses, rules
from thalweg.coordinator.classic.roster import GroupMember, Roster
from thalweg.coordinator.classic.rules import GroupSettings
from thalweg.coordinator.states import CLASSIC_GROUP, GroupState, GroupTrigger, move
from thalweg.coordinator.steps import (
    Arrived,
    Deleted,
    Forget,
    GroupAction,
    GroupEvent,
    Publish,
    Reply,
    SessionExpired,
    Ticked,
)
from thalweg.errors import (
    CoordinatorNotAvailableError,
    FencedInstanceIdError,
    GroupMaxSizeReachedError,
    InconsistentGroupProtocolError,
    MemberIdRequiredError,
    NoError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    UnsupportedVersionError,
)

__all__ = ["ClassicGroup", "GroupSettings"]

_MEMBER_ID_REQUIRED_FROM = 4  # the version of JoinGroup in which new members join twice
# A minimum, because a rebalance timeout may be 0, and absent members may be away for hours.
_ABSENT_WAIT_MIN_MS = 1_000
# The responses of old versions take no string of more than 32,767 bytes.
_ID_PREFIX_CHARACTERS_MAX = 8_000
_PENDING_IDS_MAX = 10_000  # ids given out to members that did not come back yet
_SKIP_ASSIGNMENT_FROM = 9  # ... that can tell a leader to leave the assignment alone


@dataclass(slots=True)
class _Timers:
    """The deadlines of the group.

    Attributes:
        join: The end of the wait for JoinGroup requests.
        initial_left_ms: During the first wait: by how much it may still be extended.
        sync: The end of the wait for SyncGroup requests (KAFKA-12890).
    """

    join: float | None = None
    initial_left_ms: float | None = None
    sync: float | None = None


class ClassicGroup:
    """One group. Requests go in, responses and views come out.

    Attributes:
        state: See states.CLASSIC_GROUP.
        generation: The number of rebalances so far.
        protocol: The assignor of this generation.
    """

    def __init__(self, group_id: str, settings: GroupSettings, new_id: Callable[[], str]) -> None:
        """Creates an empty group. `new_id` creates the random part of member ids."""
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol: str | None = None
        self.topics: list[str] = []
        self.roster = Roster()
        self._settings = settings
        self._new_id = new_id
        self._timers = _Timers()
        self._not_synced: dict[str, None] = {}  # an ordered set of member ids
        self._came_meanwhile = False
        self._view: Mapping[str, Any] | None = None
        self._replies: list[GroupAction] = []

    # ------------------------------------------------------------------ in and out

    def step(self, event: GroupEvent, now: float) -> list[GroupAction]:
        """Handles an event, and returns the actions. A changed view comes before the replies."""
        match event:
            case Arrived():
                self._arrived(event, now)
            case SessionExpired(member_id):
                self._session_expired(member_id, now)
            case Deleted():
                self._die()
            case Ticked():
                self._ticked(now)
        actions, self._replies = self._replies, []
        if self.state is GroupState.DEAD:
            return [*actions, Forget()]
        view = responses.view(self)
        if view == self._view:
            return actions
        self._view = view
        return [Publish(view), *actions]

    def has_begun(self, first: Iterable[GroupAction]) -> bool:
        """Whether the first JoinGroup, which led to these actions, has created a group.

        As in Kafka, it also has if the member was refused only for its protocols.
        """
        if len(self.roster) or self.roster.pending_ids:
            return True
        codes = [each.body["ErrorCode"] for each in first if isinstance(each, Reply)]
        return InconsistentGroupProtocolError.errno in codes

    def next_deadline(self) -> float | None:
        """Returns when it needs a Ticked."""
        own = self._timers
        waits = [each.join_deadline for each in self.roster]
        due = [own.join, own.sync, *self.roster.pending_ids.values(), *waits]
        return min((each for each in due if each is not None), default=None)

    def describe(self) -> dict[str, Any]:
        """Returns the group's row in DescribeGroups."""
        return responses.described(self)

    def _move(self, trigger: GroupTrigger) -> None:
        self.state = move(CLASSIC_GROUP, self.state, trigger)

    def _reply(self, token: int | None, body: dict[str, Any]) -> None:
        if token is not None:
            self._replies.append(Reply(token, body))

    def _arrived(self, event: Arrived, now: float) -> None:
        match event.api:
            case "JoinGroup":
                self._join(event, now)
            case "SyncGroup":
                self._sync(event, now)
            case "LeaveGroup":
                self._leave(event, now)
            case _:
                body = {"ErrorCode": UnsupportedVersionError.errno}
                self._reply(event.token, body)

    # ------------------------------------------------------------------ JoinGroup

    def _join(self, event: Arrived, now: float) -> None:
        member_id = event.body["MemberId"]
        error = rules.join_error(self, self._settings, event.body)
        if error == GroupMaxSizeReachedError.errno:
            self._remove([member_id], now)
            member_id = ""
        if error != NoError.errno:
            self._reply(event.token, responses.join_error(error, member_id))
        elif not member_id:
            self._join_new(event, now)
        elif member_id in self.roster.pending_ids:
            self._admit(event, member_id, now)
        else:
            self._join_known(event, self.roster.members[member_id], now)

    def _join_new(self, event: Arrived, now: float) -> None:
        """Handles a JoinGroup without a member id: a new member, or a returning static member."""
        instance_id = event.body.get("GroupInstanceId")
        prefix = (instance_id or event.client_id)[:_ID_PREFIX_CHARACTERS_MAX]
        member_id = f"{prefix}-{self._new_id()}"
        if instance_id is None and event.version >= _MEMBER_ID_REQUIRED_FROM:
            if len(self.roster.pending_ids) >= _PENDING_IDS_MAX:
                code = GroupMaxSizeReachedError.errno
                self._reply(event.token, responses.join_error(code, ""))
                return
            self.roster.pending_ids[member_id] = now + event.body["SessionTimeoutMs"]
            self._reply(event.token, responses.join_error(MemberIdRequiredError.errno, member_id))
            return
        old_id = self.roster.static_id(instance_id)
        if old_id is None:
            self._admit(event, member_id, now)
        else:
            self._return_static(event, old_id, member_id, now)

    def _admit(self, event: Arrived, member_id: str, now: float) -> None:
        """Adds a new member."""
        member = responses.member_of(event, member_id)
        member.join_token = event.token
        member.join_deadline = now + self._settings.new_member_join_timeout_ms
        self.roster.add(member, event.body["ProtocolType"])
        if self.state is GroupState.PREPARING_REBALANCE:
            self._came_meanwhile = True
        self._rebalance(now)

    def _join_known(self, event: Arrived, member: GroupMember, now: float) -> None:
        """Handles a JoinGroup of a known member, which may be a retry after a lost response."""
        same = member.protocols == responses.protocols(event.body)
        leads = self.roster.leader_id == member.member_id
        completing = self.state is GroupState.COMPLETING_REBALANCE and same
        # A leader rejoins a stable group to make a new assignment, because topics have changed.
        stable = self.state is GroupState.STABLE and same and not leads
        if completing or stable:
            self._reply(event.token, responses.joined(self, member, members=leads))
            return
        # An older JoinGroup of this member came on a connection that is closed: it gets no
        # response.
        self._update(member, event)
        self._rebalance(now)

    def _update(self, member: GroupMember, event: Arrived) -> None:
        said = responses.member_of(event, member.member_id)
        member.protocols = said.protocols
        member.session_timeout_ms = said.session_timeout_ms
        member.rebalance_timeout_ms = said.rebalance_timeout_ms
        member.join_token = event.token

    def _return_static(self, event: Arrived, old_id: str, member_id: str, now: float) -> None:
        """Handles a returning static member (KIP-345): fences its old id, keeps its assignment."""
        old = self.roster.members[old_id]
        led_by = self.roster.leader_id
        fenced = FencedInstanceIdError.errno
        self._reply(old.join_token, responses.join_error(fenced, old_id))
        self._reply(old.sync_token, responses.sync_error(fenced))
        new = responses.member_of(event, member_id)
        new.client_id, new.client_host = old.client_id, old.client_host  # as Kafka has it
        new.assignment, new.join_token, new.is_new = old.assignment, event.token, False
        self.roster.replace_static(old_id, new)
        self._not_synced = {
            member_id if each == old_id else each: None for each in self._not_synced
        }
        if self.state is GroupState.PREPARING_REBALANCE:
            self._complete_if_all_joined(now)
        elif self.state is GroupState.STABLE and self.roster.elected_protocol() == self.protocol:
            self._respond_to_returned(event, new, led_by)
        else:
            # The leader may make an assignment for the old id, which no member would ask for.
            self._prepare(now)

    def _respond_to_returned(self, event: Arrived, member: GroupMember, led_by: str | None) -> None:
        """Responds to a returning static member in a stable group, without a rebalance.

        A leader must not make a new assignment. In versions that cannot tell it so, the response
        names its old id as the leader, so that it acts as a follower.
        """
        member.join_token = None
        leads = self.roster.leader_id == member.member_id
        if event.version >= _SKIP_ASSIGNMENT_FROM:
            body = responses.joined(self, member, members=leads) | {"SkipAssignment": leads}
        else:
            body = responses.joined(self, member, members=False) | {"Leader": led_by}
        self._reply(event.token, body)

    # ------------------------------------------------------------------ rebalance

    def _rebalance(self, now: float) -> None:
        """Starts a rebalance after a change of members, or continues the current one."""
        if self.state is GroupState.PREPARING_REBALANCE:
            self._complete_if_all_joined(now)
        else:
            self._prepare(now)

    def _prepare(self, now: float, trigger: GroupTrigger = GroupTrigger.REBALANCE) -> None:
        if self.state is GroupState.COMPLETING_REBALANCE:
            self._refuse_assignments()
        first = self.state is GroupState.EMPTY
        self._move(trigger)
        self._timers = _Timers()
        timeout_ms = self.roster.rebalance_timeout_ms()
        if first:
            delay_ms = self._settings.initial_rebalance_delay_ms
            self._came_meanwhile = False
            self._timers.join = now + delay_ms
            self._timers.initial_left_ms = max(timeout_ms - delay_ms, 0)
        elif self.roster.all_joined():
            self._complete_join(now)
        else:
            self._timers.join = now + timeout_ms

    def _refuse_assignments(self) -> None:
        """Tells members that wait for an assignment to join again."""
        for member in self.roster:
            token, member.sync_token = member.sync_token, None
            member.assignment = b""
            self._reply(token, responses.sync_error(RebalanceInProgressError.errno))

    def _complete_if_all_joined(self, now: float) -> None:
        if self._timers.initial_left_ms is None and self.roster.all_joined():
            self._complete_join(now)

    def _join_time_is_up(self, now: float) -> None:
        left_ms = self._timers.initial_left_ms
        if self._came_meanwhile and left_ms:
            # New members joined during the first wait: more may follow.
            self._came_meanwhile = False
            delay_ms = min(self._settings.initial_rebalance_delay_ms, left_ms)
            self._timers.join = now + delay_ms
            self._timers.initial_left_ms = max(left_ms - delay_ms, 0)
        else:
            self._complete_join(now)

    def _complete_join(self, now: float) -> None:
        """Starts the next generation with the members that joined.

        Absent static members stay (KIP-345).
        """
        self._timers = _Timers()
        for member in self.roster:
            if member.join_token is None and member.instance_id is None:
                self.roster.remove(member.member_id)
        if len(self.roster) and not self.roster.elect():
            # All members are static and absent: wait until one joins or the sessions end.
            wait_ms = max(self.roster.rebalance_timeout_ms(), _ABSENT_WAIT_MIN_MS)
            self._timers.join = now + wait_ms
            return
        self.generation += 1
        if not len(self.roster):
            self._become_empty()
            return
        self.protocol = self.roster.elected_protocol()
        self.topics = self.roster.subscribed_topics(self.protocol)
        self._move(GroupTrigger.JOINED)
        self._timers.sync = now + self.roster.rebalance_timeout_ms()
        self._not_synced = dict.fromkeys(self.roster.members)
        for member in self.roster:
            self._respond_to_join(member)

    def _respond_to_join(self, member: GroupMember) -> None:
        token, member.join_token = member.join_token, None
        member.is_new, member.join_deadline = False, None
        leads = self.roster.leader_id == member.member_id
        self._reply(token, responses.joined(self, member, members=leads))

    def _become_empty(self) -> None:
        self.protocol, self.topics = None, []
        self._not_synced = {}
        self._move(GroupTrigger.EMPTIED)

    # ------------------------------------------------------------------ SyncGroup

    def _sync(self, event: Arrived, now: float) -> None:
        error = rules.sync_error(self, event.body)
        if error != NoError.errno:
            self._reply(event.token, responses.sync_error(error))
            return
        member = self.roster.members[event.body["MemberId"]]
        self._not_synced.pop(member.member_id, None)
        if not self._not_synced:
            self._timers.sync = None
        if self.state is GroupState.STABLE:
            self._reply(event.token, responses.synced(self, member))
            return
        member.sync_token = event.token
        if self.roster.leader_id == member.member_id:
            self._take_assignment(event.body)

    def _take_assignment(self, body: Mapping[str, Any]) -> None:
        """Takes the leader's assignment, and responds to the waiting members.

        A member that is not in the assignment gets an empty one.
        """
        given = {each["MemberId"]: bytes(each["Assignment"]) for each in body["Assignments"]}
        self._move(GroupTrigger.ASSIGNED)
        for member in self.roster:
            member.assignment = given.get(member.member_id, b"")
            token, member.sync_token = member.sync_token, None
            self._reply(token, responses.synced(self, member))

    # ------------------------------------------------------------------ leaving

    def _leave(self, event: Arrived, now: float) -> None:
        rows = responses.leaving(event.version, event.body)
        found = [rules.leaving(self.roster, row) for row in rows]
        codes = [code for _, code in found]
        self._reply(event.token, responses.left(event.version, rows, codes))
        self._remove([member_id for member_id, code in found if code == NoError.errno], now)

    def _remove(self, member_ids: Iterable[str], now: float) -> None:
        """Removes members and pending ids, and rebalances if members are among them."""
        size = len(self.roster)
        for member_id in member_ids:
            self._drop(member_id)
        if len(self.roster) < size or self.state is GroupState.PREPARING_REBALANCE:
            self._rebalance(now)

    def _drop(self, member_id: str) -> None:
        """Removes a member, and refuses its waiting requests, so that it may join again."""
        member = self.roster.members.get(member_id)
        self.roster.remove(member_id)
        self._not_synced.pop(member_id, None)
        if member is not None:
            unknown = UnknownMemberIdError.errno
            self._reply(member.join_token, responses.join_error(unknown, member_id))
            self._reply(member.sync_token, responses.sync_error(unknown))

    def _session_expired(self, member_id: str, now: float) -> None:
        member = self.roster.members.get(member_id)
        # It may have sent a request before this event arrived.
        if member is not None and member.watched:
            self._remove([member_id], now)

    def _die(self) -> None:
        for member in self.roster:
            gone = CoordinatorNotAvailableError.errno
            self._reply(member.join_token, responses.join_error(gone, member.member_id))
            self._reply(member.sync_token, responses.sync_error(gone))
        self.roster, self._timers = Roster(), _Timers()
        self._move(GroupTrigger.DELETED)

    # ------------------------------------------------------------------ time

    def _ticked(self, now: float) -> None:
        """Does what is due. Each handler may change the other deadlines."""
        late = [each for each, due in self.roster.pending_ids.items() if due <= now]
        late += [
            member.member_id
            for member in self.roster
            if member.join_deadline is not None and member.join_deadline <= now
        ]
        if late:
            self._remove(late, now)
        if self._is_due(self._timers.join, now):
            self._join_time_is_up(now)
        if self._is_due(self._timers.sync, now):
            self._sync_time_is_up(now)

    @staticmethod
    def _is_due(deadline: float | None, now: float) -> bool:
        return deadline is not None and deadline <= now

    def _sync_time_is_up(self, now: float) -> None:
        """Removes members that did not send SyncGroup in time (KAFKA-12890)."""
        for member_id in list(self._not_synced):
            self._drop(member_id)
        self._prepare(now, GroupTrigger.SYNC_EXPIRED)
