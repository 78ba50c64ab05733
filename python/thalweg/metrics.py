"""Metrics of clients under Kafka's names, reporters, and the statistics callback.

    client.metrics()   {group: {name: value}}, the current values
    metric_reporters   objects that get all metrics, and may read their values at any time
    stats_cb           a function that gets all metrics every statistics_interval_ms

The native core counts requests, responses and polls. coordinator/driver counts commits and
rebalances. No code in this module runs for each record. docs/metrics.md has a reporter for
Prometheus. The callback thread calls reporters and `stats_cb`. If they raise, the client logs the
exception.

There is no JMX, and no registry for the application's own metrics.
"""

import logging
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from math import nan
from typing import Any, Final, NamedTuple

__all__ = ["KafkaMetric", "MetricName", "MetricsReporter", "Watch", "snapshot"]

log = logging.getLogger(__name__)

_Groups = Mapping[str, Mapping[str, float]]

# How often reporters learn of new metrics, for example of a newly connected node or a new topic.
_REFRESH_SECONDS: Final = 1.0
# A reporter that reads several metrics in a row gets values of one moment: the snapshot is reused
# for this long, or until the reporter reads the same metric again.
_FRESH_SECONDS: Final = 0.05
# How long close() waits for a reporter that the callback thread has called. The reporter may itself
# wait for the thread that closes.
_CLOSE_SECONDS: Final = 1.0


class MetricName(NamedTuple):
    """The name of a metric (org.apache.kafka.common.MetricName).

    Attributes:
        name: For example "record-send-rate".
        group: For example "producer-metrics" or "producer-topic-metrics".
        tags: Pairs such as ("client-id", "shop"), ("topic", "orders").
    """

    name: str
    group: str
    tags: tuple[tuple[str, str], ...] = ()


class KafkaMetric:
    """A metric (org.apache.kafka.common.metrics.KafkaMetric)."""

    __slots__ = ("_read", "metric_name")

    def __init__(self, metric_name: MetricName, read: Callable[[], float]) -> None:
        self.metric_name = metric_name
        self._read = read

    def value(self) -> float:
        """Returns the current value. NaN if nothing happened, or if the metric no longer exists."""
        return self._read()

    def __repr__(self) -> str:
        return f"<KafkaMetric {self.metric_name.group} {self.metric_name.name}={self.value()}>"


class MetricsReporter:
    """Reports a client's metrics (org.apache.kafka.common.metrics.MetricsReporter).

    Give a reporter in the option `metric_reporters`, as an instance, a class or a dotted name. You
    need not derive from this class: the client does not call methods that are missing.
    """

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Called first, with the client's options, without secrets."""

    def init(self, metrics: list[KafkaMetric]) -> None:
        """Called once, with all metrics that exist when you create the client."""

    def metric_change(self, metric: KafkaMetric) -> None:
        """Called for a new metric, within about a second."""

    def metric_removal(self, metric: KafkaMetric) -> None:
        """Called when a metric is removed, for example if a node gets no requests for an hour."""

    def close(self) -> None:
        """Called when the client is closed. The last values are still readable."""


def named(groups: _Groups, client_id: str) -> dict[MetricName, float]:
    """Returns the metrics of `_core`'s groups by their full names."""
    found = {}
    for group, values in groups.items():
        base, _, about = group.partition(".")
        tags = [("client-id", client_id)]
        if base.endswith("-node-metrics"):
            tags.append(("node-id", about))
        elif base.endswith("-topic-metrics"):
            tags.append(("topic", about))
        elif about:
            topic, _, partition = about.rpartition("-")
            tags += [("topic", topic), ("partition", partition)]
        for name, value in values.items():
            found[MetricName(name, base, tuple(tags))] = value
    return found


def snapshot(groups: _Groups, config: Mapping[str, Any], raw: bool) -> Any:
    """Returns the result of a client's `metrics(raw)`."""
    if not config["metrics_enabled"]:
        return None
    if not raw:
        return groups
    return {
        name: KafkaMetric(name, lambda value=value: value)  # type: ignore[misc]
        for name, value in named(groups, config["client_id"]).items()
    }


class Watch:
    """Calls the reporters and the `stats_cb` of one client, until the client is closed.

    It does not keep the client alive.

    Args:
        client: Has `metrics()`, {group: {name: metric}}.
        config: The client's options.
        kind: "producer" or "consumer".
    """

    def __init__(self, client: Any, config: Any, kind: str) -> None:
        self._client = weakref.ref(client)
        self._client_id: str = config["client_id"]
        self._kind = kind
        self._began = time.monotonic()
        self._read_at = float("-inf")
        self._values: dict[MetricName, float] = {}
        self._seen: set[MetricName] = set()
        self._told: dict[MetricName, KafkaMetric] = {}
        self._timers: list[Any] = []
        # Held during calls of reporters. One of them may close the client.
        self._telling = threading.RLock()
        enabled = config["metrics_enabled"]
        self._stats_cb = config["stats_cb"] if enabled else None
        self._reporters = list(config["metric_reporters"]) if enabled else []
        if self._reporters:
            _call(self._reporters, "configure", config.public())
            self._told = {name: self._metric(name) for name in self._read_all()}
            _call(self._reporters, "init", list(self._told.values()))
            self._every(_REFRESH_SECONDS, self.refresh)
        if self._stats_cb is not None and config["statistics_interval_ms"]:
            self._every(config["statistics_interval_ms"] / 1000, self.tell_statistics)

    def close(self) -> None:
        """Reports the last changes and closes the reporters. A second call does nothing."""
        self._stop_timers()
        # A stopped timer may still be running.
        is_alone = self._telling.acquire(timeout=_CLOSE_SECONDS)
        try:
            reporters = self._reporters.copy()
            # In place, so that a refresh that has begun calls no reporter any more.
            self._reporters.clear()
            if reporters:
                self._tell_changes(reporters)
                _call(reporters, "close")
        finally:
            if is_alone:
                self._telling.release()

    def refresh(self) -> None:
        """Tells the reporters which metrics are new and which are gone."""
        if self._client() is None:
            self._stop_timers()
            return
        # It does not wait for a close(), whose reporters may wait for this thread.
        if self._telling.acquire(blocking=False):
            try:
                self._tell_changes(self._reporters)
            finally:
                self._telling.release()

    def _tell_changes(self, reporters: list[Any]) -> None:
        now = self._read_all()
        for name in [name for name in list(self._told) if name not in now]:
            # Without reporters, a close() meanwhile tells them of the rest.
            if reporters and (metric := self._told.pop(name, None)):
                _call(reporters, "metric_removal", metric)
        for name in [name for name in now if name not in self._told]:
            if reporters and name not in self._told:
                self._told[name] = self._metric(name)
                _call(reporters, "metric_change", self._told[name])

    def tell_statistics(self) -> None:
        """Calls `stats_cb`. Logs an exception."""
        client = self._client()
        if client is None:
            self._stop_timers()
            return
        assert self._stats_cb is not None
        try:
            self._stats_cb(self._statistics(client.metrics()))
        except Exception:
            log.exception("stats_cb raised")

    def _statistics(self, groups: _Groups) -> dict[str, Any]:
        """Returns librdkafka's statistics under its names, and all metrics under Kafka's names."""
        mine = groups[f"{self._kind}-metrics"]
        found: dict[str, Any] = {
            "name": self._client_id,
            "client_id": self._client_id,
            "type": self._kind,
            "ts": int(time.monotonic() * 1e6),
            "time": int(time.time()),
            "age": int((time.monotonic() - self._began) * 1e6),
            "tx": int(mine["request-total"]),
            "tx_bytes": int(mine["outgoing-byte-total"]),
            "rx": int(mine["response-total"]),
            "rx_bytes": int(mine["incoming-byte-total"]),
        }
        if self._kind == "producer":
            prefix = "producer-topic-metrics."
            topics = [rows for group, rows in groups.items() if group.startswith(prefix)]
            found["txmsgs"] = int(mine["record-send-total"])
            found["txmsg_bytes"] = int(sum(rows["byte-total"] for rows in topics))
        else:
            fetched = groups["consumer-fetch-manager-metrics"]
            found["rxmsgs"] = int(fetched["records-consumed-total"])
            found["rxmsg_bytes"] = int(fetched["bytes-consumed-total"])
        found["metrics"] = groups
        return found

    def _metric(self, name: MetricName) -> KafkaMetric:
        return KafkaMetric(name, lambda: self._read(name))

    def _read(self, name: MetricName) -> float:
        """Returns the value of a metric, or its last value if the client is closed."""
        is_old = time.monotonic() - self._read_at >= _FRESH_SECONDS
        if self._reporters and (is_old or name in self._seen):
            self._read_all()
            self._read_at = time.monotonic()
        self._seen.add(name)
        return self._values.get(name, nan)

    def _read_all(self) -> dict[MetricName, float]:
        client = self._client()
        if client is not None:
            self._values = named(client.metrics(), self._client_id)
        self._seen = set()
        self._read_at = float("-inf")
        return self._values

    def _every(self, seconds: float, f: Callable[[], None]) -> None:
        from thalweg import _core

        self._timers.append(_core.call_every(seconds, f))

    def _stop_timers(self) -> None:
        timers, self._timers = self._timers, []
        for timer in timers:
            timer.cancel()


def _call(reporters: list[Any], method: str, *args: Any) -> None:
    for reporter in reporters:
        f = getattr(reporter, method, None)
        if f is None:
            continue
        try:
            f(*args)
        except Exception:
            log.exception("%s() of the metrics reporter %r raised", method, reporter)
