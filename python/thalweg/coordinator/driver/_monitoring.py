"""What the driver reports about its group work: metrics, and log lines about a membership.

    requests, callbacks, commits ── took(what, ms) ──> Window of each ──> groups(), from any thread
    actions, responses of the coordinator ─────────────> GroupLog ──> joins, assignments, leaving

The metrics have Kafka's names (consumer-coordinator-metrics). Averages and rates cover
`metrics_num_samples` windows of `metrics_sample_window_ms`, as in Kafka. The native core sends and
counts the heartbeats.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from math import nan
from typing import TYPE_CHECKING, Final

from thalweg.coordinator.driver._waits import now_ms
from thalweg.coordinator.steps import Assign, Body, Lose, MemberAction, Responded, Revoke, Send
from thalweg.structs import ConsumerGroupMetadata, TopicPartition

if TYPE_CHECKING:
    from thalweg._config.option_types import DriverConfig

__all__ = ["GroupLog", "GroupMetrics", "Window"]

log = logging.getLogger("thalweg.coordinator")

# How many partitions a log line names.
_NAMED_MAX: Final = 5
_MS_PER_HOUR: Final = 3_600_000.0
_TIMED: Final = {
    "commit": ("commit-latency", "commit"),
    "JoinGroup": ("join-time", "join"),
    "SyncGroup": ("sync-time", "sync"),
    "rebalance": ("rebalance-latency", "rebalance"),
    "on_partitions_assigned": ("partition-assigned-latency", None),
    "on_partitions_lost": ("partition-lost-latency", None),
    "on_partitions_revoked": ("partition-revoked-latency", None),
}


# ---------------------------------------------------------------------- metrics


class Window:
    """The values of the last windows, and totals since the start.

    Attributes:
        total: The number of all values.
        sum: The sum of all values.
    """

    def __init__(self, num_samples: int, window_ms: float) -> None:
        self._num_samples, self._window_ms = num_samples, window_ms
        self._samples: list[list[float]] = []  # each: start, number, sum, largest
        self.total = 0
        self.sum = 0.0

    def add(self, value: float, now: float) -> None:
        """Adds a value."""
        self.total += 1
        self.sum += value
        if not self._samples or now - self._samples[-1][0] >= self._window_ms:
            self._samples.append([now, 0, 0.0, value])
        last = self._samples[-1]
        last[1:] = last[1] + 1, last[2] + value, max(last[3], value)
        self._expire(now)

    def _expire(self, now: float) -> None:
        oldest = now - self._num_samples * self._window_ms
        self._samples = [each for each in self._samples if each[0] > oldest]

    def average(self, now: float) -> float:
        """Returns the average of the windows. NaN without values."""
        self._expire(now)
        count = sum(each[1] for each in self._samples)
        return sum(each[2] for each in self._samples) / count if count else nan

    def largest(self, now: float) -> float:
        """Returns the largest value of the windows. NaN without values."""
        self._expire(now)
        return max((each[3] for each in self._samples), default=nan)

    def per_ms(self, now: float) -> float:
        """Returns values per ms. All windows except the last count as full, as in Kafka's Rate."""
        self._expire(now)
        elapsed = now - self._samples[0][0] if self._samples else 0.0
        full = int(elapsed // self._window_ms)
        elapsed += max(0, self._num_samples - 1 - full) * self._window_ms
        return sum(each[1] for each in self._samples) / max(elapsed, 1.0)


class GroupMetrics:
    """Counts and times the group work of one consumer."""

    def __init__(self, config: "DriverConfig") -> None:
        windows = config["metrics_num_samples"], float(config["metrics_sample_window_ms"])
        self._lock = threading.Lock()  # read by reporters' threads
        self._timed = {what: Window(*windows) for what in _TIMED}
        self._failed = Window(*windows)
        self._rebalance_since: float | None = None
        self._rebalanced_at: float | None = None
        self._assigned = 0
        self._in_group = config["group_id"] is not None
        self._waited_ns = {"commit-sync-time-ns-total": 0, "committed-time-ns-total": 0}

    def took(self, what: str, began_ms: float) -> None:
        """Counts a success: a commit, a request (by the name of its API) or a callback."""
        now = now_ms()
        with self._lock:
            self._timed[what].add(now - began_ms, now)

    def has(self, partitions: int) -> None:
        """Sets the number of assigned partitions."""
        with self._lock:
            self._assigned = partitions

    def waited(self, name: str, ns: int) -> None:
        """Adds time that the application has waited in a call."""
        with self._lock:
            self._waited_ns[name] += ns

    def rebalance_goes_on(self) -> None:
        """Says that the group rebalances. The first call is its start."""
        with self._lock:
            if self._rebalance_since is None:
                self._rebalance_since = now_ms()

    def rebalance_is_over(self) -> None:
        """Ends a rebalance: the new assignment is taken, and the listener was called."""
        now = now_ms()
        with self._lock:
            if self._rebalance_since is not None:
                self._timed["rebalance"].add(now - self._rebalance_since, now)
            self._rebalance_since, self._rebalanced_at = None, now

    def left(self) -> None:
        """Says that the member has left. Giving up its partitions was not a rebalance."""
        with self._lock:
            self._rebalance_since = None

    def rebalance_failed(self) -> None:
        """Counts a refused request of a rebalance. A retry may follow."""
        now = now_ms()
        with self._lock:
            self._failed.add(1.0, now)

    def groups(self) -> dict[str, dict[str, float]]:
        """Returns all metrics."""
        now = now_ms()
        with self._lock:
            found: dict[str, dict[str, float]] = {"consumer-metrics": {**self._waited_ns}}
            if self._in_group:
                found["consumer-coordinator-metrics"] = self._coordinator(now)
            return found

    def _coordinator(self, now: float) -> dict[str, float]:
        since = self._rebalanced_at
        found: dict[str, float] = {
            "assigned-partitions": self._assigned,
            "last-rebalance-seconds-ago": -1 if since is None else (now - since) // 1000,
            "rebalance-latency-total": self._timed["rebalance"].sum,
            "failed-rebalance-total": self._failed.total,
            "failed-rebalance-rate-per-hour": self._failed.per_ms(now) * _MS_PER_HOUR,
        }
        for what, (latency, counted) in _TIMED.items():
            window = self._timed[what]
            found[f"{latency}-avg"] = window.average(now)
            found[f"{latency}-max"] = window.largest(now)
            if counted is not None:
                found[f"{counted}-total"] = window.total
                hourly = counted == "rebalance"
                rate = f"{counted}-rate-per-hour" if hourly else f"{counted}-rate"
                found[rate] = window.per_ms(now) * (_MS_PER_HOUR if hourly else 1000)
        return found


# ---------------------------------------------------------------------- the log


class GroupLog:
    """Logs the events of a membership, at level INFO.

    Args:
        config: The consumer's options.
    """

    def __init__(self, config: "DriverConfig") -> None:
        self._who = f"consumer {config['client_id']} of group {config['group_id']}"

    def acts(self, action: MemberAction, group: ConsumerGroupMetadata) -> None:
        """Logs an action that the member is about to do."""
        if not log.isEnabledFor(logging.INFO):
            return
        match action:
            case Assign(assigned, added):
                self._say(group, f"is assigned {_some(assigned)}; added: {_some(added)}")
            case Revoke(partitions) if partitions:
                self._say(group, f"gives up {_some(partitions)}")
            case Lose(partitions):
                self._say(group, f"has lost {_some(partitions)}")
            case Send(leaves=True):
                log.info("%s, member %s: leaves the group", self._who, _leaver(action.body))

    def note_response(self, action: Send, response: Responded) -> None:
        """Logs a response of the coordinator."""
        body = response.body
        if body is None or body.get("ErrorCode") or not log.isEnabledFor(logging.INFO):
            return
        if action.api == "JoinGroup":
            member, generation = body["MemberId"], body["GenerationId"]
            count = len(body["Members"])
            role = f", as the leader of {count}" if body["Leader"] == member else ""
            log.info("%s, member %s: joined generation %d%s", self._who, member, generation, role)
        elif isinstance(action.body, Mapping) and action.body.get("MemberEpoch") == 0:
            member = body.get("MemberId") or action.body["MemberId"]
            log.info("%s, member %s: joined, epoch %d", self._who, member, body["MemberEpoch"])

    def _say(self, group: ConsumerGroupMetadata, what: str) -> None:
        member, number = group.member_id, group.generation_id
        log.info("%s, member %s, generation %d: %s", self._who, member, number, what)


def _leaver(body: Body) -> str:
    """Returns the member id in a LeaveGroup or ConsumerGroupHeartbeat request."""
    newest = body[0][1]["Members"][0] if isinstance(body, list) else body
    return str(newest["MemberId"])


def _some(partitions: Sequence[TopicPartition]) -> str:
    """Returns the number of partitions, and the names of the first ones."""
    if not partitions:
        return "no partitions"
    names = [f"{topic}-{number}" for topic, number in partitions[:_NAMED_MAX]]
    if len(partitions) > _NAMED_MAX:
        names.append("...")
    plural = "" if len(partitions) == 1 else "s"
    return f"{len(partitions)} partition{plural} ({', '.join(names)})"
