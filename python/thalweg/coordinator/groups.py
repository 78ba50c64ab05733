"""All groups of a broker: routes what comes in to the group that it is for.

    Arrived(JoinGroup, ...)  ──┐                 ┌── ClassicGroup   classic/group.py
    Arrived(ConsumerGroup...)──┼── by group id ──┤
    SessionExpired, Deleted  ──┘                 └── ConsumerGroup  consumer/group.py

A group comes into being with its first member and is dropped on its Forget. Who wants to join a
group of the other protocol is refused while that has members, and takes its place once it is empty.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from thalweg.coordinator.classic import answers
from thalweg.coordinator.classic.group import ClassicGroup, GroupSettings
from thalweg.coordinator.deadlines import Deadlines
from thalweg.coordinator.steps import (
    Arrived,
    Deleted,
    Forget,
    GroupAction,
    GroupEvent,
    Reply,
    SessionExpired,
    Ticked,
    TopicsChanged,
)
from thalweg.errors import (
    GroupIdNotFoundError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    NoError,
    UnknownMemberIdError,
    UnsupportedVersionError,
)

__all__ = ["Group", "Groups"]

_EMPTY = "Empty"
_SAYS_NOT_FOUND = 6  # from here on DescribeGroups has an error for unknown groups (KIP-1043)


class Group(Protocol):
    """What a group of either protocol offers."""

    group_id: str

    @property
    def state(self) -> str:
        """Kafka's word for it; "Empty" lets a group of the other protocol take its place."""

    def step(self, event: GroupEvent, now: float) -> list[GroupAction]:
        """What an event leads to."""

    def next_deadline(self) -> float | None:
        """When it wants a Ticked."""

    def describe(self) -> dict[str, Any]:
        """Its row in DescribeGroups or ConsumerGroupDescribe."""


class Groups:
    """The groups of one broker.

    Attributes:
        groups: By id.
    """

    def __init__(
        self,
        settings: GroupSettings,
        new_id: Callable[[], str],
        new_consumer_group: Callable[[str], Group] | None = None,
    ) -> None:
        """Makes a coordinator without groups.

        Args:
            settings: Options of classic groups.
            new_id: Makes the random part of member ids.
            new_consumer_group: Makes a group of KIP-848, given its id; None: not spoken.
        """
        self.groups: dict[str, Group] = {}
        self._deadlines = Deadlines()
        self._settings = settings
        self._new_id = new_id
        self._new_consumer_group = new_consumer_group

    def step(self, event: GroupEvent, now: float) -> list[GroupAction]:
        """What an event leads to, in all groups; see steps.py."""
        match event:
            case Arrived():
                return self._arrived(event, now)
            case SessionExpired(_, group_id) | Deleted(group_id):
                return self._pass_on(self.groups.get(group_id), event, now)
            case Ticked():
                due = [self.groups[each] for each in self._deadlines.due(now)]
            case TopicsChanged():
                due = list(self.groups.values())
        return [action for group in due for action in self._pass_on(group, event, now)]

    def next_deadline(self) -> float | None:
        """When the first group wants a Ticked."""
        return self._deadlines.first()

    def _pass_on(self, group: Group | None, event: GroupEvent, now: float) -> list[GroupAction]:
        if group is None:
            return []
        try:
            actions = group.step(event, now)
        finally:
            self._deadlines.set(group.group_id, group.next_deadline())
        if Forget() not in actions:
            return actions
        self.groups.pop(group.group_id, None)
        self._deadlines.set(group.group_id, None)
        return [Forget(group.group_id) if each == Forget() else each for each in actions]

    # ------------------------------------------------------------------ requests

    def _arrived(self, event: Arrived, now: float) -> list[GroupAction]:
        match event.api:
            case "DescribeGroups":
                return [Reply(event.token, self._describe(event, classic=True))]
            case "ConsumerGroupDescribe":
                return [Reply(event.token, self._describe(event, classic=False))]
            case "ConsumerGroupHeartbeat":
                return self._consumer(event, now)
            case _:
                return self._classic(event, now)

    def _classic(self, event: Arrived, now: float) -> list[GroupAction]:
        group_id = event.body["GroupId"]
        if not group_id:
            return [_refuse(event, InvalidGroupIdError.errno)]
        group = self.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return self._pass_on(group, event, now)
        if event.api != "JoinGroup" or event.body["MemberId"]:
            return [_refuse(event, UnknownMemberIdError.errno)]
        if group is not None and group.state != _EMPTY:
            return [_refuse(event, InconsistentGroupProtocolError.errno)]
        fresh = ClassicGroup(group_id, self._settings, self._new_id)
        actions = fresh.step(event, now)
        if fresh.has_begun(actions):
            self._keep(fresh)
            return actions
        return [each for each in actions if isinstance(each, Reply)]

    def _consumer(self, event: Arrived, now: float) -> list[GroupAction]:
        if self._new_consumer_group is None:
            return [_refuse(event, UnsupportedVersionError.errno)]
        group_id = event.body["GroupId"]
        group = self.groups.get(group_id)
        if not isinstance(group, ClassicGroup | None):
            return self._pass_on(group, event, now)
        if group is not None and group.state != _EMPTY:
            return [_refuse(event, GroupIdNotFoundError.errno)]
        # Who may begin a group is the new group's own affair: it is dropped if nobody did.
        fresh = self._new_consumer_group(group_id)
        actions = fresh.step(event, now)
        if Forget() in actions:
            return [each for each in actions if each != Forget()]
        self._keep(fresh)
        return actions

    def _keep(self, group: Group) -> None:
        self.groups[group.group_id] = group
        self._deadlines.set(group.group_id, group.next_deadline())

    # ------------------------------------------------------------------ describing

    def _describe(self, event: Arrived, classic: bool) -> dict[str, Any]:
        """The draft, with the rows of our own groups in it."""
        draft = event.draft or {}
        names = event.body["Groups"] if classic else event.body["GroupIds"]
        drafted = {row["GroupId"]: row for row in draft.get("Groups", ())}
        # A group that comes twice is described once.
        distinct = dict.fromkeys(names)
        rows = [self._row(each, classic, drafted.get(each), event.version) for each in distinct]
        return {**draft, "Groups": rows}

    def _row(
        self, group_id: str, classic: bool, drafted: Mapping[str, Any] | None, version: int
    ) -> Mapping[str, Any]:
        group = self.groups.get(group_id)
        if group is not None and isinstance(group, ClassicGroup) == classic:
            # What the draft says of its own accord stays: AuthorizedOperations.
            return {**(drafted or {}), **group.describe()}
        if group is None and drafted is not None:
            return drafted
        if classic and version < _SAYS_NOT_FOUND:
            return _no_row(group_id) | {"GroupState": "Dead"}
        kind = "classic" if classic else "consumer"
        why = (
            f"Group {group_id} is not a {kind} group." if group else f"Group {group_id} not found."
        )
        return _no_row(group_id) | {"ErrorCode": GroupIdNotFoundError.errno, "ErrorMessage": why}


def _no_row(group_id: str) -> dict[str, Any]:
    return {
        "ErrorCode": NoError.errno,
        "GroupId": group_id,
        "GroupState": "",
        "Members": [],
    }


def _refuse(event: Arrived, code: int) -> Reply:
    """An answer to somebody whose group is not there, or not theirs."""
    body = event.body
    match event.api:
        case "JoinGroup":
            return Reply(event.token, answers.join_error(code, body["MemberId"]))
        case "SyncGroup":
            return Reply(event.token, answers.sync_error(code))
        case "LeaveGroup" if code == UnknownMemberIdError.errno:
            rows = answers.leaving(event.version, body)
            return Reply(event.token, answers.left(event.version, rows, [code] * len(rows)))
        case _:
            return Reply(event.token, {"ErrorCode": code})
