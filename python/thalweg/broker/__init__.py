"""EmbeddedBroker: a Kafka cluster in this process, for first steps, tests and local use.

    with EmbeddedBroker(nodes=3) as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        with broker.faults.on("Produce").then_disconnect():
            ...

It uses real sockets, so any Kafka client can use it. At run time you can stop nodes, move leaders
and inject faults. The broker is native; this module is its Python interface.

There is no replication: the nodes share one log for each partition. All logs are in memory, so
they are lost when the process ends.
"""

import os
import threading
import weakref
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from thalweg import _core
from thalweg._client import closing
from thalweg._client.arguments import int_given
from thalweg._config.secret import Secret, hidden, revealed
from thalweg._config.suggestions import did_you_mean
from thalweg.broker import _acls
from thalweg.broker._access import Access
from thalweg.broker._faults import Fault, FaultRule, Faults, checked_api
from thalweg.broker._group_server import GroupServer
from thalweg.broker._security import Jwks, Pem, Security
from thalweg.errors import KafkaConfigurationError

__all__ = ["EmbeddedBroker", "Fault", "FaultRule", "Faults"]

# The option that holds a secret. It may be a Secret.
_TOKEN_KEY: Final = "delegation.token.secret.key"


class EmbeddedBroker(Access):
    """A Kafka cluster of one or more nodes in this process.

    Args:
        nodes: The number of nodes. Each node is a broker.
        port: The port of the first node. The other nodes use the next ports. 0: any free ports.
        host: The address on which the nodes listen, and which they announce to clients.
        configs: Kafka's broker options by their dotted names. start() checks them. Options whose
            names begin with `thalweg.` exist only in this broker: see docs/testing.md.
        security_protocol: "PLAINTEXT", "SSL", "SASL_PLAINTEXT" or "SASL_SSL". With SASL, clients
            must log in. With SSL, connections use TLS.
        sasl_mechanisms: The mechanisms with which clients may log in: "PLAIN", "SCRAM-SHA-256",
            "SCRAM-SHA-512" (these three are the default), "OAUTHBEARER" and "AWS_MSK_IAM". Without
            `jwks`, the broker accepts tokens of OAUTHBEARER without a signature, as Kafka does by
            default: everybody can create a token for any user.
        users: The users of PLAIN and SCRAM, as {name: password}. For AWS_MSK_IAM, a name is the ID
            of an access key, and the password is its secret key.
        ssl_certfile: The broker's certificate and its chain, as the path of a PEM file or as a PEM
            string. None: the broker creates its own authority and certificates.
        ssl_keyfile: The private key of the certificate, not encrypted.
        ssl_cafile: The authorities of client certificates, if the option `ssl.client.auth` is
            "requested" or "required". Without SASL, the user of a client is the subject of its
            certificate.
        jwks: The public keys of an identity provider (a JSON Web Key Set): a path, "file:" and a
            path, JSON as a str, or a dict. Then the broker accepts only tokens that one of them has
            signed with RS256 or ES256, as Kafka does with `sasl.oauthbearer.jwks.endpoint.url`. The
            options `sasl.oauthbearer.expected.audience` and `.issuer` say what the tokens contain.
        authorizer: Whether ACLs decide what users may do. A user may do nothing until an ACL
            allows it.
        super_users: The users who may do everything. "alice" and "User:alice" are the same.

    Raises:
        TypeError: If an argument has a wrong type.
        ValueError: If nodes is below 1, port is not from 0 to 65535, the broker does not support
            the protocol or mechanism, a name or password is empty or contains a NUL character, a
            file cannot be read, or an argument has no effect with this protocol.
    """

    def __init__(
        self,
        nodes: int = 1,
        port: int = 0,
        host: str = "127.0.0.1",
        configs: Mapping[str, Any] | None = None,
        *,
        security_protocol: str = "PLAINTEXT",
        sasl_mechanisms: Iterable[str] | None = None,
        users: Mapping[str, str | Secret] | None = None,
        ssl_certfile: Pem | None = None,
        ssl_keyfile: Pem | None = None,
        ssl_cafile: Pem | None = None,
        jwks: Jwks | None = None,
        authorizer: bool = False,
        super_users: Iterable[str] = (),
    ) -> None:
        self._security = security = Security(
            security_protocol, sasl_mechanisms, users, ssl_certfile, ssl_keyfile, ssl_cafile, jwks
        )
        self._options: dict[str, str | Secret] = {
            name: value if isinstance(value, Secret) else str(value)
            for name, value in (configs or {}).items()
        }
        if (key := self._options.get(_TOKEN_KEY)) is not None:
            self._options[_TOKEN_KEY] = hidden(revealed(key))
        self._options |= _acls.authorizer_options(authorizer, super_users)
        int_given(nodes, "nodes", 1, 65535)
        int_given(port, "port", 0, 65535)
        self._native = _core.EmbeddedBroker(
            nodes,
            port,
            host,
            {name: revealed(value) for name, value in self._options.items()},
            security.protocol,
            security.mechanisms,
            security.passwords(),
            security.tls(),
            security.jwks,
        )
        self._groups = GroupServer(self._native.groups())
        self._end: weakref.finalize[Any, Any] | None = None
        self._starting = threading.Lock()
        self._pid = os.getpid()
        # For a forked child: the addresses and the authority.
        self._started: tuple[str, str | None] | None = None
        self._guard = self._native.security()
        self.faults = Faults(self._native)

    def start(self) -> Self:
        """Starts the broker. Returns when every node accepts connections.

        A second call does nothing.

        Raises:
            KafkaConfigurationError: If an option or its value is not valid, or the nodes need ports
                above 65535.
            OSError: If a port is in use, or the broker cannot listen on the host.
            IllegalStateError: After close().
        """
        self._check_names()
        self._native.start()
        with self._starting:  # only after the line above has refused a forked child
            if self._end is None:
                self._groups.start()
                self._started = self._native.bootstrap_servers, self._guard.authority_pem()
                # The thread holds the native broker. So end it when this object is freed unclosed.
                self._end = weakref.finalize(self, _end, self._native, self._groups, self._pid)
                self._end.atexit = False  # its clients must be closed first
                closing.watch_broker(self)
        return self

    def _check_names(self) -> None:
        known = self._native.option_names()
        problems = [
            f"unknown broker option {name!r}{did_you_mean(name, known)}"
            for name in self._options
            if name not in known
        ]
        if problems:
            text = f"EmbeddedBroker: {'; '.join(problems)}"
            raise KafkaConfigurationError(text, problems=problems)

    def close(self) -> None:
        """Stops all nodes. A second call does nothing. A call in a forked child does nothing."""
        if os.getpid() != self._pid:
            return
        if self._end is not None:
            self._end()
        self._native.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        import asyncio

        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        import asyncio

        await asyncio.to_thread(self.close)

    @property
    def host(self) -> str:
        """The address that the nodes listen on."""
        return self._native.host

    @property
    def nodes(self) -> list[int]:
        """The node IDs."""
        return self._native.nodes

    @property
    def ports(self) -> list[int]:
        """The port of each node. Raises IllegalStateError before start()."""
        return self._native.ports

    @property
    def running(self) -> bool:
        """Whether the broker runs: between start() and close()."""
        return self._native.running

    def create_topic(
        self,
        name: str,
        num_partitions: int = 1,
        configs: Mapping[str, Any] | None = None,
        replication_factor: int = 1,
    ) -> None:
        """Creates a topic.

        Args:
            name: The topic's name.
            num_partitions: The number of partitions.
            configs: Kafka's topic options by their dotted names.
            replication_factor: The number of replicas in the metadata. There is only one copy.

        Raises:
            TopicAlreadyExistsError: If the topic exists.
            InvalidTopicError: If the name is not valid.
            IllegalStateError: If the broker is not running.
        """
        options = {option: str(value) for option, value in (configs or {}).items()}
        self._native.create_topic(name, num_partitions, replication_factor, options)

    def delete_topic(self, name: str) -> None:
        """Deletes a topic. Raises UnknownTopicOrPartitionError if it does not exist."""
        self._native.delete_topic(name)

    def topics(self) -> dict[str, int]:
        """Returns {topic: number of partitions}."""
        return self._native.topics()

    def leader(self, partition: tuple[str, int]) -> int:
        """Returns the node ID of the leader of a partition (topic, number), or -1 if no node runs.

        Raises:
            UnknownTopicOrPartitionError: If the partition does not exist.
            IllegalStateError: If the broker is not running.
        """
        return self._native.leader(partition)

    def move_leader(self, partition: tuple[str, int], node: int) -> None:
        """Makes a node the leader of a partition, with a higher leader epoch.

        Raises:
            ValueError: If there is no such node.
            BrokerNotAvailableError: If the node is stopped.
            UnknownTopicOrPartitionError: If the partition does not exist.
            IllegalStateError: If the broker is not running.
        """
        self._native.move_leader(partition, node)

    def move_coordinator(self, key: str, node: int) -> None:
        """Makes a node the coordinator of the group and the transactional ID with this name.

        Their state is kept, and other nodes respond with NOT_COORDINATOR. The choice applies while
        the node runs.

        Raises:
            ValueError: If there is no such node.
            IllegalStateError: If the broker is not running.
        """
        self._native.move_coordinator(key, node)

    def stop_node(self, node: int) -> None:
        """Stops a node: closes its port and connections, and moves its partitions' leaders.

        Raises:
            ValueError: If there is no such node.
            IllegalStateError: If the broker is not running.
        """
        self._native.stop_node(node)

    def start_node(self, node: int) -> None:
        """Starts a stopped node on its old port.

        Raises:
            ValueError: If there is no such node.
            OSError: If another program uses the port now.
            IllegalStateError: If the broker is not running.
        """
        self._native.start_node(node)

    def requests(self, api: str | None = None) -> dict[str, int]:
        """Returns {API name: number of requests since start()}.

        It also counts requests that a fault left without a response.

        Args:
            api: Count only this API. None: all.

        Raises:
            ValueError: If Kafka has no such API.
        """
        return self._native.requests(checked_api(api, self._native))

    def __repr__(self) -> str:
        if os.getpid() != self._pid:
            return f"<EmbeddedBroker of process {self._pid}>"
        where = self.bootstrap_servers if self.running else "not running"
        return f"<EmbeddedBroker of {len(self.nodes)} nodes, {where}>"


def _end(native: _core.EmbeddedBroker, groups: GroupServer, pid: int) -> None:
    """Ends the broker, except in a forked child: the broker belongs to the parent."""
    if os.getpid() == pid:
        native.close()
        groups.join()
