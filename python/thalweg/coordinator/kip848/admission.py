"""Checks the sender of a heartbeat in KIP-848's protocol: member id, instance id and epoch.

    dynamic   its member id is known, or it joins
    static    it owns its instance id, or that is free, or its owner has left for a while
    both      its epoch is the current one; or the one before, if the response with the newer one
              may be lost; or 0, to join again

It changes nothing. The texts are those of Kafka 4.3.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from thalweg.coordinator.kip848.requests import JOIN, LEAVE_FOR_A_WHILE, Refusal, owned
from thalweg.coordinator.kip848.roster import ConsumerGroupMember, ConsumerRoster
from thalweg.errors import (
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupMaxSizeReachedError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
)

__all__ = ["check_size", "find", "known"]


def check_size(roster: ConsumerRoster, member_id: str, size_max: int) -> None:
    """Refuses a new member if the group is full."""
    if member_id not in roster.members and len(roster.members) >= size_max:
        text = f"The consumer group has reached its maximum capacity of {size_max} members."
        raise Refusal(GroupMaxSizeReachedError, text)


def find(
    group_id: str, roster: ConsumerRoster, body: Mapping[str, Any]
) -> ConsumerGroupMember | None:
    """Returns the member that sent a heartbeat, or None for a new one. Raises Refusal.

    For a returning static member, it is its old entry with the new member id.
    """
    if body["MemberEpoch"] != JOIN:
        member = known(group_id, roster, body)
        _check_epoch(member, body)
        return member
    member_id, instance_id = body["MemberId"], body["InstanceId"]
    holder = None if instance_id is None else roster.static(instance_id)
    if holder is None:
        return roster.members.get(member_id)
    if holder.current.epoch == LEAVE_FOR_A_WHILE:
        return replace(holder, member_id=member_id, current=replace(holder.current, epoch=JOIN))
    if holder.member_id != member_id:
        text = (
            f"Static member {member_id} with instance id {instance_id} cannot join the group"
            f" because the instance id is owned by {holder.member_id} member."
        )
        raise Refusal(UnreleasedInstanceIdError, text)
    return holder


def known(group_id: str, roster: ConsumerRoster, body: Mapping[str, Any]) -> ConsumerGroupMember:
    """Returns the member with this member id and instance id. Raises Refusal."""
    member_id, instance_id = body["MemberId"], body["InstanceId"]
    if instance_id is None:
        if member_id not in roster.members:
            text = f"Member {member_id} is not a member of group {group_id}."
            raise Refusal(UnknownMemberIdError, text)
        return roster.members[member_id]
    holder = roster.static(instance_id)
    if holder is None:
        raise Refusal(UnknownMemberIdError, f"Instance id {instance_id} is unknown.")
    if holder.member_id != member_id:
        text = (
            f"Static member {member_id} with instance id {instance_id} was fenced by member"
            f" {holder.member_id}."
        )
        raise Refusal(FencedInstanceIdError, text)
    return holder


def _check_epoch(member: ConsumerGroupMember, body: Mapping[str, Any]) -> None:
    epoch, known_epoch, reported = body["MemberEpoch"], member.current.epoch, owned(body)
    if epoch == known_epoch:
        return
    # The old epoch is acceptable if the member reports no more than its assigned partitions.
    late = (
        epoch == member.current.previous_epoch
        and reported is not None
        and reported <= member.current.assigned
    )
    if epoch > known_epoch or not late:
        size = "greater" if epoch > known_epoch else "smaller"
        text = (
            f"The consumer group member has a {size} member epoch ({epoch}) than the one known by"
            f" the group coordinator ({known_epoch}). The member must abandon all its partitions"
            " and rejoin."
        )
        raise Refusal(FencedMemberEpochError, text)
