"""Runs real Kafka brokers for tests and benchmarks: KRaft nodes on loopback, each in its own JVM.

    with RealKafka("4.3", nodes=3) as kafka:
        kafka.create_topic("t", 4, replication_factor=3)
        kafka.kill(2)
        kafka.start_node(2)

A node is stopped only by its own process ID. Logs go to files in the cluster's folder, and an error
of the harness contains their end. Every node is both broker and controller: separate controllers
are not supported.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tests.support import java
from tests.support.kafka.certificates import PASSWORD, make_certificates
from tests.support.kafka.storage import format_storage, new_id
from tests.support.paths import CACHE
from tests.support.ports import free_port
from tests.support.waiting import wait_until
from tests.support.wire import Wire, WireError

VERSIONS = ("4.3", "3.9")
START_LIMIT_S = 180
STOP_LIMIT_S = 30
USERS = {"admin": "admin-secret", "alice": "alice-secret"}

# Small and fast: few internal partitions, and no wait for more members of a group.
_DEFAULTS = {
    "auto.create.topics.enable": "true",
    "controlled.shutdown.enable": "true",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.check.interval.ms": "300000",
    # Without the controller's two records a second, an idle broker needs 40% less CPU.
    "metadata.max.idle.interval.ms": "0",
    "num.network.threads": "2",
    # At each check, every 10 minutes by default, the broker forgets groups without members and
    # offsets. A group of a test may be in that state for a moment, and would get its first epoch
    # again.
    "offsets.retention.check.interval.ms": "86400000",
    "num.io.threads": "4",
    "offsets.topic.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "4",
    "transaction.partition.verification.enable": "true",
    "broker.session.timeout.ms": "6000",
}
# Listeners and their protocols. MUTUAL_TLS refuses clients without a certificate.
_LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "MUTUAL_TLS": "SSL",
}
_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Brokers use the plaintext listener for each other, where every user is anonymous.
    "super.users": "User:ANONYMOUS;User:admin",
    "allow.everyone.if.no.acl.found": "true",
}
_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
# The login of a broker needs a subject, also for listeners that only check tokens.
_OAUTHBEARER = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    ' unsecuredLoginStringClaim_sub="broker";'
)


@dataclass
class Node:
    """One broker: its folder, the ports that it listens on and those it advertises, its process."""

    node_id: int
    folder: Path
    ports: dict[str, int]
    advertised: dict[str, int]
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    @property
    def properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def log_tail(self, lines: int = 40) -> str:
        """Returns the last warnings and errors of the log with stack traces, and its last lines."""
        return log_tail(self.log, lines)


def log_tail(log: Path, lines: int = 40) -> str:
    """Returns the last warnings and errors of a log with stack traces, and its last lines."""
    if not log.exists():
        return "(no log)"
    found = log.read_text(encoding="utf-8", errors="replace").splitlines()
    marks = "] WARN ", "] ERROR ", "] FATAL ", "Exception", "Caused by", "\tat "
    quiet = [line for line in found[:-10] if any(mark in line for mark in marks)][-lines:]
    return "\n".join(line[:400] for line in [*quiet, *found[-10:]])


class RealKafka:
    """A cluster of 1 to N real brokers.

    Args:
        version: "4.3" or "3.9".
        nodes: the number of nodes. Node IDs start at `first_node_id`.
        secure: adds listeners with TLS, mutual TLS, SASL, and SASL over TLS. `USERS` are the users
            of SASL PLAIN. Users of SCRAM must be created. OAUTHBEARER takes tokens without a
            signature.
        configs: broker options in addition to the harness's own.
        heap: the heap size of each JVM.
        jvm_options: for each broker's JVM, by default those of tests.
        keystore: the certificate that the brokers present.
        proxied: adds a listener that clients reach through a proxy (`tests.support.kafka.proxy`).
        authorizer: enables ACLs. Anonymous users and "admin" may do everything.
        log_dirs: the number of folders in which each node keeps its partitions.
        first_node_id: the ID of the first node.
        host: the loopback address that brokers listen on and advertise: IPv4 or IPv6.
        parent: the folder for the cluster's own folder, by default the one for temporary files.
    """

    def __init__(
        self,
        version: str = "4.3",
        nodes: int = 1,
        *,
        secure: bool = False,
        configs: Mapping[str, str] | None = None,
        heap: str = "1g",
        jvm_options: Sequence[str] | None = None,
        keystore: str = "server",
        proxied: bool = False,
        authorizer: bool = False,
        log_dirs: int = 1,
        first_node_id: int = 1,
        host: str = "127.0.0.1",
        parent: Path | None = None,
    ) -> None:
        self.version = version
        self.authorizer = authorizer
        self.log_dirs = log_dirs
        self.host = f"[{host}]" if ":" in host else host
        self.secure = secure
        self.configs = dict(configs or {})
        self.heap = heap
        self.jvm_options = java.quick_start(version) if jvm_options is None else jvm_options
        self.keystore = keystore
        self.folder = Path(tempfile.mkdtemp(prefix=f"kafka-{version}-", dir=parent))
        proxied_names = ["PROXIED"] if proxied else []
        names = ["CONTROLLER", *(_LISTENERS if secure else ["PLAINTEXT"]), *proxied_names]
        self.nodes = [
            Node(
                node_id,
                self.folder / str(node_id),
                {name: free_port() for name in names},
                {name: free_port() for name in proxied_names},
            )
            for node_id in range(first_node_id, first_node_id + nodes)
        ]
        self.cluster_id = new_id()
        if secure:
            self.certificates = make_certificates(CACHE)
        atexit.register(self.close)

    def __enter__(self) -> RealKafka:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def bootstrap_servers(self) -> str:
        """The plaintext addresses of all nodes."""
        return self.bootstrap("PLAINTEXT")

    def bootstrap(self, listener: str) -> str:
        """Returns the addresses of all nodes for one listener: "PLAINTEXT", "SASL_SSL" ..."""
        return ",".join(f"{self.host}:{node.ports[listener]}" for node in self.nodes)

    def node(self, node_id: int) -> Node:
        """Returns the node with this ID."""
        return self.nodes[node_id - self.nodes[0].node_id]

    def start(self) -> None:
        """Formats the storage, starts every node and waits until all of them respond."""
        for node in self.nodes:
            self._prepare(node)
        for node in self.nodes:
            self._launch(node)
        self._wait_up()

    def start_node(self, node_id: int, *, wait: bool = True) -> None:
        """Starts a stopped or killed node again, with its old ports and its old data."""
        self._launch(self.node(node_id))
        if wait:
            self._wait_up()

    def restart_all(self) -> None:
        """Kills all nodes (-9) and starts them together, so that no node can take over."""
        for node in self.nodes:
            if node.process is not None:
                _signal(node.process, signal.SIGKILL)
        for node in self.nodes:
            self._end(node, signal.SIGKILL)
        for node in self.nodes:
            self._launch(node)
        self._wait_up()

    def stop_node(self, node_id: int) -> None:
        """Stops a node as an operator would: it first hands over its leaderships."""
        self._end(self.node(node_id), signal.SIGTERM)

    def kill(self, node_id: int) -> None:
        """Kills a node (-9): nothing is handed over, nothing flushed."""
        self._end(self.node(node_id), signal.SIGKILL)

    @contextmanager
    def paused(self, node_id: int) -> Iterator[None]:
        """Suspends a node while the block runs (SIGSTOP). Its connections stay open."""
        process = self.node(node_id).process
        if process is None:
            raise RuntimeError(f"node {node_id} does not run")
        os.kill(process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(process.pid, signal.SIGCONT)

    def close(self) -> None:
        """Stops all nodes and removes their data."""
        atexit.unregister(self.close)
        # Nothing needs this cluster's data any more, and a controlled shutdown takes seconds.
        for node in self.nodes:
            self._end(node, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def create_topic(
        self,
        name: str,
        num_partitions: int = 1,
        *,
        replication_factor: int = 1,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Creates a topic and returns when its partitions have leaders."""
        wire = Wire(self.bootstrap_servers)
        wire.create_topic(
            name, num_partitions, replication_factor=replication_factor, configs=configs
        )

    def tool(
        self, main_class: str, *arguments: str, stdin: str | None = None, timeout: float = 120
    ) -> str:
        """Runs one of Kafka's command line tools (always those of 4.3)."""
        return java.run(main_class, *arguments, stdin=stdin, timeout=timeout)

    def logs(self, lines: int = 40) -> str:
        """Returns the end of every node's log, for the report of a failure."""
        parts = [
            f"--- kafka {self.version} node {n.node_id} ---\n{n.log_tail(lines)}"
            for n in self.nodes
        ]
        return "\n".join(parts)

    def _prepare(self, node: Node) -> None:
        node.folder.mkdir(parents=True)
        lines = [f"{key}={value}\n" for key, value in self._properties(node).items()]
        node.properties.write_text("".join(lines), encoding="utf-8")
        format_storage(self.version, self.cluster_id, node.node_id, self._log_dirs(node))

    def _log_dirs(self, node: Node) -> list[Path]:
        return [node.folder / f"data-{number}" for number in range(self.log_dirs)]

    def _launch(self, node: Node) -> None:
        if node.running:
            raise RuntimeError(f"node {node.node_id} runs already")
        command = [
            java.tool("java"),
            f"-Xmx{self.heap}",
            f"-Xms{self.heap}",
            *self.jvm_options,
            *java.late_brokers(),
            *java.log_options(self.version),
            "-cp",
            java.class_path(self.version),
            "kafka.Kafka",
            str(node.properties),
        ]
        with node.log.open("ab") as log:
            # A new session, so that Ctrl-C reaches only the tests. They end their brokers.
            node.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=node.folder,
            )

    def _end(self, node: Node, number: signal.Signals) -> None:
        process, node.process = node.process, None
        if process is None:
            return
        _signal(process, number)
        try:
            process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_LIMIT_S)

    def _wait_up(self) -> None:
        wanted = {node.node_id for node in self.nodes if node.process is not None}
        wait_until(
            lambda: all(self._responds(node_id, wanted) for node_id in wanted),
            START_LIMIT_S,
            every=0.1,
            what=lambda: f"kafka {self.version} taking requests:\n{self.logs()}\n",
        )

    def _responds(self, node_id: int, wanted: set[int]) -> bool:
        node = self.node(node_id)
        if not node.running:
            raise RuntimeError(f"kafka {self.version} node {node_id} ended\n{node.log_tail()}")
        try:
            known = Wire(f"{self.host}:{node.ports['PLAINTEXT']}", timeout=5).metadata().nodes
        except (OSError, WireError):
            return False
        return wanted <= set(known)

    def _properties(self, node: Node) -> dict[str, str]:
        listeners = ",".join(f"{name}://{self.host}:{port}" for name, port in node.ports.items())
        told = node.ports | node.advertised
        advertised = ",".join(
            f"{name}://{self.host}:{port}" for name, port in told.items() if name != "CONTROLLER"
        )
        voters = ",".join(f"{n.node_id}@{self.host}:{n.ports['CONTROLLER']}" for n in self.nodes)
        copies = str(min(3, len(self.nodes)))
        in_sync = str(min(2, len(self.nodes)))
        found = {
            **_DEFAULTS,
            "process.roles": "broker,controller",
            "node.id": str(node.node_id),
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": listeners,
            "advertised.listeners": advertised,
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in _LISTENERS.items()
            )
            + ",CONTROLLER:PLAINTEXT,PROXIED:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": ",".join(map(str, self._log_dirs(node))),
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": in_sync,
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": in_sync,
        }
        if len(self.nodes) > 1:
            found["broker.rack"] = f"rack-{node.node_id}"
        if self.version.startswith("3."):
            found = {key: value for key, value in found.items() if not key.startswith("share.")}
        if self.secure:
            found |= self._security()
        if self.authorizer:
            found |= _AUTHORIZER
        return found | self.configs

    def _security(self) -> dict[str, str]:
        users = " ".join(f'user_{name}="{secret}"' for name, secret in USERS.items())
        jaas = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        lines = {"PLAIN": jaas, **dict.fromkeys(_SCRAM, scram), "OAUTHBEARER": _OAUTHBEARER}
        return {
            "sasl.enabled.mechanisms": ",".join(lines),
            **{
                f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config": line
                for listener in ("sasl_plaintext", "sasl_ssl")
                for mechanism, line in lines.items()
            },
            "listener.name.mutual_tls.ssl.client.auth": "required",
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self.certificates / f"{self.keystore}.p12"),
            "ssl.keystore.password": PASSWORD,
            "ssl.key.password": PASSWORD,
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(self.certificates / "truststore.p12"),
            "ssl.truststore.password": PASSWORD,
        }


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if process.poll() is None:
        os.kill(process.pid, number)
