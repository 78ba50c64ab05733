"""Converts Kafka's names: the fields of responses to snake_case, many spellings to enum members."""

import re
from enum import Enum
from typing import Any, Final, Self, TypeVar

from thalweg._uuids import to_uuid

__all__ = ["FlexibleEnum", "member_of", "snake_case", "snake_keys"]

_Member = TypeVar("_Member", bound=Enum)

_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def snake_case(name: str) -> str:
    """Converts `TopicAuthorizedOperations` to `topic_authorized_operations`."""
    return _HUMP.sub("_", name).lower()


def snake_keys(value: Any) -> Any:
    """Converts all keys of a response to snake_case and ids to UUIDs. Drops throttle times."""
    if isinstance(value, list):
        return [snake_keys(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {snake_case(name): snake_keys(each) for name, each in value.items()}
    found.pop("throttle_time_ms", None)
    for name in ("topic_id", "replica_directory_id"):
        if isinstance(found.get(name), str):
            found[name] = to_uuid(found[name])
    return found


def member_of(kind: type[_Member], value: object) -> _Member:
    """Returns the enum member for a value of a response. UNKNOWN: this client does not know it."""
    try:
        return kind(value)
    except ValueError:
        return kind["UNKNOWN"]


class FlexibleEnum:
    """Mixin for enums that find their members by several spellings.

    A spelling is a member, a value, or a name in any case, also with `-` in place of `_`.
    """

    @classmethod
    def build_from(cls, value: object) -> Self:
        """Returns the member for a spelling.

        Raises:
            ValueError: If no member matches.
        """
        members: Any = cls
        try:
            found: Self = members(value)
        except ValueError:
            try:
                found = members[str(value).strip().upper().replace("-", "_")]
            except KeyError:
                names = ", ".join(each.name for each in members if each.name != "UNKNOWN")
                raise ValueError(
                    f"Unrecognized {cls.__name__}: {value}. Use one of {names}"
                ) from None
        return found

    @classmethod
    def value_for(cls, value: object) -> Any:
        """Returns the value of the member for a spelling; see `build_from`."""
        return getattr(cls.build_from(value), "value")  # noqa: B009 (a mixin has none)
