"""Topics: list, describe, create, delete."""

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from thalweg._client.arguments import duration_given, names_given, shown
from thalweg._config.secret import revealed
from thalweg._uuids import to_base64
from thalweg.admin.acls import operation_names
from thalweg.admin.configs import describe_entry
from thalweg.admin.naming import snake_keys
from thalweg.admin.requests import Requests
from thalweg.errors import (
    KafkaTimeoutError,
    RetriableError,
    UnsupportedVersionError,
    for_code,
)

__all__ = ["NewTopic", "TopicRequests"]

_ID_DESCRIBE_VERSION = 12  # Metadata by topic id
_OPERATIONS_VERSION = 8  # Metadata with the authorized operations (KIP-430)
_ID_DELETE_VERSION = 6  # DeleteTopics by topic id
_POLL_SECONDS = 0.1


class NewTopic:
    """A topic for `create_topics`.

    Args:
        name: The topic's name.
        num_partitions: The number of partitions. -1: the brokers' default (KIP-464).
        replication_factor: The number of replicas of each partition. -1: the brokers' default.
        replica_assignments: {partition: [node IDs]}, instead of the two numbers.
        topic_configs: Topic options, as {option: value}.
    """

    def __init__(
        self,
        name: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        replica_assignments: Mapping[int, Sequence[int]] | None = None,
        topic_configs: Mapping[str, object] | None = None,
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.replica_assignments = dict(replica_assignments or {})
        self.topic_configs = dict(topic_configs or {})

    def __repr__(self) -> str:
        return (
            f"NewTopic({self.name!r}, num_partitions={self.num_partitions},"
            f" replication_factor={self.replication_factor})"
        )


def _named(name: Any) -> NewTopic:
    if not isinstance(name, str):
        raise TypeError(f"new_topics must contain names or NewTopics, got {shown(name)}")
    return NewTopic(name)


def _new_topics(new_topics: Any) -> list[dict[str, Any]]:
    """Returns the request's topics; `new_topics` is as for `create_topics`."""
    if isinstance(new_topics, str):
        raise TypeError(f"new_topics must be a list or dict, not one str: use [{new_topics!r}]")
    if isinstance(new_topics, NewTopic):
        raise TypeError("new_topics must be a list or dict, not one NewTopic: put it into a list")
    found: list[NewTopic] = []
    if isinstance(new_topics, Mapping):
        for name, data in new_topics.items():
            if not isinstance(data, Mapping):
                raise TypeError(
                    f"new_topics[{name!r}] must be a dict, such as {{'num_partitions': 3}}, got"
                    f" {shown(data)}"
                )
            found.append(
                NewTopic(
                    name,
                    data.get("num_partitions", -1),
                    data.get("replication_factor", -1),
                    data.get("assignments"),
                    data.get("configs"),
                )
            )
    else:
        found += [each if isinstance(each, NewTopic) else _named(each) for each in new_topics]
    if not found:
        raise ValueError(f"No valid topics found in new_topics: {new_topics}. Name at least one")
    return [
        {
            "Name": topic.name,
            "NumPartitions": -1 if topic.replica_assignments else topic.num_partitions,
            "ReplicationFactor": -1 if topic.replica_assignments else topic.replication_factor,
            "Assignments": [
                {"PartitionIndex": partition, "BrokerIds": list(nodes)}
                for partition, nodes in topic.replica_assignments.items()
            ],
            "Configs": [
                {"Name": name, "Value": None if value is None else str(revealed(value))}
                for name, value in topic.topic_configs.items()
            ],
        }
        for topic in found
    ]


def _described(topic: dict[str, Any]) -> dict[str, Any]:
    """Returns a topic of a Metadata response with the keys of kafka-python 3 and kafka-python 2."""
    topic = snake_keys(topic)
    operations = operation_names(topic.pop("topic_authorized_operations", None))
    topic["topic_authorized_operations"] = topic["authorized_operations"] = operations
    topic["topic"] = topic["name"]
    for row in topic["partitions"]:
        row["partition"], row["leader"] = row["partition_index"], row["leader_id"]
        row["replicas"], row["isr"] = row["replica_nodes"], row["isr_nodes"]
    return topic


class TopicRequests(Requests):
    """Calls about topics."""

    def list_topics(self) -> list[str]:
        """Returns the names of all topics, including internal ones (Metadata).

        Raises:
            KafkaError: If no broker responds to the request.
        """
        return [topic["Name"] for topic in self._metadata(None)["Topics"]]

    def describe_topics(
        self, topics: Iterable[str | uuid.UUID] | None = None
    ) -> list[dict[str, Any]]:
        """Describes topics and their partitions (Metadata). It does not create topics.

        Args:
            topics: Names, or topic IDs (KIP-516). None: all topics.

        Returns:
            A dict for each topic: error_code, name, topic_id, is_internal, partitions (each with
            partition_index, leader_id, leader_epoch, replica_nodes, isr_nodes,
            offline_replicas, error_code) and authorized_operations. It also has kafka-python 2's
            keys (topic, partition, leader, replicas, isr). An unknown topic has error_code 3.

        Raises:
            TypeError: If `topics` is one str.
        """
        if topics is None:
            return self._describe(None)
        given = names_given(topics, "topics", (str, uuid.UUID))
        names = [{"Name": each} for each in given if isinstance(each, str)]
        ids = [each for each in given if isinstance(each, uuid.UUID)]
        if not ids:
            return self._describe(names)
        # If a request has IDs, Kafka ignores its names.
        by_id = [{"Name": None, "TopicId": to_base64(each)} for each in ids]
        found = self._describe(by_id, _ID_DESCRIBE_VERSION)
        return (self._describe(names) if names else []) + found

    def _describe(
        self,
        topics: list[dict[str, Any]] | None,
        least_version: int = 0,
        timeout_ms: int | None = None,
    ) -> list[dict[str, Any]]:
        version = max(self._client.negotiate("Metadata"), least_version)
        body: dict[str, Any] = {"Topics": topics, "AllowAutoTopicCreation": False}
        if version >= _OPERATIONS_VERSION:
            body["IncludeTopicAuthorizedOperations"] = True
        response = self._call("Metadata", body, version=version, timeout_ms=timeout_ms)
        return [_described(topic) for topic in response["Topics"]]

    def create_topics(
        self,
        new_topics: Any,
        timeout_ms: float | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
        wait_for_metadata: bool = False,
    ) -> dict[str, Any]:
        """Creates topics (CreateTopics).

        Args:
            new_topics: Names, NewTopics, or {name: {"num_partitions": int,
                "replication_factor": int, "assignments": {partition: [node IDs]},
                "configs": {option: value}}}. All keys are optional.
            timeout_ms: How long the controller may take. None: request_timeout_ms.
            validate_only: True: only checks the request, and changes nothing.
            raise_errors: True: raises the first topic's error. False: see error_code.
            wait_for_metadata: True: also waits, for at most 10 s, until every partition of the
                topics that this call has created has a leader.

        Returns:
            {"topics": [{name, topic_id, error_code, error_message, num_partitions,
            replication_factor, configs: {option: {...}}}]}.

        Raises:
            TopicAlreadyExistsError: If a topic exists.
            BrokerResponseError: Any other error of CreateTopics.
            KafkaTimeoutError: If wait_for_metadata takes too long.
            ValueError: If `new_topics` is empty, or you set both validate_only and
                wait_for_metadata.
        """
        if validate_only and wait_for_metadata:
            raise ValueError("validate_only and wait_for_metadata cannot be used together")
        topics = _new_topics(new_topics)
        response = self._call(
            "CreateTopics",
            {
                "Topics": topics,
                "timeoutMs": self._timeout(timeout_ms),
                "validateOnly": validate_only,
            },
            "controller",
            codes=lambda response: (
                (row["ErrorCode"], row.get("ErrorMessage"), f"topic {row['Name']!r}")
                for row in response["Topics"]
            ),
            raise_errors=raise_errors,
        )
        if wait_for_metadata:
            self.wait_for_topics(
                [row["Name"] for row in response["Topics"] if not row["ErrorCode"]]
            )
        found: dict[str, Any] = snake_keys(response)
        for topic in found["topics"]:
            rows = topic.pop("configs", None)
            if rows:
                topic["configs"] = dict(describe_entry(row, "topic") for row in rows)
        return found

    def wait_for_topics(self, topic_names: Iterable[str], timeout_ms: float = 10000) -> None:
        """Waits until the topics exist and all of their partitions have a leader.

        Raises:
            KafkaTimeoutError: After timeout_ms. The message says what is missing.
            KafkaError: An error of a request that cannot be repeated.
            TypeError: If `topic_names` is one str.
            ValueError: If `timeout_ms` is negative or NaN.
        """
        names = names_given(topic_names, "topic_names")
        deadline = time.monotonic() + duration_given(timeout_ms, "timeout_ms", "ms") / 1000
        asked = [{"Name": name} for name in names]
        while names:
            left_ms = (deadline - time.monotonic()) * 1000
            limit_ms = int(min(max(left_ms, 1_000), self.config["request_timeout_ms"]))
            why = "missing from metadata response"
            try:
                by_name = {each["name"]: each for each in self._describe(asked, 0, limit_ms)}
            except RetriableError as error:
                by_name, why = {}, str(error)
            reasons = {name: _not_ready(by_name.get(name), why) for name in names}
            pending = {name: reason for name, reason in reasons.items() if reason}
            if not pending:
                return
            if time.monotonic() >= deadline:
                raise KafkaTimeoutError(
                    f"Topics not ready after {timeout_ms} ms: {pending}. Call again, or raise"
                    " timeout_ms"
                )
            time.sleep(_POLL_SECONDS)

    def delete_topics(
        self,
        topics: Iterable[str | uuid.UUID],
        timeout_ms: float | None = None,
        raise_errors: bool = True,
    ) -> dict[str, Any]:
        """Deletes topics (DeleteTopics).

        Args:
            topics: Names, or topic IDs (brokers of 2.8 and newer).
            timeout_ms: How long the controller may take. None: request_timeout_ms.
            raise_errors: True: raises the first topic's error. False: see error_code.

        Returns:
            {"topics": [{name, topic_id, error_code, error_message}]}.

        Raises:
            UnknownTopicOrPartitionError: If a topic does not exist.
            BrokerResponseError: Any other error of DeleteTopics.
            TypeError: If `topics` is one str.
            UnsupportedVersionError: If you give IDs, and the brokers are older than Kafka 2.8.
        """
        names = list(dict.fromkeys(names_given(topics, "topics", (str, uuid.UUID))))
        body: dict[str, Any] = {"TimeoutMs": self._timeout(timeout_ms)}
        if self._client.negotiate("DeleteTopics", "controller") >= _ID_DELETE_VERSION:
            body["Topics"] = [
                {"Name": None, "TopicId": to_base64(each)}
                if isinstance(each, uuid.UUID)
                else {"Name": each}
                for each in names
            ]
        else:
            if not all(isinstance(each, str) for each in names):
                raise UnsupportedVersionError(
                    "deleting topics by ID needs DeleteTopics 6 (Kafka 2.8). Give their names"
                )
            body["TopicNames"] = names
        response = self._call(
            "DeleteTopics",
            body,
            "controller",
            codes=lambda response: (
                (row["ErrorCode"], row.get("ErrorMessage"), f"topic {row['Name']!r}")
                for row in response["Responses"]
            ),
            raise_errors=raise_errors,
        )
        found = snake_keys(response)
        return {"topics": found["responses"]}


def _not_ready(topic: Mapping[str, Any] | None, why_missing: str) -> str | None:
    if topic is None:
        return why_missing
    if topic["error_code"]:
        return for_code(topic["error_code"]).__name__
    if not topic["partitions"]:
        return "no partitions reported"
    bad = [
        f"p{row['partition_index']}=no leader"
        for row in topic["partitions"]
        if row["leader_id"] < 0
    ]
    return ",".join(bad) or None
