"""Between Kafka's field names and Python's: answers in snake_case, enums from many spellings."""

import re
from typing import Any, Final, Self

from thalweg._uuids import to_uuid

__all__ = ["FlexibleEnum", "snake_case", "snake_keys"]

_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def snake_case(name: str) -> str:
    """`TopicAuthorizedOperations` -> `topic_authorized_operations`."""
    return _HUMP.sub("_", name).lower()


def snake_keys(value: Any) -> Any:
    """An answer with snake_case keys throughout; ids as UUIDs; throttle times left out."""
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


class FlexibleEnum:
    """Mixin of enums whose members are found by member, value, or name in any case, - for _."""

    @classmethod
    def build_from(cls, value: object) -> Self:
        """The member meant.

        Raises:
            ValueError: If there is none.
        """
        members: Any = cls
        try:
            found: Self = members(value)
        except ValueError:
            try:
                found = members[str(value).strip().upper().replace("-", "_")]
            except KeyError:
                raise ValueError(f"Unrecognized {cls.__name__}: {value}") from None
        return found

    @classmethod
    def value_for(cls, value: object) -> Any:
        """The value of the member meant; see build_from."""
        return getattr(cls.build_from(value), "value")  # noqa: B009 (a mixin has none)
