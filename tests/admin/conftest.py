"""Every call of KafkaAdminClient on real Kafka. Each test checks what the call did.

admin        of a super user, on one node of Kafka 4.3 and one of 3.9, with an authorizer
alice        of a user whose rights a test removes, on the same node
cluster      three nodes, for elections and for replicas that move
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.kafka.cluster import USERS, VERSIONS, RealKafka
from tests.support.waiting import wait_until
from thalweg import KafkaAdminClient, KafkaConsumer, KafkaProducer
from thalweg.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from thalweg.errors import NoError

_numbers = itertools.count(1)


@dataclass
class Node:
    """A node of real Kafka with an authorizer, and its clients, which are closed with the test."""

    kafka: RealKafka
    admin: KafkaAdminClient
    opened: list[Any]

    @property
    def modern(self) -> bool:
        return self.kafka.version != "3.9"

    def name(self, prefix: str = "t") -> str:
        return f"{prefix}-{next(_numbers)}"

    def topic(self, num_partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        name = self.name()
        configs = {"retention.ms": "-1", **(configs or {})}
        self.kafka.create_topic(name, num_partitions, configs=configs)
        return name

    def producer(self, **options: Any) -> KafkaProducer[Any, Any]:
        servers = self.kafka.bootstrap_servers
        return self._keep(KafkaProducer(bootstrap_servers=servers, linger_ms=0, **options))

    def consumer(self, **options: Any) -> KafkaConsumer[Any, Any]:
        options = {"auto_offset_reset": "earliest", **options}
        made = KafkaConsumer(bootstrap_servers=self.kafka.bootstrap_servers, **options)
        return self._keep(made)

    def fill(self, topic: str, count: int, partition: int = 0) -> None:
        self.producer().send_many(topic, [b"v"] * count, partition=partition).get(30)

    def client_of(self, user: str) -> KafkaAdminClient:
        made = KafkaAdminClient(
            bootstrap_servers=self.kafka.bootstrap("SASL_PLAINTEXT"),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username=user,
            sasl_plain_password=USERS[user],
        )
        return self._keep(made)

    @contextmanager
    def denied(self, kind: ResourceType, name: str, user: str = "alice") -> Iterator[None]:
        """Denies the user all operations on a resource while the block runs."""
        deny = ACL(
            f"User:{user}",
            "*",
            ACLOperation.ALL,
            ACLPermissionType.DENY,
            ResourcePattern(kind, name),
        )
        assert self.admin.create_acls([deny]) == {"succeeded": [deny], "failed": []}
        # A broker learns a change from its controller a moment later.
        wait_until(lambda: deny in self.acls(), 20)
        try:
            yield
        finally:
            self.admin.delete_acls([deny])
            wait_until(lambda: deny not in self.acls(), 20)

    def acls(self, wanted: ACLFilter | None = None) -> list[ACL]:
        """Returns the ACLs that a filter matches, or all without a filter."""
        found, error = self.admin.describe_acls(wanted or EVERY_ACL)
        assert error is NoError
        return found

    def _keep(self, made: Any) -> Any:
        self.opened.append(made)
        return made


EVERY_ACL = ACLFilter(
    None,
    None,
    ACLOperation.ANY,
    ACLPermissionType.ANY,
    ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
)


@pytest.fixture(scope="package")
def node_of() -> Iterator[Callable[[str], RealKafka]]:
    """One node of each version for all files, started by the first test that needs it."""
    started: dict[str, RealKafka] = {}

    def get(version: str) -> RealKafka:
        if version not in started:
            started[version] = RealKafka(
                version,
                secure=True,
                authorizer=True,
                log_dirs=2,
                heap="512m",
                configs={"delegation.token.secret.key": "the key of the cluster"},
            )
            started[version].start()
        return started[version]

    yield get
    for kafka in started.values():
        kafka.close()


@pytest.fixture(params=VERSIONS)
def node(request: pytest.FixtureRequest, node_of: Callable[[str], RealKafka]) -> Iterator[Node]:
    """One node of Kafka 4.3 and one of 3.9."""
    yield from _opened(node_of(request.param))


@pytest.fixture
def modern_node(node_of: Callable[[str], RealKafka]) -> Iterator[Node]:
    """One node of Kafka 4.3, for what 3.9 does not have."""
    yield from _opened(node_of("4.3"))


@pytest.fixture
def old_node(node_of: Callable[[str], RealKafka]) -> Iterator[Node]:
    """One node of Kafka 3.9, for calls that fail because 3.9 does not have them."""
    yield from _opened(node_of("3.9"))


@pytest.fixture
def admin(node: Node) -> KafkaAdminClient:
    """The admin client of a super user."""
    return node.admin


@pytest.fixture
def alice(node: Node) -> KafkaAdminClient:
    """The admin client of a user without special rights."""
    return node.client_of("alice")


@pytest.fixture(scope="package")
def cluster() -> Iterator[RealKafka]:
    """Three nodes of Kafka 4.3, which elect the preferred leaders only if a test asks for it."""
    configs = {"auto.leader.rebalance.enable": "false"}
    with RealKafka("4.3", nodes=3, heap="512m", configs=configs) as kafka:
        yield kafka


def _opened(kafka: RealKafka) -> Iterator[Node]:
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        node = Node(kafka, admin, [])
        yield node
        for each in reversed(node.opened):
            each.close()
