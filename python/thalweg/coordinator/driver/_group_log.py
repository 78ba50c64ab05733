"""Logs the events of a membership: joins, assignments, revoked partitions, leaving."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from thalweg.coordinator.steps import Assign, Body, Lose, MemberAction, Revoke, Send
from thalweg.structs import ConsumerGroupMetadata, TopicPartition

__all__ = ["GroupLog"]

log = logging.getLogger("thalweg.coordinator")

# How many partitions a line names.
_NAMED_MAX: Final = 5


class GroupLog:
    """Writes at level INFO.

    Args:
        config: The consumer's options.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._who = f"consumer {config['client_id']} of group {config['group_id']}"

    def acts(self, action: MemberAction, group: ConsumerGroupMetadata) -> None:
        """Logs an action that the member is about to do."""
        if not log.isEnabledFor(logging.INFO):
            return
        match action:
            case Assign(assigned, added):
                self._say(group, f"is assigned {_some(assigned)}; added: {_some(added)}")
            case Revoke(partitions) if partitions:
                self._say(group, f"gives up {_some(partitions)}")
            case Lose(partitions):
                self._say(group, f"has lost {_some(partitions)}")
            case Send(leaves=True):
                log.info("%s, member %s: leaves the group", self._who, _leaver(action.body))

    def answered(self, action: Send, body: Mapping[str, Any]) -> None:
        """Logs an answer of the coordinator."""
        if body.get("ErrorCode") or not log.isEnabledFor(logging.INFO):
            return
        if action.api == "JoinGroup":
            member, generation = body["MemberId"], body["GenerationId"]
            count = len(body["Members"])
            role = f", as the leader of {count}" if body["Leader"] == member else ""
            log.info("%s, member %s: joined generation %d%s", self._who, member, generation, role)
        elif isinstance(action.body, Mapping) and action.body.get("MemberEpoch") == 0:
            member = body.get("MemberId") or action.body["MemberId"]
            log.info("%s, member %s: joined, epoch %d", self._who, member, body["MemberEpoch"])

    def _say(self, group: ConsumerGroupMetadata, what: str) -> None:
        member, number = group.member_id, group.generation_id
        log.info("%s, member %s, generation %d: %s", self._who, member, number, what)


def _leaver(body: Body) -> str:
    """Returns the member id in a LeaveGroup or ConsumerGroupHeartbeat request."""
    newest = body[0][1]["Members"][0] if isinstance(body, list) else body
    return str(newest["MemberId"])


def _some(partitions: Sequence[TopicPartition]) -> str:
    """Returns the number of partitions, and the names of the first ones."""
    if not partitions:
        return "no partitions"
    names = [f"{topic}-{number}" for topic, number in partitions[:_NAMED_MAX]]
    if len(partitions) > _NAMED_MAX:
        names.append("...")
    plural = "" if len(partitions) == 1 else "s"
    return f"{len(partitions)} partition{plural} ({', '.join(names)})"
