"""Results that kafka-python 3 returns as objects. All other results are dicts.

response.results[0].name    a field by name           response.results[0][0]    by index
response.to_dict()          everything as dicts, with the same names
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

__all__ = [
    "CreatePartitionsResponse",
    "CreatePartitionsTopicResult",
    "ElectLeadersResponse",
    "PartitionResult",
    "ReplicaElectionResult",
]


class CreatePartitionsTopicResult(NamedTuple):
    """A topic's row of a CreatePartitionsResponse."""

    name: str
    error_code: int
    error_message: str | None

    def to_dict(self) -> dict[str, Any]:
        """Returns {name, error_code, error_message}."""
        return self._asdict()


class CreatePartitionsResponse(NamedTuple):
    """The result of `create_partitions`."""

    throttle_time_ms: int
    results: list[CreatePartitionsTopicResult]

    @classmethod
    def of(cls, response: Mapping[str, Any]) -> Self:
        """Converts the response of a broker."""
        rows = [
            CreatePartitionsTopicResult(row["Name"], row["ErrorCode"], row["ErrorMessage"])
            for row in response["Results"]
        ]
        return cls(response.get("ThrottleTimeMs", 0), rows)

    def to_dict(self) -> dict[str, Any]:
        """Returns {throttle_time_ms, results: [{name, error_code, error_message}]}."""
        return self._asdict() | {"results": [each.to_dict() for each in self.results]}


class PartitionResult(NamedTuple):
    """A partition's row of an ElectLeadersResponse."""

    partition_id: int
    error_code: int
    error_message: str | None

    def to_dict(self) -> dict[str, Any]:
        """Returns {partition_id, error_code, error_message}."""
        return self._asdict()


class ReplicaElectionResult(NamedTuple):
    """A topic's row of an ElectLeadersResponse."""

    topic: str
    partition_result: list[PartitionResult]

    def to_dict(self) -> dict[str, Any]:
        """Returns {topic, partition_result: [{partition_id, error_code, error_message}]}."""
        rows = [each.to_dict() for each in self.partition_result]
        return self._asdict() | {"partition_result": rows}


class ElectLeadersResponse(NamedTuple):
    """The result of `elect_leaders`. Brokers before 2.4 send no `error_code`: it is then 0."""

    throttle_time_ms: int
    error_code: int
    replica_election_results: list[ReplicaElectionResult]

    @classmethod
    def of(cls, response: Mapping[str, Any]) -> Self:
        """Converts the response of a broker."""
        rows = [
            ReplicaElectionResult(
                topic["Topic"],
                [
                    PartitionResult(row["PartitionId"], row["ErrorCode"], row["ErrorMessage"])
                    for row in topic["PartitionResult"]
                ],
            )
            for topic in response["ReplicaElectionResults"]
        ]
        return cls(response.get("ThrottleTimeMs", 0), response.get("ErrorCode", 0), rows)

    def to_dict(self) -> dict[str, Any]:
        """Returns {throttle_time_ms, error_code, replica_election_results: [...]}."""
        rows = [each.to_dict() for each in self.replica_election_results]
        return self._asdict() | {"replica_election_results": rows}
