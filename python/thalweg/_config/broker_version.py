"""Infers a broker's version from the versions of its APIs.

A broker does not report its own version. Each row of the table has an API version that is new in a
version of Kafka, as in kafka-python. The first row that a broker supports gives its version.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

__all__ = ["ApiVersions", "inferred"]

ApiVersions: TypeAlias = Mapping[str, tuple[int, int]]

_FIRST_WITH: Final = (
    ((4, 3), "DescribeLogDirs", 5),
    ((4, 2), "ListOffsets", 11),
    ((4, 1), "Produce", 13),
    ((4, 0), "ListOffsets", 10),
    ((3, 9), "Fetch", 17),
    ((3, 8), "Produce", 11),
    ((3, 7), "Fetch", 16),
    ((3, 6), "AddPartitionsToTxn", 4),
    ((3, 5), "Fetch", 15),
    ((3, 4), "LeaderAndIsr", 7),
    ((3, 3), "DescribeAcls", 3),
    ((3, 2), "JoinGroup", 9),
    ((3, 1), "Fetch", 13),
    ((3, 0), "ListOffsets", 7),
    ((2, 8), "Produce", 9),
    ((2, 7), "Fetch", 12),
    ((2, 6), "DescribeClientQuotas", 0),
    ((2, 5), "DescribeAcls", 2),
    ((2, 4), "Produce", 8),
    ((2, 3), "Fetch", 11),
    ((2, 2), "ListOffsets", 5),
    ((2, 1), "Fetch", 10),
    ((2, 0), "Fetch", 8),
    ((1, 1), "Fetch", 7),
    ((1, 0), "Metadata", 5),
    ((0, 11), "Metadata", 4),
    ((0, 10, 2), "OffsetFetch", 2),
    ((0, 10, 1), "Metadata", 2),
)
# The first version that supports ApiVersions.
_OLDEST: Final = (0, 10, 0)


def inferred(api_versions: ApiVersions) -> tuple[int, ...]:
    """Returns the broker's version, as kafka-python infers it.

    Args:
        api_versions: {API name: (min version, max version)}.
    """
    for broker_version, api, version in _FIRST_WITH:
        least, highest = api_versions.get(api, (0, -1))
        if least <= version <= highest:
            return broker_version
    return _OLDEST
