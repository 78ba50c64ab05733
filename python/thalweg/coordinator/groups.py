"""All groups of a broker: passes each event to its group.

    Arrived(JoinGroup, ...)  ──┐                 ┌── ClassicGroup   classic/group.py
    Arrived(ConsumerGroup...)──┼── by group id ──┤
    SessionExpired, Deleted  ──┘                 └── ConsumerGroup  kip848/group.py

The first member creates a group, and Forget removes it. A member of the other protocol is refused
while the group has members. If the group is empty, its new group replaces the old one.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from thalweg.coordinator.classic import responses
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

log = logging.getLogger("thalweg.broker")

_EMPTY = "Empty"
# How long a group whose step has failed is left alone.
_AFTER_A_FAILURE_MS: Final = 1_000
_SAYS_NOT_FOUND = 6  # since this version, DescribeGroups has an error for unknown groups (KIP-1043)


class Group(Protocol):
    """The interface of the groups of both protocols."""

    group_id: str

    @property
    def state(self) -> str:
        """Kafka's name of the state. A group of the other protocol may replace an "Empty" one."""

    def step(self, event: GroupEvent, now: float) -> list[GroupAction]:
        """Handles an event, and returns the actions."""

    def next_deadline(self) -> float | None:
        """Returns when the group needs a Ticked."""

    def describe(self) -> dict[str, Any]:
        """Returns its row in DescribeGroups or ConsumerGroupDescribe."""


class Groups:
    """The groups of one broker.

    Attributes:
        groups: {group id: group}.
    """

    def __init__(
        self,
        settings: GroupSettings,
        new_id: Callable[[], str],
        new_consumer_group: Callable[[str], Group] | None = None,
    ) -> None:
        """Creates a coordinator without groups.

        Args:
            settings: The options of classic groups.
            new_id: Creates the random part of a member id.
            new_consumer_group: Creates a group of KIP-848 from its id. None: not supported.
        """
        self.groups: dict[str, Group] = {}
        self._deadlines = Deadlines()
        self._settings = settings
        self._new_id = new_id
        self._new_consumer_group = new_consumer_group

    def step(self, event: GroupEvent, now: float) -> list[GroupAction]:
        """Handles an event in the groups that it is for, and returns the actions."""
        match event:
            case Arrived():
                return self._arrived(event, now)
            case SessionExpired(_, group_id) | Deleted(group_id):
                return self._pass_on(self.groups.get(group_id), event, now)
            case Ticked():
                due = [self.groups[each] for each in self._deadlines.due(now)]
            case TopicsChanged():
                due = list(self.groups.values())
        return self._pass_on_to_each(due, event, now)

    def next_deadline(self) -> float | None:
        """Returns when the first group needs a Ticked."""
        return self._deadlines.first()

    def _pass_on_to_each(
        self, groups: Iterable[Group], event: GroupEvent, now: float
    ) -> list[GroupAction]:
        actions: list[GroupAction] = []
        for group in groups:
            try:
                actions += self._pass_on(group, event, now)
            except Exception:
                # A defect in this code must not cost other groups the actions of their steps.
                log.exception("%s failed in group %s", type(event).__name__, group.group_id)
                self._deadlines.set(group.group_id, now + _AFTER_A_FAILURE_MS)
        return actions

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
        # The new group decides whether to accept its first member. If not, it is removed.
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
        """Returns the draft with the rows of our groups."""
        draft = event.draft or {}
        names = event.body["Groups"] if classic else event.body["GroupIds"]
        drafted = {row["GroupId"]: row for row in draft.get("Groups", ())}
        # A group that is named twice is described once.
        distinct = dict.fromkeys(names)
        rows = [self._row(each, classic, drafted.get(each), event.version) for each in distinct]
        return {**draft, "Groups": rows}

    def _row(
        self, group_id: str, classic: bool, drafted: Mapping[str, Any] | None, version: int
    ) -> Mapping[str, Any]:
        group = self.groups.get(group_id)
        if group is not None and isinstance(group, ClassicGroup) == classic:
            # Keep the fields that only the draft has: AuthorizedOperations.
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
    """Refuses a request whose group does not exist or has the other protocol."""
    body = event.body
    match event.api:
        case "JoinGroup":
            return Reply(event.token, responses.join_error(code, body["MemberId"]))
        case "SyncGroup":
            return Reply(event.token, responses.sync_error(code))
        case "LeaveGroup" if code == UnknownMemberIdError.errno:
            rows = responses.leaving(event.version, body)
            return Reply(event.token, responses.left(event.version, rows, [code] * len(rows)))
        case _:
            return Reply(event.token, {"ErrorCode": code})
