"""The cluster: brokers, versions, features, quorum, log directories."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

from thalweg.admin.acls import operation_names
from thalweg.admin.naming import FlexibleEnum, snake_keys
from thalweg.admin.partitions import PartitionRequests
from thalweg.errors import (
    BrokerResponseError,
    IncompatibleBrokerVersion,
    UnsupportedVersionError,
    for_code,
)
from thalweg.structs import TopicPartitionReplica

__all__ = ["ClusterRequests", "UpdateFeatureType"]

_FENCED_VERSION = 2  # DescribeCluster with fenced brokers (KIP-1073)


class UpdateFeatureType(FlexibleEnum, IntEnum):
    """How a feature's level may change (KIP-584)."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class ClusterRequests(PartitionRequests):
    """Calls about the cluster."""

    def describe_cluster(self) -> dict[str, Any]:
        """Describes the brokers, the controller and the cluster ID.

        It sends DescribeCluster, or Metadata to old brokers.

        Returns:
            {cluster_id, controller_id, brokers: [{broker_id, node_id, host, port, rack,
            is_fenced}], cluster_authorized_operations}.
        """
        try:
            version = self._client.negotiate("DescribeCluster")
        except UnsupportedVersionError:
            found = snake_keys(self._metadata([]))
            found.pop("topics")
            for row in found["brokers"]:
                row["broker_id"] = row["node_id"]
            return self._with_operations(found)
        body: dict[str, Any] = {"IncludeClusterAuthorizedOperations": True}
        if version >= _FENCED_VERSION:
            body["IncludeFencedBrokers"] = True
        found = snake_keys(
            self._call(
                "DescribeCluster",
                body,
                codes=lambda response: [
                    (response["ErrorCode"], response["ErrorMessage"], "DescribeCluster")
                ],
            )
        )
        for name in ("error_code", "error_message", "endpoint_type"):
            found.pop(name, None)
        for row in found["brokers"]:
            row["node_id"] = row["broker_id"]
        return self._with_operations(found)

    @staticmethod
    def _with_operations(found: dict[str, Any]) -> dict[str, Any]:
        names = operation_names(found.pop("cluster_authorized_operations", None))
        found["cluster_authorized_operations"] = found["authorized_operations"] = names
        return found

    def api_versions(self) -> dict[str, tuple[int, int]]:
        """Returns {API name: (min version, max version)} of any one broker."""
        return self._client.api_versions("any")

    def get_broker_version_data(self, broker_id: int) -> dict[str, tuple[int, int]]:
        """Returns {API name: (min version, max version)} of a broker."""
        return self._client.api_versions(broker_id)

    def describe_features(
        self, send_request_to_controller: bool = False
    ) -> dict[str, dict[str, Any]]:
        """Describes features and their levels (ApiVersions, KIP-584).

        Args:
            send_request_to_controller: True: asks the controller. False: asks any broker.

        Returns:
            {feature: {"supported": (min, max), "finalized": (min, max), "finalized_epoch": int or
            None}}. Keys that the broker does not report are missing.
        """
        response = self._call(
            "ApiVersions",
            {"ClientSoftwareName": "thalweg", "ClientSoftwareVersion": "0"},
            "controller" if send_request_to_controller else "any",
            codes=lambda response: [(response["ErrorCode"], None, "ApiVersions")],
        )
        found: dict[str, dict[str, Any]] = defaultdict(dict)
        for row in response.get("SupportedFeatures", ()):
            found[row["Name"]]["supported"] = (row["MinVersion"], row["MaxVersion"])
        epoch = response.get("FinalizedFeaturesEpoch", -1)
        for row in response.get("FinalizedFeatures", ()):
            levels = (row["MinVersionLevel"], row["MaxVersionLevel"])
            found[row["Name"]]["finalized"] = levels
            found[row["Name"]]["finalized_epoch"] = epoch if epoch >= 0 else None
        return dict(found)

    def update_features(
        self,
        feature_updates: Mapping[str, Any],
        validate_only: bool = False,
        timeout_ms: float = 60000,
    ) -> dict[str, str]:
        """Sets the levels of features (UpdateFeatures, KIP-584).

        Args:
            feature_updates: {feature: level} or {feature: (UpdateFeatureType, level)}. A level
                below 1 removes the feature.
            validate_only: True: only checks the request, and changes nothing.
            timeout_ms: How long the controller may take.

        Returns:
            {feature: "OK", or the error}.

        Raises:
            TypeError: If `feature_updates` is not a mapping.
            IncompatibleBrokerVersion: If you set validate_only, and the broker is older than 3.3.
        """
        if not isinstance(feature_updates, Mapping):
            raise TypeError("feature_updates must be {feature: level or (type, level)}")
        version = self._client.negotiate("UpdateFeatures", "controller")
        if validate_only and version < 1:
            raise IncompatibleBrokerVersion(
                "validate_only needs UpdateFeatures 1 (Kafka 3.3). Omit validate_only, or upgrade"
                " the brokers"
            )
        updates = []
        for feature, given in feature_updates.items():
            kind, level = given if isinstance(given, tuple) else (UpdateFeatureType.UPGRADE, given)
            kind = UpdateFeatureType.build_from(kind)
            update: dict[str, Any] = {"Feature": feature, "MaxVersionLevel": int(level)}
            if version >= 1:
                update["UpgradeType"] = int(kind)
            else:
                update["AllowDowngrade"] = kind > UpdateFeatureType.UPGRADE
            updates.append(update)
        body: dict[str, Any] = {"timeoutMs": int(timeout_ms), "FeatureUpdates": updates}
        if validate_only:
            body["ValidateOnly"] = True
        response = self._call(
            "UpdateFeatures",
            body,
            "controller",
            codes=lambda response: [
                (response["ErrorCode"], response["ErrorMessage"], "UpdateFeatures")
            ],
        )
        found = dict.fromkeys(feature_updates, "OK")
        for row in response.get("Results", ()):
            if row["ErrorCode"]:
                found[row["Feature"]] = str(for_code(row["ErrorCode"])(row["ErrorMessage"]))
        return found

    def describe_metadata_quorum(self) -> dict[str, Any]:
        """Describes the KRaft quorum (DescribeQuorum, KIP-595, KIP-853).

        Returns:
            {topics: [{topic_name, partitions: [{leader_id, leader_epoch, high_watermark,
            current_voters, observers, error}]}], nodes: [...]}.
        """
        topic = {"TopicName": "__cluster_metadata", "Partitions": [{"PartitionIndex": 0}]}
        response = self._call(
            "DescribeQuorum",
            {"Topics": [topic]},
            codes=lambda response: [
                (response["ErrorCode"], response.get("ErrorMessage"), "DescribeQuorum")
            ],
        )
        found: dict[str, Any] = snake_keys(response)
        found.pop("error_code", None)
        found.pop("error_message", None)
        for row in (row for each in found["topics"] for row in each["partitions"]):
            code, message = row.pop("error_code"), row.pop("error_message", None)
            row["error"] = str(for_code(code)(message)) if code else None
        return found

    def describe_log_dirs(
        self, topic_partitions: Any = None, brokers: Iterable[int] | None = None
    ) -> list[dict[str, Any]]:
        """Describes the log directories of brokers, with the replicas in them and their sizes.

        It sends DescribeLogDirs (KIP-113).

        Args:
            topic_partitions: {topic: [partitions]}, [topics], or None for all partitions.
            brokers: Node IDs. None: all brokers.

        Returns:
            [{broker, log_dirs: [{log_dir, error_code, total_bytes, usable_bytes, topics}]}].

        Raises:
            BrokerResponseError: If a broker refuses the request. A broker before 3.2 returns an
                empty list instead.
        """
        body = {"Topics": self._chosen_partitions(topic_partitions)}
        found = []
        for node in self._node_ids() if brokers is None else brokers:
            response = self._call(
                "DescribeLogDirs",
                body,
                node,
                codes=lambda response: [(response.get("ErrorCode", 0), None, "DescribeLogDirs")],
            )
            found.append({"broker": node, "log_dirs": snake_keys(response["Results"])})
        return found

    def alter_replica_log_dirs(
        self, replica_assignments: Mapping[Any, str]
    ) -> dict[TopicPartitionReplica, type[BrokerResponseError]]:
        """Moves replicas to other log directories of their broker (AlterReplicaLogDirs, KIP-113).

        Args:
            replica_assignments: {TopicPartitionReplica: absolute path}.

        Returns:
            {TopicPartitionReplica: error class}. NoError means success.
        """
        by_node: dict[int, dict[str, dict[str, list[int]]]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(list))
        )
        for (topic, partition, node), path in replica_assignments.items():
            by_node[node][path][topic].append(partition)
        found: dict[TopicPartitionReplica, type[BrokerResponseError]] = {}
        for node, paths in by_node.items():
            dirs = [
                {
                    "Path": path,
                    "Topics": [{"Name": name, "Partitions": ids} for name, ids in topics.items()],
                }
                for path, topics in paths.items()
            ]
            for row in self._call("AlterReplicaLogDirs", {"Dirs": dirs}, node)["Results"]:
                for each in row["Partitions"]:
                    where = TopicPartitionReplica(row["TopicName"], each["PartitionIndex"], node)
                    found[where] = for_code(each["ErrorCode"])
        return found
