"""Rules between options: contradictions, and defaults that depend on other options.

Each rule reads the coerced values and the names that the user gave. It adds a problem (one error
reports all problems), adds a warning, or changes a value that the user left at its default. Each
rule names its source.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from thalweg._config.findings import Findings, IgnoredOptionWarning
from thalweg._config.sasl_rules import SaslRules
from thalweg._config.tls_rules import TlsRules

__all__ = ["apply_rules"]

_NAMES: Final = (
    "client_id",
    "client_rack",
    "group_id",
    "group_instance_id",
    "group_remote_assignor",
    "transactional_id",
)
_NAME_BYTES_MAX: Final = 32767
_LEVELS: Final = {"gzip": (1, 9), "lz4": (1, 17), "zstd": (-131072, 22)}


class _Rules:
    """The rules, with the values of the client that they check."""

    def __init__(self, values: dict[str, Any], explicit: frozenset[str], found: Findings) -> None:
        self.values, self.explicit, self.found = values, explicit, found

    # -------------------------------------------------------------- all clients

    def backoff(self) -> None:
        """A first wait must not exceed its maximum.

        If the user gave only one of the two, the other one becomes equal
        (CommonClientConfigs.postProcessReconnectBackoff).
        """
        pairs = (
            ("reconnect_backoff_ms", "reconnect_backoff_max_ms"),
            ("retry_backoff_ms", "retry_backoff_max_ms"),
            ("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"),
        )
        for first, greatest in pairs:
            if self.values[first] <= self.values[greatest]:
                continue
            if greatest not in self.explicit:
                self.values[greatest] = self.values[first]
            elif first not in self.explicit:
                self.values[first] = self.values[greatest]
            else:
                self.found.problem(
                    f"{first} ({self.values[first]}) must not be larger than {greatest}"
                    f" ({self.values[greatest]})"
                )

    def names(self) -> None:
        """A request can contain names of at most 32767 bytes (Kafka's protocol)."""
        for name in _NAMES:
            size = len((self.values.get(name) or "").encode(errors="surrogatepass"))
            if size > _NAME_BYTES_MAX:
                self.found.problem(
                    f"{name} has {size} bytes, more than {_NAME_BYTES_MAX}: choose a shorter one"
                )

    def timeouts(self) -> None:
        """The idle timeout must not close a connection that waits for a response (kafka-python)."""
        idle, request = self.values["connections_max_idle_ms"], self.values["request_timeout_ms"]
        if idle != -1 and request >= idle:
            self.found.problem(
                f"connections_max_idle_ms ({idle}) must be larger than request_timeout_ms"
                f" ({request})"
            )

    def tls(self) -> None:
        """Checks the options of TLS (see `TlsRules`)."""
        if not self.values["security_protocol"].endswith("SSL"):
            self._pointless("ssl_", "has no encryption", "SSL or SASL_SSL")
            return
        TlsRules(self.values, self.explicit, self.found).check()

    def _pointless(self, prefix: str | tuple[str, ...], lack: str, instead: str) -> None:
        """Warns of security options that the security protocol does not use."""
        names = sorted(
            name
            for name in self.explicit - self.found.named
            if name.startswith(prefix) and self.values[name] is not None
        )
        if names:
            protocol = self.values["security_protocol"]
            self.found.warn(
                f"{', '.join(names)}: without effect, because security_protocol={protocol!r}"
                f" {lack}. To use them, set it to {instead}",
                IgnoredOptionWarning,
            )

    def sasl(self) -> None:
        """Checks the options of SASL (see `SaslRules`)."""
        if not self.values["security_protocol"].startswith("SASL_"):
            prefixes = "sasl_", "https_"
            self._pointless(prefixes, "does not authenticate", "SASL_PLAINTEXT or SASL_SSL")
            self.values["sasl_mechanism"] = None  # the core would refuse an unknown mechanism
            return
        SaslRules(self.values, self.explicit, self.found).check()

    def sockets(self) -> None:
        """Warns of socket options other than TCP_NODELAY, which have no effect here."""
        if "socket_options" in self.explicit and self.values["socket_options"]:
            others = [each for each in self.values["socket_options"] if tuple(each) != (6, 1, 1)]
            if others:
                self.found.warn(
                    f"socket_options: without effect, except for TCP_NODELAY. Remove {others}",
                    IgnoredOptionWarning,
                )

    # -------------------------------------------------------------- producers

    def idempotence(self) -> None:
        """Idempotence needs acks='all', retries, and at most 5 requests in flight (KIP-679).

        If the user asked for idempotence, a conflict is a problem. Otherwise idempotence is
        switched off, with a warning.
        """
        transactional = self.values["transactional_id"]
        if transactional == "":
            self.found.problem("transactional_id must not be empty")
        asked = "enable_idempotence" in self.explicit
        if transactional is not None and asked and not self.values["enable_idempotence"]:
            self.found.problem("transactional_id needs enable_idempotence=True")
            return
        if not self.values["enable_idempotence"]:
            return
        conflicts = [
            (name, reason)
            for name, wrong, reason in (
                ("acks", self.values["acks"] != -1, "acks='all'"),
                ("retries", self.values["retries"] == 0, "retries above 0"),
                (
                    "max_in_flight_requests_per_connection",
                    self.values["max_in_flight_requests_per_connection"] > 5,
                    "max_in_flight_requests_per_connection of at most 5",
                ),
            )
            if wrong
        ]
        if not conflicts:
            return
        if transactional is not None or asked:
            wish = "transactional_id" if transactional is not None else "enable_idempotence=True"
            for name, reason in conflicts:
                self.found.problem(f"{wish} needs {reason}, not {name}={self.values[name]}")
            return
        self.values["enable_idempotence"] = False
        given = " and ".join(f"{name}={self.values[name]}" for name, _ in conflicts)
        self.found.warn(
            f"idempotence is switched off, because {given} contradicts it. Retries may write a"
            " record twice or out of order. If you accept this, set enable_idempotence=False"
        )

    def delivery(self) -> None:
        """delivery_timeout_ms must be at least linger_ms + request_timeout_ms.

        The source is KafkaProducer.configureDeliveryTimeout.
        """
        least = self.values["linger_ms"] + self.values["request_timeout_ms"]
        if self.values["delivery_timeout_ms"] >= least:
            return
        text = f"linger_ms + request_timeout_ms ({least})"
        if "delivery_timeout_ms" in self.explicit:
            given = self.values["delivery_timeout_ms"]
            self.found.problem(f"delivery_timeout_ms ({given}) must be at least {text}")
            return
        self.values["delivery_timeout_ms"] = least
        self.found.warn(f"delivery_timeout_ms is raised to {text}")

    def compression(self) -> None:
        """Chooses the level from compression_level and the codec's own option (KIP-390, KIP-1155).

        A level outside the range of the codec is a problem.
        """
        codec = self.values["compression_type"]
        own = f"compression_{codec}_level"
        level = self.values["compression_level"]
        if level is None and own in self.explicit:
            level = self.values[own] if self.values[own] != -1 or codec != "gzip" else None
        elif level is not None and own in self.explicit and self.values[own] != level:
            self.found.problem(
                f"compression_level ({level}) contradicts {own} ({self.values[own]})"
            )
        self.values["compression_level"] = level
        if level is None:
            return
        if codec not in _LEVELS:
            self.found.warn(
                f"compression_level: without effect, because compression_type={codec!r} has no"
                " levels",
                IgnoredOptionWarning,
            )
            self.values["compression_level"] = None
        elif not _LEVELS[codec][0] <= level <= _LEVELS[codec][1]:
            least, most = _LEVELS[codec]
            self.found.problem(
                f"compression_level of {codec} must be from {least} to {most}, not {level}"
            )

    def memory(self) -> None:
        """A batch must fit into buffer_memory."""
        if self.values["batch_size"] > self.values["buffer_memory"]:
            self.found.problem(
                f"batch_size ({self.values['batch_size']}) must not be larger than buffer_memory"
                f" ({self.values['buffer_memory']})"
            )

    # -------------------------------------------------------------- consumers

    def fetch(self) -> None:
        """A fetch must get its response before the request times out (kafka-python).

        The largest response must also fit into receive_message_max_bytes, which is raised to it.
        """
        wait, request = self.values["fetch_max_wait_ms"], self.values["request_timeout_ms"]
        if wait >= request:
            self.found.problem(
                f"request_timeout_ms ({request}) must be larger than fetch_max_wait_ms ({wait})"
            )
        frame = self.values["fetch_max_bytes"] + self.values["max_partition_fetch_bytes"]
        frame = min(frame, 2**31 - 1)
        if self.values["receive_message_max_bytes"] < frame:
            self.values["receive_message_max_bytes"] = frame
            if "receive_message_max_bytes" in self.explicit:
                self.found.warn(
                    "receive_message_max_bytes is raised to fetch_max_bytes +"
                    f" max_partition_fetch_bytes ({frame})"
                )

    def group(self) -> None:
        """Checks the options of groups, and those that have no effect without a group."""
        if self.values["group_id"] == "":
            self.found.problem("group_id must not be empty")
        instance = self.values["group_instance_id"]
        if instance is not None:
            legal = re.fullmatch(r"[A-Za-z0-9._-]{1,249}", instance) and instance not in (".", "..")
            if not legal:
                self.found.problem(
                    "group_instance_id must be 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_'"
                    f" and '-', and not '.' or '..', not {instance!r}"
                )
            if self.values["group_id"] is None:
                self.found.problem("group_instance_id needs group_id")
        if self.values["group_id"] is None and self.values["enable_auto_commit"]:
            if "enable_auto_commit" in self.explicit:
                self.found.warn(
                    "enable_auto_commit: without effect, because group_id is not set",
                    IgnoredOptionWarning,
                )
            self.values["enable_auto_commit"] = False
        if self.values["auto_commit_marks"] and not self.values["enable_auto_commit"]:
            self.found.warn(
                "auto_commit_marks: without effect, because auto-commit is off. Call"
                " commit_marked() to commit the marked records",
                IgnoredOptionWarning,
            )
        if self.values["heartbeat_interval_ms"] >= self.values["session_timeout_ms"]:
            self.found.problem(
                f"heartbeat_interval_ms ({self.values['heartbeat_interval_ms']}) must be less than"
                f" session_timeout_ms ({self.values['session_timeout_ms']})"
            )

    def group_protocol(self) -> None:
        """Refuses options that the chosen group protocol does not have (KIP-848)."""
        if self.values["group_protocol"] == "classic":
            if self.values["group_remote_assignor"] is not None:
                self.found.problem("group_remote_assignor needs group_protocol='consumer'")
            return
        names = ("session_timeout_ms", "heartbeat_interval_ms", "partition_assignment_strategy")
        for name in names:
            if name in self.explicit:
                self.found.problem(
                    f"{name} cannot be set with group_protocol='consumer': the broker decides it"
                )

    def statistics(self) -> None:
        """Checks stats_cb, and warns of metrics options without effect."""
        stats_cb, interval = self.values["stats_cb"], self.values["statistics_interval_ms"]
        if stats_cb is not None and not callable(stats_cb):
            self.found.problem(f"stats_cb must be callable, not {stats_cb!r}")
        elif not self.values["metrics_enabled"]:
            names = ("metric_reporters", "statistics_interval_ms", "stats_cb")
            self.found.without_effect(
                [name for name in names if self.values[name]], "metrics_enabled is False"
            )
        elif stats_cb is not None and not interval:
            self.found.without_effect(["stats_cb"], "statistics_interval_ms is 0")
        elif stats_cb is None and interval:
            self.found.without_effect(["statistics_interval_ms"], "stats_cb is not set")


_COMMON: Final = (
    _Rules.backoff,
    _Rules.names,
    _Rules.timeouts,
    _Rules.tls,
    _Rules.sasl,
    _Rules.sockets,
)
_OWN: Final[dict[str, tuple[Callable[[_Rules], None], ...]]] = {
    "p": (
        _Rules.idempotence,
        _Rules.delivery,
        _Rules.compression,
        _Rules.memory,
        _Rules.statistics,
    ),
    "c": (_Rules.fetch, _Rules.group, _Rules.group_protocol, _Rules.statistics),
    "a": (),
}


def apply_rules(
    client: str,
    values: dict[str, Any],
    explicit: frozenset[str],
    found: Findings,
) -> None:
    """Runs the rules of one client over its values, changing them in place.

    Args:
        client: p, c or a.
        values: All options, coerced.
        explicit: The names of the options that the user gave.
        found: Collects the problems and warnings.
    """
    rules = _Rules(values, explicit, found)
    for rule in (*_COMMON, *_OWN[client]):
        rule(rules)
