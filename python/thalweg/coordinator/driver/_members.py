"""Creates the state machine of a member from the consumer's options."""

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from thalweg._uuids import random_base64
from thalweg.coordinator.assignors.abstract import AbstractPartitionAssignor
from thalweg.coordinator.assignors.registry import common_protocol, resolved
from thalweg.coordinator.classic.member import ClassicMember
from thalweg.coordinator.classic.requests import MemberSettings
from thalweg.coordinator.kip848.member import ConsumerMember, ConsumerMemberSettings

__all__ = ["Member", "chosen_assignors", "is_built_in", "make_member"]

Member = ClassicMember | ConsumerMember
_FIELDS = MemberSettings.__dataclass_fields__


def chosen_assignors(strategy: Iterable[Any]) -> tuple[AbstractPartitionAssignor, ...]:
    """Returns the assignors of a classic member, checked.

    Args:
        strategy: The value of `partition_assignment_strategy`.

    Raises:
        KafkaConfigurationError: If it is wrong.
    """
    assignors = resolved(strategy)
    common_protocol(assignors)
    return assignors


def is_built_in(assignor: AbstractPartitionAssignor) -> bool:
    """Whether the assignor runs no code of the user."""
    return type(assignor).__module__.startswith("thalweg.")


def make_member(
    config: Mapping[str, Any], assignors: Sequence[AbstractPartitionAssignor]
) -> Member:
    """Creates a member that has not joined yet, for the protocol of `group_protocol`."""
    if config["group_protocol"] == "consumer":
        return ConsumerMember(
            ConsumerMemberSettings(
                group_id=config["group_id"],
                member_id=random_base64(),
                instance_id=config["group_instance_id"],
                rack_id=config["client_rack"] or None,
                server_assignor=config["group_remote_assignor"],
                max_poll_interval_ms=config["max_poll_interval_ms"],
                rebalance_timeout_ms=config["rebalance_timeout_ms"],
                request_timeout_ms=config["request_timeout_ms"],
                retry_backoff_ms=config["retry_backoff_ms"],
                retry_backoff_max_ms=config["retry_backoff_max_ms"],
            ),
            jitter,
        )
    settings = MemberSettings(**{name: config[name] for name in _FIELDS})
    return ClassicMember(settings, assignors, jitter)


def jitter() -> float:
    return random.uniform(0.8, 1.2)
