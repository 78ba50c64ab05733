"""Replaces the suite's test/integration/fixtures.py: its "brokers" are one running real Kafka.

test_suite.py starts that Kafka, copies this file into the suite, and passes the broker's address in
the environment.
"""

from __future__ import annotations

import json
import os
from types import SimpleNamespace
from typing import Any

from kafka import KafkaAdminClient
from test.testutil import env_kafka_version, random_string  # type: ignore[import-not-found]

_BROKER = json.loads(os.environ["THALWEG_SUITE_BROKER"])


class ZookeeperFixture:
    """Does nothing: Kafka 4 has no ZooKeeper."""


class KafkaFixture:
    """One listener of the broker."""

    host = "localhost"
    zookeeper = None
    replicas = 1
    partitions = 4
    ssl_dir = _BROKER["ssl_dir"]

    def __init__(self, transport: str = "PLAINTEXT", sasl_mechanism: str | None = None) -> None:
        self.transport = transport
        self.sasl_mechanism = sasl_mechanism
        self.port = _BROKER["ports"][transport]
        self.child = SimpleNamespace(dump_logs=lambda: None)

    @classmethod
    def instance(cls, _broker_id: int, **params: Any) -> KafkaFixture:
        known = {key: params[key] for key in ("transport", "sasl_mechanism") if key in params}
        return cls(**known)

    def start(self) -> None:
        """Does nothing: the broker is already running."""

    def close(self) -> None:
        """Does nothing: test_suite.py closes the broker."""

    def get_topic_names(self) -> list[str]:
        with KafkaAdminClient(**client_params(self, "topics")) as admin:
            found: list[str] = admin.list_topics()
        return found

    def _enrich_client_params(self, params: dict[str, Any], **defaults: Any) -> dict[str, Any]:
        own: dict[str, Any] = {
            "bootstrap_servers": f"{self.host}:{self.port}",
            "security_protocol": self.transport,
        }
        if self.sasl_mechanism is not None:
            own |= {
                "sasl_mechanism": self.sasl_mechanism,
                "sasl_plain_username": _BROKER["user"],
                "sasl_plain_password": _BROKER["password"],
            }
        return own | defaults | params


def client_params(broker: KafkaFixture, client_id: str = "client", **overrides: Any) -> Any:
    return broker._enrich_client_params(overrides, client_id=f"{client_id}_{random_string(4)}")


def create_topics(
    broker: KafkaFixture,
    topic_names: list[str],
    num_partitions: int | None = None,
    replication_factor: int | None = None,
) -> None:
    params = client_params(broker, "topic_creator", api_version=env_kafka_version())
    row = {
        "num_partitions": num_partitions or broker.partitions,
        "replication_factor": replication_factor or broker.replicas,
    }
    with KafkaAdminClient(**params) as admin:
        admin.create_topics(dict.fromkeys(topic_names, row), wait_for_metadata=True)
