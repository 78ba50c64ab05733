"""Converts the values of `partition_assignment_strategy` to assignors.

"range"                                               the names in the group protocol
"org.apache.kafka.clients.consumer.RangeAssignor"     Java's names
"package.module.Class", a class, an instance          the user's own assignor
"""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from thalweg.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from thalweg.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from thalweg.coordinator.assignors.range import RangePartitionAssignor
from thalweg.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from thalweg.coordinator.assignors.sticky import StickyPartitionAssignor
from thalweg.errors import KafkaConfigurationError

_BUILT_IN: Final[Mapping[str, type[AbstractPartitionAssignor]]] = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
_JAVA_PACKAGE: Final = "org.apache.kafka.clients.consumer."
_JAVA: Final[Mapping[str, str]] = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_OPTION: Final = "partition_assignment_strategy"


def by_name(name: str) -> AbstractPartitionAssignor:
    """Creates an assignor.

    Args:
        name: The name of a built-in assignor, its Java class name, or the path of a class.

    Raises:
        KafkaConfigurationError: If there is no such assignor, or the class cannot be imported.
    """
    short = _JAVA.get(name.removeprefix(_JAVA_PACKAGE), name)
    if short in _BUILT_IN:
        return _BUILT_IN[short]()
    module, _, attribute = name.rpartition(".")
    if not module:
        known = ", ".join(map(repr, _BUILT_IN))
        raise _wrong(
            f"names {name!r}, which is not an assignor: use one of {known}, or the import path of"
            " a class"
        )
    try:
        return _checked(getattr(importlib.import_module(module), attribute))
    except (ImportError, AttributeError) as wrong:
        raise _wrong(f"names {name!r}, which cannot be imported: {wrong}") from wrong


def resolved(strategy: Iterable[Any]) -> tuple[AbstractPartitionAssignor, ...]:
    """Returns the assignors for the values of the option, the preferred one first.

    Args:
        strategy: Names, classes and instances.

    Raises:
        KafkaConfigurationError: If values are not assignors (the error names all of them), if two
            assignors have the same name, if there is none, or if they have no rebalance protocol in
            common.
    """
    found: list[AbstractPartitionAssignor] = []
    problems: list[str] = []
    for each in strategy:
        try:
            found.append(by_name(each) if isinstance(each, str) else _checked(each))
        except KafkaConfigurationError as wrong:
            problems.extend(wrong.problems)
    if problems:
        raise KafkaConfigurationError("; ".join(problems), problems=problems)
    names = [each.name for each in found]
    if not found:
        raise _wrong("is empty: a member needs at least one assignor")
    if len(set(names)) < len(names):
        raise _wrong(f"has two assignors with the same name: {', '.join(names)}")
    common_protocol(found)
    return tuple(found)


def _checked(given: Any) -> AbstractPartitionAssignor:
    if isinstance(given, type) and issubclass(given, AbstractPartitionAssignor):
        given = given()
    if isinstance(given, AbstractPartitionAssignor):
        return given
    raise _wrong(
        f"contains {given!r}, which is neither an AbstractPartitionAssignor nor the name of an"
        " assignor"
    )


def _wrong(rest: str) -> KafkaConfigurationError:
    problem = f"{_OPTION} {rest}"
    return KafkaConfigurationError(problem, problems=[problem])


def is_built_in(assignor: AbstractPartitionAssignor) -> bool:
    """Whether the assignor runs no code of the user."""
    return type(assignor).__module__.startswith("thalweg.")


def common_protocol(assignors: Sequence[AbstractPartitionAssignor]) -> RebalanceProtocol:
    """Returns the most advanced rebalance protocol that all assignors of a consumer support.

    So `range, cooperative-sticky` is eager. Remove the first one to make the group cooperative.

    Raises:
        KafkaConfigurationError: If they have no protocol in common.
    """
    common = set(RebalanceProtocol)
    for each in assignors:
        common.intersection_update(each.supported_protocols())
    if not common:
        names = ", ".join(each.name for each in assignors)
        raise _wrong(f"has assignors without a common rebalance protocol: {names}")
    return RebalanceProtocol(max(common))
