"""thalweg under kafka-python's name, with the few internals that kafka-python's own tests use.

kafka.errors, kafka.admin ...    thalweg's modules themselves
kafka.net, kafka.codec ...       the files next to this one
"""

from __future__ import annotations

import importlib
import sys
import time
from types import SimpleNamespace
from typing import Any

import thalweg
from thalweg import (
    IsolationLevel,
    KafkaProducer,
    OffsetAndMetadata,
    OffsetSpec,
    TopicPartition,
)

__all__ = [
    "IsolationLevel",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "OffsetAndMetadata",
    "OffsetSpec",
    "TopicPartition",
]

for _name in ("admin", "errors", "partitioner", "serializer", "structs"):
    sys.modules[f"kafka.{_name}"] = importlib.import_module(f"thalweg.{_name}")


class _Cluster:
    """The brokers, in the form in which tests read them from kafka-python's internals."""

    def __init__(self, servers: Any) -> None:
        self._servers = servers

    def brokers(self) -> list[Any]:
        with thalweg.KafkaAdminClient(bootstrap_servers=self._servers) as admin:
            found = admin.describe_cluster()["brokers"]
        return [SimpleNamespace(node_id=row["broker_id"]) for row in found]


class KafkaAdminClient(thalweg.KafkaAdminClient):
    """Adds `_manager.cluster` and `_client.least_loaded_node()`."""

    def __init__(self, **configs: Any) -> None:
        super().__init__(**configs)
        self._manager = SimpleNamespace(cluster=_Cluster(configs["bootstrap_servers"]))
        self._client: Any = _WithNodes(self._client)


class _WithNodes:
    def __init__(self, client: Any) -> None:
        self._wrapped = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def least_loaded_node(self) -> int:
        found: int = self._wrapped.nodes()[0].nodeId
        return found


class KafkaConsumer(thalweg.KafkaConsumer[Any, Any]):
    """Adds `_client.cluster`, and a `_coordinator.heartbeat` of a healthy member."""

    def __init__(self, *topics: str, **configs: Any) -> None:
        super().__init__(*topics, **configs)
        self._client = SimpleNamespace(cluster=_Cluster(configs["bootstrap_servers"]))

    @property
    def _coordinator(self) -> Any:
        well = SimpleNamespace(heartbeat_failed=False, last_receive=time.monotonic(), last_reset=0)
        return SimpleNamespace(heartbeat=well)
