"""Groups: list, describe and delete them, and remove members."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from thalweg._client.arguments import names_given, shown
from thalweg.admin.acls import operation_names
from thalweg.admin.group_offsets import GroupOffsetRequests
from thalweg.admin.naming import FlexibleEnum, snake_keys
from thalweg.admin.partitions import by_topic
from thalweg.coordinator.protocol import Assignment, Subscription
from thalweg.errors import (
    BrokerResponseError,
    IncompatibleBrokerVersion,
    KafkaProtocolError,
    NoError,
    SaslAuthenticationFailedError,
    UnsupportedVersionError,
    for_code,
)
from thalweg.structs import GroupInformation, MemberInformation

__all__ = ["GroupRequests", "GroupState", "GroupType", "MemberToRemove"]

_log = logging.getLogger("thalweg.admin")

_NOT_OF_A_GROUP = (SaslAuthenticationFailedError, UnsupportedVersionError)

# The description of a group whose coordinator could not be looked up.
_UNKNOWN: dict[str, Any] = {
    "group_state": "",
    "protocol_type": "",
    "protocol_data": "",
    "authorized_operations": None,
}
_BATCHED_LEAVE = 3  # LeaveGroup with several members, static ones too (KIP-345)


class GroupState(FlexibleEnum, StrEnum):
    """The states of groups (KIP-518, KIP-848)."""

    UNKNOWN = "Unknown"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"


class GroupType(FlexibleEnum, StrEnum):
    """The types of groups (KIP-848, KIP-932)."""

    UNKNOWN = "Unknown"
    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"


class MemberToRemove:
    """A member for `remove_group_members`.

    Args:
        member_id: The ID of a dynamic member.
        group_instance_id: The ID of a static member (KIP-345).
        reason: A str for the broker's log (KIP-800).
    """

    def __init__(
        self,
        member_id: str | None = None,
        group_instance_id: str | None = None,
        reason: str | None = None,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.reason = reason

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemberToRemove) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.member_id, self.group_instance_id, self.reason))

    def __repr__(self) -> str:
        return (
            f"<MemberToRemove member_id={self.member_id},"
            f" group_instance_id={self.group_instance_id}, reason={self.reason}>"
        )


def _spelt_out(member: dict[str, Any]) -> dict[str, Any]:
    """Returns a described member with its subscription and assignment as dicts."""
    return member | {
        name: _fields(member[name]) if isinstance(member[name], tuple) else member[name]
        for name in ("member_metadata", "member_assignment")
    }


def _fields(said: Any) -> dict[str, Any]:
    """Returns a Subscription or Assignment as kafka-python's to_dict() does; user_data is bytes."""
    found: dict[str, Any] = said._asdict()
    del found["version"]
    for name in {"owned_partitions", "assigned_partitions"} & found.keys():
        found[name] = [
            {"topic": topic, "partitions": partitions}
            for topic, partitions in by_topic(found[name]).items()
        ]
    return found


def _decoded(kind: Any, data: bytes) -> Any:
    """Decodes a byte field of a member. Returns the bytes if they are not a `kind`."""
    if not data:
        return data
    try:
        return kind.decode(data)
    except KafkaProtocolError:
        return data


def _members_given(members: Any) -> list[MemberToRemove]:
    expected = "members must be a list of MemberToRemove"
    if isinstance(members, str | bytes | MemberToRemove) or not isinstance(members, Iterable):
        raise TypeError(f"{expected}, got {shown(members)}")
    found = list(members)
    for each in found:
        if not (hasattr(each, "member_id") and hasattr(each, "group_instance_id")):
            hint = f": use MemberToRemove({each!r})" if isinstance(each, str) else ""
            raise TypeError(f"{expected}, but one element is {shown(each)}{hint}")
    return found


class GroupRequests(GroupOffsetRequests):
    """Calls about groups."""

    def list_groups(
        self,
        broker_ids: Iterable[int] | None = None,
        states_filter: Iterable[GroupState | str] | None = None,
        types_filter: Iterable[GroupType | str] | None = None,
    ) -> list[dict[str, Any]]:
        """Lists groups (ListGroups).

        Args:
            broker_ids: Only groups whose coordinator is one of these nodes. None: all nodes.
            states_filter: Only these states (brokers of 2.6 and newer, KIP-518).
            types_filter: Only these types (brokers of 3.8 and newer, KIP-848).

        Returns:
            [{group_id, protocol_type, group_state, group_type}].
        """
        body: dict[str, Any] = {}
        if states_filter:
            body["StatesFilter"] = [GroupState.value_for(each) for each in states_filter]
        if types_filter:
            body["TypesFilter"] = [GroupType.value_for(each) for each in types_filter]
        found: list[dict[str, Any]] = []
        for node in self._node_ids() if broker_ids is None else broker_ids:
            response = self._call(
                "ListGroups",
                body,
                node,
                codes=lambda response: [(response["ErrorCode"], None, "ListGroups")],
            )
            found += snake_keys(response["Groups"])
        return found

    def describe_groups(
        self,
        group_ids: Iterable[str],
        group_coordinator_id: int | None = None,
        include_authorized_operations: bool = False,
    ) -> dict[str, dict[str, Any]]:
        """Describes groups of the classic protocol, with their members (DescribeGroups).

        Args:
            group_ids: Group IDs.
            group_coordinator_id: The node ID of the coordinator of all groups. None: the call
                looks up the coordinators.
            include_authorized_operations: Whether to ask which operations the caller may do.

        Returns:
            {group: {group_id, group_state, protocol_type, protocol_data, members, error,
            authorized_operations}}. The member_metadata of a member is {topics, user_data,
            owned_partitions, generation_id, rack_id}. Its member_assignment is
            {assigned_partitions, user_data}. Partitions are [{topic, partitions}].

        Raises:
            TypeError: If `group_ids` is one str.
        """
        found: dict[str, dict[str, Any]] = {}
        for group_id in names_given(group_ids, "group_ids"):
            group, error = self._described(
                group_id, group_coordinator_id, include_authorized_operations
            )
            group["members"] = [_spelt_out(member) for member in group["members"]]
            found[group_id] = {**group, "error": None if error is None else str(error)}
        return found

    def _described(
        self, group_id: str, group_coordinator_id: int | None, include_authorized_operations: bool
    ) -> tuple[dict[str, Any], BrokerResponseError | None]:
        node = self._coordinator(group_id, group_coordinator_id)
        body: dict[str, Any] = {"Groups": [group_id]}
        if include_authorized_operations:
            body["IncludeAuthorizedOperations"] = True
        try:
            response = self._call(
                "DescribeGroups",
                body,
                node,
                codes=lambda response: (
                    (row["ErrorCode"], row.get("ErrorMessage"), f"group {row['GroupId']!r}")
                    for row in response["Groups"]
                ),
                raise_errors=False,
            )
        except _NOT_OF_A_GROUP:
            raise
        except BrokerResponseError as error:  # of the request for its coordinator
            return {**_UNKNOWN, "group_id": group_id, "members": []}, error
        group = snake_keys(response["Groups"][0])
        code, message = group.pop("error_code"), group.pop("error_message", None)
        group["authorized_operations"] = operation_names(group.get("authorized_operations"))
        for member in group["members"]:
            for field, kind in (("metadata", Subscription), ("assignment", Assignment)):
                name = f"member_{field}"
                member[name] = _decoded(kind, member[name])
        return group, for_code(code)(message or "") if code else None

    def delete_groups(
        self, group_ids: Iterable[str], group_coordinator_id: int | None = None
    ) -> dict[str, str]:
        """Deletes groups that have no members, with their committed offsets (DeleteGroups).

        Returns:
            {group: "OK", or the name of its error class}.

        Raises:
            TypeError: If `group_ids` is one str.
        """
        found = {}
        for group_id in dict.fromkeys(names_given(group_ids, "group_ids")):
            kind = self._deleted(group_id, group_coordinator_id)
            found[group_id] = "OK" if kind is NoError else kind.__name__
        return found

    def _deleted(
        self, group_id: str, group_coordinator_id: int | None
    ) -> type[BrokerResponseError]:
        try:
            response = self._call(
                "DeleteGroups",
                {"GroupsNames": [group_id]},
                self._coordinator(group_id, group_coordinator_id),
                codes=lambda response: (
                    (row["ErrorCode"], None, f"group {row['GroupId']!r}")
                    for row in response["Results"]
                ),
                raise_errors=False,
            )
        except _NOT_OF_A_GROUP:
            raise
        except BrokerResponseError as error:  # of the request for its coordinator
            _log.warning("group %r was not deleted: %s", group_id, error)
            return type(error)
        return for_code(response["Results"][0]["ErrorCode"])

    def remove_group_members(
        self,
        group_id: str,
        members: Iterable[MemberToRemove],
        group_coordinator_id: int | None = None,
    ) -> dict[str | None, type[BrokerResponseError]]:
        """Removes members from a group (LeaveGroup).

        Returns:
            {member ID, or group_instance_id: error class}. NoError means success.

        Raises:
            IncompatibleBrokerVersion: If a member is static, and the broker is older than 2.4.
            TypeError: If an element of `members` is not a MemberToRemove.
        """
        chosen = _members_given(members)
        if not chosen:
            return {}
        node = self._coordinator(group_id, group_coordinator_id)
        if self._client.negotiate("LeaveGroup") < _BATCHED_LEAVE:
            return {each.member_id: self._leave_one(group_id, each, node) for each in chosen}
        body = {
            "GroupId": group_id,
            "Members": [
                {
                    "MemberId": each.member_id or "",
                    "GroupInstanceId": each.group_instance_id,
                    "Reason": each.reason,
                }
                for each in chosen
            ],
        }
        response = self._call(
            "LeaveGroup",
            body,
            node,
            codes=lambda response: [(response["ErrorCode"], None, f"group {group_id!r}")],
        )
        return {
            row["MemberId"] or row["GroupInstanceId"]: for_code(row["ErrorCode"])
            for row in response["Members"]
        }

    def _leave_one(
        self, group_id: str, member: MemberToRemove, node: Any
    ) -> type[BrokerResponseError]:
        if member.group_instance_id is not None or not member.member_id:
            raise IncompatibleBrokerVersion(
                "removing static members needs LeaveGroup 3 (Kafka 2.4). Stop the member and wait"
                " for its session timeout, or upgrade the brokers"
            )
        body = {"GroupId": group_id, "MemberId": member.member_id}
        response = self._call(
            "LeaveGroup",
            body,
            node,
            codes=lambda response: [(response["ErrorCode"], None, f"group {group_id!r}")],
            raise_errors=False,
            max_version=_BATCHED_LEAVE - 1,
        )
        return for_code(response["ErrorCode"])

    # ------------------------------------------------------------------ kafka-python 2's names

    def list_consumer_groups(
        self, broker_ids: Iterable[int] | None = None
    ) -> list[tuple[str, str]]:
        """Returns [(group, protocol type)] (kafka-python 2); see `list_groups`."""
        return [(row["group_id"], row["protocol_type"]) for row in self.list_groups(broker_ids)]

    def describe_consumer_groups(
        self,
        group_ids: Iterable[str],
        group_coordinator_id: int | None = None,
        include_authorized_operations: bool = False,
    ) -> list[GroupInformation]:
        """Returns [GroupInformation] (kafka-python 2); see `describe_groups`.

        Raises:
            BrokerResponseError: The first group's error (GroupIdNotFoundError, ...).
            TypeError: If `group_ids` is one str.
        """
        found = []
        for group_id in names_given(group_ids, "group_ids"):
            group, error = self._described(
                group_id, group_coordinator_id, include_authorized_operations
            )
            if error is not None:
                raise error
            operations = group["authorized_operations"]
            found.append(
                GroupInformation(
                    0,
                    group["group_id"],
                    group["group_state"],
                    group["protocol_type"],
                    group["protocol_data"],
                    [_member_information(each) for each in group["members"]],
                    None if operations is None else set(operations),
                )
            )
        return found

    def delete_consumer_groups(
        self, group_ids: Sequence[str], group_coordinator_id: int | None = None
    ) -> list[tuple[str, type[BrokerResponseError]]]:
        """Deletes groups and returns [(group, error class)] (kafka-python 2).

        Raises:
            TypeError: If `group_ids` is one str.
        """
        return [
            (group_id, self._deleted(group_id, group_coordinator_id))
            for group_id in dict.fromkeys(names_given(group_ids, "group_ids"))
        ]


def _member_information(member: Mapping[str, Any]) -> MemberInformation:
    return MemberInformation(
        member["member_id"],
        member["client_id"],
        member["client_host"],
        member["member_metadata"],
        member["member_assignment"],
    )
