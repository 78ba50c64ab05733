"""Partitions: add them, delete records, look up offsets, elect leaders, move replicas."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from thalweg._client.arguments import by_partition, mapping_given, names_given, shown
from thalweg.admin.acls import operation_names
from thalweg.admin.naming import snake_keys
from thalweg.admin.new_partitions import EXPECTED, new_partitions
from thalweg.admin.offsets import IsolationLevel, OffsetSpec
from thalweg.admin.requests import Again, Requests, first_error
from thalweg.admin.responses import CreatePartitionsResponse, ElectLeadersResponse
from thalweg.errors import (
    BrokerResponseError,
    ElectionNotNeededError,
    IllegalArgumentError,
    NoError,
    RetriableError,
    for_code,
)
from thalweg.structs import OffsetAndTimestamp, TopicPartition

__all__ = ["PartitionRequests", "by_topic"]

# The least version of ListOffsets for each named offset (KIP-734, KIP-405, KIP-1005).
_SPEC_VERSIONS: dict[int, int] = {
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
}


def by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Groups partitions by topic: {topic: [partition]}."""
    found: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        found[topic].append(partition)
    return found


class PartitionRequests(Requests):
    """Calls about partitions."""

    def create_partitions(
        self,
        topic_partitions: Mapping[str, Any],
        timeout_ms: float | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
    ) -> CreatePartitionsResponse:
        """Adds partitions to topics (CreatePartitions).

        Args:
            topic_partitions: {topic: total count}. Instead of the count, you may give a
                NewPartitions, or {"count": int, "assignments": [[node IDs]]}.
            timeout_ms: How long the controller may take. None: request_timeout_ms.
            validate_only: True: only checks the request, and changes nothing.
            raise_errors: True: raises the first topic's error. False: see error_code.

        Returns:
            An object with `results`: rows of name, error_code and error_message.

        Raises:
            InvalidPartitionsError: If the topic already has this number of partitions, or more.
            BrokerResponseError: Any other error of CreatePartitions.
            TypeError: If `topic_partitions` is not such a mapping.
        """
        mapping_given(topic_partitions, "topic_partitions", EXPECTED)
        response = self._call(
            "CreatePartitions",
            {
                "Topics": [new_partitions(*each) for each in topic_partitions.items()],
                "TimeoutMs": self._timeout(timeout_ms),
                "ValidateOnly": validate_only,
            },
            "controller",
            codes=lambda response: (
                (row["ErrorCode"], row["ErrorMessage"], f"topic {row['Name']!r}")
                for row in response["Results"]
            ),
            raise_errors=raise_errors,
        )
        return CreatePartitionsResponse.of(response)

    def delete_records(
        self,
        records_to_delete: Mapping[TopicPartition, int],
        timeout_ms: float | None = None,
        partition_leader_id: int | None = None,
    ) -> dict[TopicPartition, dict[str, Any]]:
        """Deletes the records before an offset (DeleteRecords, KIP-107).

        Args:
            records_to_delete: {TopicPartition: first offset to keep}. -1 deletes all records.
            timeout_ms: How long to retry, for example while a partition has no leader. None:
                request_timeout_ms.
            partition_leader_id: The node to ask, instead of the leader of each partition.

        Returns:
            {TopicPartition: {partition_index, low_watermark, error_code}}.

        Raises:
            BrokerResponseError: If a partition fails.
        """
        expected = "{TopicPartition: offset}"
        records_to_delete = by_partition(records_to_delete, "records_to_delete", expected)
        found: dict[TopicPartition, dict[str, Any]] = {}
        errors: list[tuple[int, str | None, str]] = []

        def ask(leader: int, theirs: list[TopicPartition], limit_ms: int) -> Again:
            again = {}
            body = {
                "Topics": [
                    {
                        "Name": topic,
                        "Partitions": [
                            {
                                "PartitionIndex": partition,
                                "Offset": records_to_delete[TopicPartition(topic, partition)],
                            }
                            for partition in partitions
                        ],
                    }
                    for topic, partitions in by_topic(theirs).items()
                ],
                "TimeoutMs": limit_ms,
            }
            response = self._call("DeleteRecords", body, leader, timeout_ms=limit_ms)
            for topic in response["Topics"]:
                for row in topic["Partitions"]:
                    where = TopicPartition(topic["Name"], row["PartitionIndex"])
                    kind = for_code(row["ErrorCode"])
                    if issubclass(kind, RetriableError):
                        again[where] = kind
                        continue
                    found[where] = snake_keys(row)
                    errors.append((row["ErrorCode"], None, f"{where.topic}-{where.partition}"))
            return again

        self._by_leader(records_to_delete, ask, timeout_ms, partition_leader_id)
        error = first_error(errors)
        if error is not None:
            raise error
        return found

    def list_partition_offsets(
        self,
        topic_partition_specs: Mapping[TopicPartition, OffsetSpec | int],
        isolation_level: IsolationLevel | int | str = IsolationLevel.READ_UNCOMMITTED,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Looks up offsets at the leaders (ListOffsets).

        Args:
            topic_partition_specs: {TopicPartition: OffsetSpec, or a timestamp in Unix ms}.
            isolation_level: With READ_COMMITTED, LATEST is the last stable offset.
            timeout_ms: How long to retry, for example while a partition has no leader. None:
                request_timeout_ms.

        Returns:
            {TopicPartition: OffsetAndTimestamp}. The offset is -1 if there is no such record.

        Raises:
            UnknownTopicOrPartitionError: If a partition does not exist.
            UnsupportedVersionError: If a broker is too old for an OffsetSpec.
            TypeError: If a value is neither an OffsetSpec nor an int.
        """
        level = IsolationLevel.build_from(isolation_level)
        expected = "{TopicPartition: OffsetSpec or int}"
        specs = by_partition(topic_partition_specs, "topic_partition_specs", expected)
        for where, spec in specs.items():
            if not isinstance(spec, int):
                raise TypeError(
                    f"the value of {where.topic}-{where.partition} must be an OffsetSpec or an int,"
                    f" got {shown(spec)}"
                )
        found: dict[TopicPartition, OffsetAndTimestamp] = {}

        def ask(leader: int, theirs: list[TopicPartition], limit_ms: int) -> Again:
            again = {}
            least = max(
                (_SPEC_VERSIONS.get(specs[each], 0) for each in theirs),
                default=0,
            )
            version = None  # the request chooses it, within the limit
            if least:
                version = max(self._client.negotiate("ListOffsets", leader), least)
            body = {
                "ReplicaId": -1,
                "IsolationLevel": int(level),
                "Topics": [
                    {
                        "Name": topic,
                        "Partitions": [
                            {
                                "PartitionIndex": partition,
                                "Timestamp": int(specs[TopicPartition(topic, partition)]),
                            }
                            for partition in partitions
                        ],
                    }
                    for topic, partitions in by_topic(theirs).items()
                ],
            }
            response = self._call("ListOffsets", body, leader, version=version, timeout_ms=limit_ms)
            for topic in response["Topics"]:
                for row in topic["Partitions"]:
                    where = TopicPartition(topic["Name"], row["PartitionIndex"])
                    kind = for_code(row["ErrorCode"])
                    if issubclass(kind, RetriableError):
                        again[where] = kind
                    elif kind is not NoError:
                        name = f"{where.topic}-{where.partition}"
                        raise kind(f"looking up the offset of {name}: {kind.description}")
                    else:
                        found[where] = OffsetAndTimestamp(
                            row["Offset"], row["Timestamp"], row.get("LeaderEpoch", -1)
                        )
            return again

        self._by_leader(specs, ask, timeout_ms)
        return found

    def describe_topic_partitions(
        self,
        topics: Iterable[str],
        response_partition_limit: int = 2000,
        cursor: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Describes topics and their partitions, page by page (DescribeTopicPartitions, KIP-966).

        Args:
            topics: Topic names.
            response_partition_limit: The maximum number of partitions in one response.
            cursor: The next_cursor of the previous page. None: the first page.

        Returns:
            {"topics": [...], "next_cursor": {topic_name, partition_index}, or None after the last
            page}. Partitions also have eligible_leader_replicas and last_known_elr.

        Raises:
            IncompatibleBrokerVersion: On brokers before 3.7.
            TypeError: If `topics` is one str.
        """
        where = None
        if cursor is not None:
            where = {"TopicName": cursor["topic_name"], "PartitionIndex": cursor["partition_index"]}
        response = self._call(
            "DescribeTopicPartitions",
            {
                "Topics": [{"Name": name} for name in sorted(names_given(topics, "topics"))],
                "ResponsePartitionLimit": response_partition_limit,
                "Cursor": where,
            },
        )
        found = snake_keys(response)
        for topic in found["topics"]:
            topic["topic_authorized_operations"] = operation_names(
                topic["topic_authorized_operations"]
            )
        return {"topics": found["topics"], "next_cursor": found["next_cursor"]}

    def _chosen_partitions(
        self, given: Any, *, must_exist: bool = False
    ) -> list[dict[str, Any]] | None:
        """Returns the request's partitions by topic.

        Args:
            given: {topic: [partitions]}, [topic] for all partitions of each, [TopicPartition], or
                None.
            must_exist: Whether to raise an error if a topic of [topic] does not exist, or if the
                user may not describe it.
        """
        if given is None:
            return None
        if not isinstance(given, Mapping):
            given = names_given(given, "topic_partitions", (str, tuple))
            if given and all(isinstance(each, str) for each in given):
                response = self._metadata(given)
                rows = (
                    (row["ErrorCode"], None, f"topic {row['Name']!r}") for row in response["Topics"]
                )
                error = first_error(rows)
                if error is not None and must_exist:
                    raise error
                given = {
                    topic["Name"]: [row["PartitionIndex"] for row in topic["Partitions"]]
                    for topic in response["Topics"]
                }
            else:
                given = by_topic(given)
        return [{"Topic": topic, "Partitions": list(ids)} for topic, ids in given.items()]

    def elect_leaders(
        self,
        election_type: int,
        topic_partitions: Any = None,
        timeout_ms: float | None = None,
        raise_errors: bool = True,
    ) -> ElectLeadersResponse:
        """Starts leader elections (ElectLeaders, KIP-460).

        Args:
            election_type: 0 elects the preferred replica. 1 is an unclean election: it elects any
                live replica, and may lose records.
            topic_partitions: {topic: [partitions]}, [topics], or None for all partitions.
            timeout_ms: How long the controller may take. None: request_timeout_ms.
            raise_errors: True: raises the first error. ElectionNotNeededError is not an error.

        Returns:
            An object with error_code and `replica_election_results`: rows of topic and
            partition_result, which has rows of partition_id, error_code and error_message.

        Raises:
            IllegalArgumentError: If `election_type` is neither 0 nor 1.
            UnknownTopicOrPartitionError: If a topic that you name does not exist.
            BrokerResponseError: The first other error, unless raise_errors is False.
        """
        if election_type not in (0, 1):
            raise IllegalArgumentError(
                "election_type must be 0 (the preferred replica) or 1 (any live replica),"
                f" not {election_type!r}"
            )

        def codes(response: dict[str, Any]) -> list[tuple[int, str | None, str]]:
            rows: list[tuple[int, str | None, str]] = [
                (response.get("ErrorCode", 0), None, "ElectLeaders")
            ]
            for topic in response["ReplicaElectionResults"]:
                for row in topic["PartitionResult"]:
                    about = f"{topic['Topic']}-{row['PartitionId']}"
                    rows.append((row["ErrorCode"], row["ErrorMessage"], about))
            return rows

        response = self._call(
            "ElectLeaders",
            {
                "ElectionType": int(election_type),
                "TopicPartitions": self._chosen_partitions(topic_partitions, must_exist=True),
                "TimeoutMs": self._timeout(timeout_ms),
            },
            "controller",
            codes=codes,
            raise_errors=raise_errors,
            ignored=(ElectionNotNeededError,),
        )
        return ElectLeadersResponse.of(response)

    def perform_leader_election(
        self, election_type: int, topic_partitions: Any = None, timeout_ms: float | None = None
    ) -> ElectLeadersResponse:
        """Calls `elect_leaders` (kafka-python 2's name)."""
        return self.elect_leaders(election_type, topic_partitions, timeout_ms)

    def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Sequence[int] | None],
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, type[BrokerResponseError] | None]:
        """Moves replicas to other brokers (AlterPartitionReassignments, KIP-455).

        Args:
            reassignments: {TopicPartition: [node IDs]}. None instead of the list cancels a move.
            timeout_ms: How long the controller may take. None: request_timeout_ms.

        Returns:
            {TopicPartition: None, or its error class}.

        Raises:
            BrokerResponseError: If the controller refuses the complete request.
            ValueError: If a list is empty, or an element is not an int.
        """
        topics: dict[str, list[dict[str, Any]]] = defaultdict(list)
        expected = "{TopicPartition: [node ID] or None}"
        for where, nodes in by_partition(reassignments, "reassignments", expected).items():
            if nodes is not None and not (nodes and all(isinstance(each, int) for each in nodes)):
                raise ValueError(
                    f"the replicas of {where.topic}-{where.partition} must be a list of one or"
                    " more node IDs. To cancel the reassignment, give None"
                )
            topics[where[0]].append(
                {"PartitionIndex": where[1], "Replicas": None if nodes is None else list(nodes)}
            )
        response = self._call(
            "AlterPartitionReassignments",
            {
                "TimeoutMs": self._timeout(timeout_ms),
                "Topics": [{"Name": name, "Partitions": rows} for name, rows in topics.items()],
            },
            "controller",
            codes=lambda response: [
                (response["ErrorCode"], response["ErrorMessage"], "AlterPartitionReassignments")
            ],
        )
        return {
            TopicPartition(topic["Name"], row["PartitionIndex"]): for_code(row["ErrorCode"])
            if row["ErrorCode"]
            else None
            for topic in response["Responses"]
            for row in topic["Partitions"]
        }

    def list_partition_reassignments(
        self, topic_partitions: Any = None, timeout_ms: float | None = None
    ) -> dict[TopicPartition, dict[str, list[int]]]:
        """Lists the reassignments in progress (ListPartitionReassignments, KIP-455).

        Args:
            topic_partitions: {topic: [partitions]}, [TopicPartition], or None for all partitions.
            timeout_ms: How long the controller may take. None: request_timeout_ms.

        Returns:
            {TopicPartition: {replicas, adding_replicas, removing_replicas}}.
        """
        chosen = self._chosen_partitions(topic_partitions)
        response = self._call(
            "ListPartitionReassignments",
            {
                "TimeoutMs": self._timeout(timeout_ms),
                "Topics": None
                if chosen is None
                else [
                    {"Name": each["Topic"], "PartitionIndexes": each["Partitions"]}
                    for each in chosen
                ],
            },
            "controller",
            codes=lambda response: [
                (response["ErrorCode"], response["ErrorMessage"], "ListPartitionReassignments")
            ],
        )
        return {
            TopicPartition(topic["Name"], row["PartitionIndex"]): {
                "replicas": row["Replicas"],
                "adding_replicas": row["AddingReplicas"],
                "removing_replicas": row["RemovingReplicas"],
            }
            for topic in response["Topics"]
            for row in topic["Partitions"]
        }
