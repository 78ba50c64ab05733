"""A fake extension module, which records its arguments and returns the responses that a test sets.

It is for Python code only: how options, hooks and calls reach the core, and what happens to
responses. Tests of Kafka's behavior use the real module.
"""

from __future__ import annotations

import importlib
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, ClassVar, Generic, TypeVar

from thalweg.errors import IllegalStateError, KafkaTimeoutError
from thalweg.structs import BrokerMetadata, OffsetAndMetadata, TopicPartition

K = TypeVar("K")
V = TypeVar("V")


class PendingRequest:
    def __init__(self) -> None:
        self.is_done = False
        self.response: Any = None
        self.response_bytes = 0
        self.callbacks: list[Callable[[Any], object]] = []

    def complete(self, response: Any) -> None:
        self.is_done, self.response = True, response
        for callback in self.callbacks:
            callback(self)

    def result(self, timeout_ms: int | None = None) -> dict[str, Any]:
        if not self.is_done:
            raise KafkaTimeoutError("no response")
        if isinstance(self.response, Exception):
            raise self.response
        response: dict[str, Any] = self.response
        return response

    def add_done_callback(self, f: Callable[[Any], object]) -> None:
        if self.is_done:
            f(self)
        else:
            self.callbacks.append(f)


class ClusterMetadata:
    """Knows the given topics and their numbers of partitions."""

    def __init__(self, partitions: dict[str, int], update_version: int) -> None:
        self._partitions, self.update_version = partitions, update_version

    def topics(self, exclude_internal_topics: bool = True) -> set[str]:
        return set(self._partitions)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        count = self._partitions.get(topic)
        return None if count is None else set(range(count))

    def has_more_partitions(self, known: dict[str, int]) -> bool:
        return any(count > known.get(name, count) for name, count in self._partitions.items())


class Client:
    """`responses[api]` is a response, an exception, a function of the body, or a list of these."""

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        self.config = config
        self.responses: dict[str, Any] = {}
        self.requests: list[tuple[str, dict[str, Any], Any]] = []
        self.versions: dict[str, Any] = {}
        self.forgotten: list[tuple[str, str]] = []
        self.held: list[PendingRequest] | None = None  # a list: responses wait for the test
        self.closed = False

    def _response(self, api: str, body: dict[str, Any]) -> Any:
        found = self.responses[api]
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        return found(body) if callable(found) else found

    def submit(
        self,
        api: str,
        body: Any,
        node: Any = "any",
        version: int | None = None,
        timeout_ms: int | None = None,
        max_version: int | None = None,
    ) -> PendingRequest:
        if self.closed:
            raise IllegalStateError("closed")
        if isinstance(body, list):
            agreed = self.negotiate(api, node, max_version)
            body = max((each for each in body if each[0] <= agreed), key=lambda each: each[0])[1]
        self.requests.append((api, body, node))
        pending = PendingRequest()
        if self.held is not None:
            self.held.append(pending)
        else:
            pending.complete(self._response(api, body))
        return pending

    def request(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return self.submit(*args, **kwargs).result()

    def negotiate(self, api: str, node: Any = "any", max_version: int | None = None) -> int:
        found: Any = self.versions.get(api, 99)
        if isinstance(found, Exception):
            raise found
        version: int = found if max_version is None else min(found, max_version)
        return version

    def metadata(
        self, topics: list[str] | None = None, timeout_ms: int | None = None
    ) -> dict[str, Any]:
        return self.request("Metadata", {"Topics": topics})

    def explained(self, text: str, api: str, code: int, resource: str) -> str:
        return f"{text} User:me needs a right for {api} {resource}".rstrip()

    def forget_coordinator(self, kind: str, key: str) -> None:
        self.forgotten.append((kind, key))

    def forget_controller(self) -> None:
        self.forgotten.append(("controller", ""))

    def watch_cluster_id(self, f: Callable[[str], object]) -> None:
        f("cluster-1")

    def nodes(self) -> list[BrokerMetadata]:
        return [BrokerMetadata(1, "h", 1), BrokerMetadata(2, "h", 2)]

    def cluster(self) -> Any:
        return self.responses.get("cluster", ClusterMetadata({}, 0))

    def api_versions(self, node: Any = "any") -> dict[str, tuple[int, int]]:
        return {"Produce": (0, 12)}

    def bootstrap_connected(self) -> bool:
        return True

    def metrics(self) -> dict[str, dict[str, float]]:
        return {"admin-client-metrics": {"request-total": 1.0}}

    def close(self, timeout_ms: int | None = None) -> None:
        self.closed = True


class Timer:
    """Never runs automatically: tests call `f`."""

    def __init__(self, seconds: float, f: Callable[[], object]) -> None:
        self.seconds, self.f, self.cancelled = seconds, f, False

    def cancel(self) -> None:
        self.cancelled = True


class _Opened:
    figures: ClassVar[dict[str, dict[str, float]]] = {"group": {"name": 1.0}}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise AssertionError("a subclass without __init__")

    def _open(self, config: dict[str, Any], hooks: Any = None) -> None:
        self.core_config, self.hooks, self.closed = config, hooks, False
        self.client = self._core_client = Client(config)
        self.calls: list[Any] = []

    def metrics(self) -> dict[str, dict[str, float]]:
        return self.figures

    def bootstrap_connected(self) -> bool:
        return True


class Producer(_Opened, Generic[K, V]):
    """`raises[call]` is what a transaction call raises."""

    def _transactional(self, name: str, *args: Any) -> None:
        self.calls.append((name, *args))
        error = getattr(self, "raises", {}).get(name)
        if error is not None:
            raise error

    def init_transactions(self) -> None:
        self._transactional("init")

    def begin_transaction(self) -> None:
        self._transactional("begin")

    def _send_offsets(self, rows: Any, group: Any) -> None:
        self._transactional("send_offsets", rows, group)

    def commit_transaction(self) -> None:
        self._transactional("commit")

    def abort_transaction(self) -> None:
        self._transactional("abort")

    def close(self, timeout: float | None = None) -> None:
        self.calls.append(("close", timeout))
        self.closed = True


class Consumer(_Opened, Generic[K, V]):
    """Keeps an assignment. `batches` are the results of polls."""

    def _open(self, config: dict[str, Any], hooks: Any = None) -> None:
        super()._open(config, hooks)
        self.assigned: list[TopicPartition] = []
        self.known: dict[TopicPartition, OffsetAndMetadata] = {}
        self.returned: dict[TopicPartition, tuple[int, int, int, int]] = {}
        self.waiting: list[TopicPartition] = []
        self.found: dict[TopicPartition, OffsetAndMetadata | None] = {}
        self.offsets: dict[Any, Any] = {}
        self.heard: list[tuple[Any, Any]] = []
        self.expired = False
        self.old_heartbeat = False

    def _assign(self, partitions: Any) -> None:
        self.assigned = [TopicPartition(*each) for each in partitions]
        self.calls.append(("assign", self.assigned))

    def assignment(self) -> set[TopicPartition]:
        return set(self.assigned)

    def _positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        return dict(self.known)

    def _handed_out(self, partitions: Any) -> list[tuple[int, int, int, int] | None]:
        return [self.returned.get(each) for each in partitions]

    def _awaiting_committed(self) -> list[TopicPartition]:
        return list(self.waiting)

    def _set_committed(self, offsets: Any) -> None:
        self.found.update(offsets)
        self.waiting = [each for each in self.waiting if each not in offsets]

    def _set_subscribed(self, subscribed: bool) -> None:
        self.calls.append(("subscribed", subscribed))

    def _reenter(self) -> None:
        self.calls.append("reenter")

    def wakeup(self) -> None:
        self.calls.append("wakeup")

    def _heartbeat(self, heartbeats: Any, node: Any) -> None:
        self.calls.append(("heartbeat", heartbeats, node))

    def _join(self, join: Any, timeout_ms: int, heartbeats: Any, node: Any) -> PendingRequest:
        self.calls.append(("join", heartbeats, node))
        return self.client.submit("JoinGroup", join, node, timeout_ms=timeout_ms)

    def _stop_heartbeat(self) -> None:
        self.calls.append("stop_heartbeat")

    def _notable_heartbeats(self) -> list[tuple[Any, Any, bool]]:
        told, self.heard = self.heard, []
        return [(*each, True) for each in told]

    def _old_heartbeat_is_in_flight(self) -> bool:
        return self.old_heartbeat

    def _poll_expired(self) -> bool:
        expired, self.expired = self.expired, False
        return expired

    def _begin_use(self) -> None:
        """Does nothing: there is only one thread."""

    def _end_use(self) -> None: ...

    def _hold(self, held: bool) -> None:
        self.calls.append(("hold", held))

    def _shutdown(self, timeout_ms: int | None = None) -> None:
        self.calls.append(("shutdown", timeout_ms))
        self.closed = True

    def poll(self, timeout_ms: Any = 0, max_records: Any = None) -> dict[Any, Any]:
        self.calls.append(("poll", timeout_ms, max_records))
        return {}

    def poll_arrow(self, *args: Any) -> Any:
        self.calls.append(("poll_arrow", *args))
        return RecordTable()

    def _list_offsets(self, targets: Any, timeout_ms: Any = None) -> list[Any]:
        self.calls.append(("list_offsets", targets, timeout_ms))
        return [(*target[:2], *self.offsets[target]) for target in targets]

    def __getattr__(self, name: str) -> Any:
        if name not in ("seek", "_seek_to", "_pause_partitions", "_resume_partitions"):
            raise AttributeError(name)
        return lambda *args: self.calls.append((name.removeprefix("_"), *args))

    def seek(self, *args: Any) -> None:
        self.calls.append(("seek", *args))

    def position(self, *args: Any) -> int:
        self.calls.append(("position", *args))
        return 5

    def highwater(self, partition: Any) -> int:
        return 9


class ConsumerRecord(Generic[K, V]):
    pass


class RecordTable:
    num_rows, nbytes, column_names = 0, 0, ["topic"]


class BrokerGroups:
    def serve(self) -> None:
        pass

    def options(self) -> dict[str, str]:
        return defaultdict(lambda: "1")

    def now_ms(self) -> float:
        return 0.0

    def next_events(self, timeout_ms: float | None = None) -> None:
        """Returns None: the broker is closed already."""


class BrokerFaults:
    def __init__(self, calls: list[Any]) -> None:
        self.calls = calls

    def add(self, *args: Any, **options: Any) -> int:
        self.calls.append(args + tuple(options.values()))
        return len(self.calls)

    def hits(self, fault: int) -> int:
        return fault * 10

    def remove(self, fault: int) -> None:
        self.calls.append(("remove_fault", fault))

    def clear(self) -> None:
        self.calls.append(("clear_faults",))


class EmbeddedBroker:
    def __init__(self, *args: Any) -> None:
        self.args, self.running = args, False
        self.calls: list[Any] = []
        self.nodes = list(range(1, args[0] + 1))
        self.bootstrap_servers = "127.0.0.1:9092"

    def start(self) -> None:
        self.running = True

    def close(self) -> None:
        self.running = False

    def groups(self) -> BrokerGroups:
        return BrokerGroups()

    def faults(self) -> BrokerFaults:
        return BrokerFaults(self.calls)

    def security(self) -> EmbeddedBroker:
        """Returns itself, which takes note of all calls."""
        return self

    def api_names(self) -> list[str]:
        return ["Produce", "Fetch"]

    def option_names(self) -> list[str]:
        return ["num.partitions", "message.max.bytes"]

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self.calls.append((name.removeprefix("_"), *args))


def _module() -> ModuleType:
    module = ModuleType("thalweg._core")
    kinds: tuple[type, ...] = (Producer, Consumer, Client, EmbeddedBroker, PendingRequest)
    for kind in (*kinds, ConsumerRecord, RecordTable):
        setattr(module, kind.__name__, kind)
    for name in ("FutureRecordMetadata", "FutureBatchMetadata", "BatchMetadata"):
        setattr(module, name, type(name, (), {}))
    module.timers = []  # type: ignore[attr-defined]

    def call_every(seconds: float, f: Callable[[], object]) -> Timer:
        module.timers.append(Timer(seconds, f))
        timer: Timer = module.timers[-1]
        return timer

    module.call_every = call_every  # type: ignore[attr-defined]
    module.set_log_level = lambda logger, level: None  # type: ignore[attr-defined]
    module.begin_exit = lambda: None  # type: ignore[attr-defined]
    module.stop_threads = lambda seconds: 0  # type: ignore[attr-defined]
    module.call_after_callbacks = lambda f: f()  # type: ignore[attr-defined]
    module.wait_for_callbacks = lambda seconds: None  # type: ignore[attr-defined]
    return module


_USERS = (
    "producer",
    "consumer",
    "admin",
    "admin.client",
    "broker",
    "coordinator.driver",
    "consumer._offsets",
)


@contextmanager
def installed() -> Iterator[None]:
    """Makes thalweg.producer and the others import the fake, freshly, within the block."""
    import thalweg

    names = ["thalweg._core", *(f"thalweg.{name}" for name in _USERS)]
    before = {name: sys.modules.pop(name, None) for name in names}
    attributes = {name: vars(thalweg).pop(name, None) for name in ("_core", "admin", *_USERS[:3])}
    sys.modules["thalweg._core"] = _module()
    thalweg._core = sys.modules["thalweg._core"]
    try:
        yield
    finally:
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module
        for name, module in attributes.items():
            vars(thalweg).pop(name, None)
            if module is not None:
                setattr(thalweg, name, module)


def load(name: str) -> Any:
    """Imports a module of thalweg within `installed()`."""
    return importlib.import_module(f"thalweg.{name}")
