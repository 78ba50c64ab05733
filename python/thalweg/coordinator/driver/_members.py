"""The state machine of a consumer's membership, made out of its options."""

import random
from collections.abc import Mapping
from typing import Any

from thalweg.coordinator.assignors.registry import resolved
from thalweg.coordinator.member import ClassicMember
from thalweg.coordinator.member_requests import MemberSettings

__all__ = ["make_member"]

_FIELDS = MemberSettings.__dataclass_fields__


def make_member(config: Mapping[str, Any]) -> ClassicMember:
    """A member that has not joined yet."""
    settings = MemberSettings(**{name: config[name] for name in _FIELDS})
    strategy = config["partition_assignment_strategy"]
    return ClassicMember(settings, resolved(strategy), _jitter)


def _jitter() -> float:
    return random.uniform(0.8, 1.2)
