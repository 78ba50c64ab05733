"""EmbeddedBroker: Kafka in this process, for starting, for tests, and for use on one machine.

    with EmbeddedBroker(nodes=3) as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        with broker.faults.on("Produce").then_disconnect():
            ...

Real sockets, so any client works with it. Nodes, leaders and faults are moved at run time. The
broker itself is native; this module is its Python face.

What is deliberately absent: replication, as several nodes share one log each partition, and logs
that outlive the process, as all of them are in memory.
"""

import os
import threading
import weakref
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from thalweg import _closing, _core
from thalweg._arguments import int_given, shown
from thalweg._group_server import GroupServer
from thalweg._suggestions import did_you_mean
from thalweg.errors import BrokerResponseError, KafkaConfigurationError, KafkaError, kafka_errors

if TYPE_CHECKING:
    from thalweg._core import _FaultAction

__all__ = ["EmbeddedBroker", "Fault", "FaultRule", "Faults"]

_CODES: Final = {str(kind.message): code for code, kind in kafka_errors.items() if code != 0}
_INT32_MAX: Final = 2**31 - 1
# Longer than any client waits.
_DELAY_MS_MAX: Final = 24 * 60 * 60 * 1000


def _code(error: int | str | type[BrokerResponseError]) -> int:
    """An error code out of a code, Kafka's name or an error class."""
    if isinstance(error, str):
        if error not in _CODES:
            hint = did_you_mean(error, _CODES)
            raise ValueError(f"no error of Kafka's protocol is called {error!r}{hint}")
        return _CODES[error]
    if isinstance(error, type) and issubclass(error, KafkaError):
        code = getattr(error, "errno", None)
        if code is None:
            raise ValueError(f"{error.__name__} has no error code")
        return _code(code)
    if not hasattr(error, "__index__") or isinstance(error, bool):
        raise TypeError(
            "error must be an error code, Kafka's name of one, or a class of thalweg.errors,"
            f" got {shown(error)}"
        )
    if error not in _CODES.values():
        raise ValueError(f"no error of Kafka's protocol has the code {error}")
    return error


def _api(api: str | None, native: _core.EmbeddedBroker) -> str | None:
    """The name of an API, checked."""
    if api is None:
        return None
    if not isinstance(api, str):
        raise TypeError(f"api must be the name of a Kafka API, or None, got {shown(api)}")
    known = native.api_names()
    if api not in known:
        raise ValueError(f"there is no Kafka API named {api!r}{did_you_mean(api, known)}")
    return api


class Fault:
    """A fault that was set; as a context manager it is removed at the end of the block."""

    def __init__(self, native: _core.EmbeddedBroker, number: int) -> None:
        self._native = native
        self._number = number

    @property
    def hits(self) -> int:
        """How often it has applied."""
        return self._native.fault_hits(self._number)

    def remove(self) -> None:
        """Takes it back; it may be used up already."""
        self._native.remove_fault(self._number)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()


class FaultRule:
    """Which requests a fault is for; `then_...` says what happens to them."""

    def __init__(
        self,
        native: _core.EmbeddedBroker,
        api: str | None,
        node: int | None,
        topic: str | None,
    ) -> None:
        if node is not None:
            nodes = native.nodes
            int_given(node, "node", nodes[0], nodes[-1])
        if topic is not None and not isinstance(topic, str):
            raise TypeError(f"topic must be a str or None, got {shown(topic)}")
        self._native = native
        self._api, self._node, self._topic = _api(api, native), node, topic

    def _add(
        self,
        action: "_FaultAction",
        times: int | None,
        error_code: int = 0,
        delay_ms: int = 0,
    ) -> Fault:
        if times is not None:
            times = int_given(times, "times", 1, _INT32_MAX)
        number = self._native.add_fault(
            self._api, action, self._node, self._topic, error_code, delay_ms, times
        )
        return Fault(self._native, number)

    def then_fail(
        self, error: int | str | type[BrokerResponseError], times: int | None = 1
    ) -> Fault:
        """Answers with an error and does nothing else.

        Args:
            error: A code, Kafka's name of it, or a class of thalweg.errors.
            times: How many requests; None: all until it is removed.

        Raises:
            ValueError: If Kafka has no such error, or times is below 1.
            TypeError: If an argument is of another type.
        """
        return self._add("fail", times, error_code=_code(error))

    def then_delay(self, ms: int, times: int | None = 1) -> Fault:
        """Holds the answer back for so many milliseconds, a day at most."""
        return self._add("delay", times, delay_ms=int_given(ms, "ms", 0, _DELAY_MS_MAX))

    def then_disconnect(self, times: int | None = 1) -> Fault:
        """Closes the connection before the request is looked at."""
        return self._add("disconnect", times)

    def apply_then_disconnect(self, times: int | None = 1) -> Fault:
        """Does what was asked, and closes the connection before answering."""
        return self._add("apply_then_disconnect", times)

    def then_silence(self, times: int | None = 1) -> Fault:
        """Takes the request and never answers."""
        return self._add("silence", times)


class Faults:
    """Faults on demand, applied in the order in which they were set."""

    def __init__(self, native: _core.EmbeddedBroker) -> None:
        self._native = native

    def on(
        self, api: str | None = None, node: int | None = None, topic: str | None = None
    ) -> FaultRule:
        """Requests that a fault is for.

        Args:
            api: Kafka's name ("Produce"); None: all requests. "WriteTxnMarkers" also stands for
                what the transaction coordinator does without a request: a delay keeps each
                transaction from being complete for so long, any other fault for a moment.
            node: Only at this node.
            topic: Only requests that name this topic.

        Raises:
            ValueError: If Kafka has no such API, or the broker no such node.
            TypeError: If an argument is of another type.
        """
        return FaultRule(self._native, api, node, topic)

    def clear(self) -> None:
        """Takes all faults back."""
        self._native.clear_faults()


class EmbeddedBroker:
    """A Kafka cluster of one or more nodes in this process.

    Args:
        nodes: Number of brokers.
        port: Of the first; the others follow. 0: any free ports.
        host: Address to listen at.
        configs: Kafka's broker options by their dotted names; start() checks them. Two more are
            its own: thalweg.memory.max.bytes, and thalweg.transaction.version (0 to 2), a feature
            that Kafka keeps elsewhere.

    Raises:
        TypeError: If nodes or port is no int.
        ValueError: If there is not at least one node, or no such port.
    """

    def __init__(
        self,
        nodes: int = 1,
        port: int = 0,
        host: str = "127.0.0.1",
        configs: Mapping[str, Any] | None = None,
    ) -> None:
        self._options = options = {name: str(value) for name, value in (configs or {}).items()}
        int_given(nodes, "nodes", 1, 65535)
        int_given(port, "port", 0, 65535)
        self._native = _core.EmbeddedBroker(nodes, port, host, options)
        self._groups = GroupServer(self._native)
        self._end: weakref.finalize[Any, Any] | None = None
        self._starting = threading.Lock()
        self._pid = os.getpid()
        self.faults = Faults(self._native)

    def start(self) -> Self:
        """Listens; returns once every node accepts connections. A second call does nothing.

        Raises:
            KafkaConfigurationError: If an option is not known, a value is none for its option, or
                the nodes need ports above 65535.
            OSError: If a port is taken or the host cannot be listened at.
            IllegalStateError: After close().
        """
        self._check_names()
        self._native.start()
        with self._starting:  # only after the line above has refused a forked child
            if self._end is None:
                self._groups.start()
                # The thread keeps the native broker: one that nobody closed ends with this object.
                self._end = weakref.finalize(self, _end, self._native, self._groups, self._pid)
                self._end.atexit = False  # its clients end before it
                _closing.watch_broker(self)
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
        """Stops all nodes. A second call does nothing, and neither does one in a forked child."""
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
    def bootstrap_servers(self) -> str:
        """'host:port' of all nodes, joined by commas; IllegalStateError before start()."""
        return self._native.bootstrap_servers

    @property
    def host(self) -> str:
        """The address listened at."""
        return self._native.host

    @property
    def nodes(self) -> list[int]:
        """Node ids."""
        return self._native.nodes

    @property
    def ports(self) -> list[int]:
        """One a node."""
        return self._native.ports

    @property
    def running(self) -> bool:
        """Between start() and close()."""
        return self._native.running

    def create_topic(
        self,
        name: str,
        num_partitions: int = 1,
        configs: Mapping[str, Any] | None = None,
        replication_factor: int = 1,
    ) -> None:
        """Makes a topic.

        Args:
            name: Its name.
            num_partitions: Number of partitions.
            configs: Kafka's topic options by their dotted names.
            replication_factor: What metadata tells of; there is one copy all the same.

        Raises:
            TopicAlreadyExistsError: If there is one.
            InvalidTopicError: If the name is not allowed.
        """
        options = {option: str(value) for option, value in (configs or {}).items()}
        self._native.create_topic(name, num_partitions, replication_factor, options)

    def delete_topic(self, name: str) -> None:
        """Deletes a topic; UnknownTopicOrPartitionError if there is none."""
        self._native.delete_topic(name)

    def topics(self) -> dict[str, int]:
        """{topic: number of partitions}."""
        return self._native.topics()

    def leader(self, partition: tuple[str, int]) -> int:
        """Node id of a partition's leader."""
        return self._native.leader(partition)

    def move_leader(self, partition: tuple[str, int], node: int) -> None:
        """Makes a node the leader of a partition; the leader epoch grows."""
        self._native.move_leader(partition, node)

    def move_coordinator(self, key: str, node: int) -> None:
        """Has a node coordinate the group and the transactional id of this name, while it lives.

        What they hold stays; other nodes answer NOT_COORDINATOR.
        """
        self._native.move_coordinator(key, node)

    def stop_node(self, node: int) -> None:
        """Closes a node's connections and its port; its partitions get other leaders."""
        self._native.stop_node(node)

    def start_node(self, node: int) -> None:
        """Has a stopped node listen at its port again."""
        self._native.start_node(node)

    def requests(self, api: str | None = None) -> dict[str, int]:
        """{API name: requests that came since start()}, those that a fault left unanswered too.

        Raises:
            ValueError: If Kafka has no such API.
        """
        return self._native.requests(_api(api, self._native))

    def __repr__(self) -> str:
        if os.getpid() != self._pid:
            return f"<EmbeddedBroker of process {self._pid}>"
        where = self.bootstrap_servers if self.running else "not running"
        return f"<EmbeddedBroker of {len(self.nodes)} nodes, {where}>"


def _end(native: _core.EmbeddedBroker, groups: GroupServer, pid: int) -> None:
    """Also at exit, that of a forked child among them, to which nothing here belongs."""
    if os.getpid() == pid:
        native.close()
        groups.join()
