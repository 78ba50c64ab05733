"""The thread that serves an embedded broker's consumer groups.

    broker (Rust) ── requests, expired sessions ──> coordinator/groups.py, a pure state machine
                  <── answers, views of the groups ──┘

Heartbeats and commits are answered in Rust by the views, so an application that holds the
interpreter's lock for long makes rebalances wait, and evicts nobody: each event carries the time at
which it came, and is stepped at that time, before any timer that is due by now.
"""

import logging
import threading
import uuid
from collections.abc import Mapping
from typing import Any, Final

from thalweg.coordinator.group import GroupSettings
from thalweg.coordinator.groups import Groups
from thalweg.coordinator.steps import (
    Arrived,
    Deleted,
    Forget,
    GroupAction,
    GroupEvent,
    Publish,
    Reply,
    SessionExpired,
    Ticked,
)

__all__ = ["GroupServer"]

log = logging.getLogger("thalweg.broker")

_STOP_LIMIT_S: Final = 5.0
_OPTIONS: Final = {
    "initial_rebalance_delay_ms": "group.initial.rebalance.delay.ms",
    "min_session_timeout_ms": "group.min.session.timeout.ms",
    "max_session_timeout_ms": "group.max.session.timeout.ms",
    "max_size": "group.max.size",
}


class GroupServer:
    """Serves the groups of one broker until that is closed."""

    def __init__(self, native: Any, configs: Mapping[str, str]) -> None:
        self._native = native
        given = {
            name: int(configs[dotted]) for name, dotted in _OPTIONS.items() if dotted in configs
        }
        self._groups = Groups(GroupSettings(**given), lambda: str(uuid.uuid4()))
        # A daemon: a broker that nobody closed is closed at exit, when threads that are none would
        # have been waited for already.
        self._thread = threading.Thread(target=self._serve, name="thalweg-groups", daemon=True)

    def start(self) -> None:
        """Takes the groups over from the broker."""
        self._native._serve_groups()
        self._thread.start()

    def join(self) -> None:
        """Waits for the end of the thread, once the broker is closed."""
        if self._thread is not threading.current_thread():
            self._thread.join(_STOP_LIMIT_S)

    def _serve(self) -> None:
        native = self._native
        while True:
            due = self._groups.next_deadline()
            left_ms = None if due is None else max(0, int(due - native._broker_now_ms()) + 1)
            events = native._next_group_events(left_ms)
            if events is None:
                return
            for at_ms, event in map(_read, events):
                self._step(event, at_ms)
            now = native._broker_now_ms()
            due = self._groups.next_deadline()
            if due is not None and due <= now:
                self._step(Ticked(), now)

    def _step(self, event: GroupEvent, now: float) -> None:
        try:
            actions = self._groups.step(event, now)
        except Exception:
            # A fault of ours must not end all groups: the request is answered all the same.
            log.exception("serving %r failed", event)
            if isinstance(event, Arrived):
                self._native._answer_group_request(event.token, {"ErrorCode": -1})
            return
        for action in actions:
            self._do(action, now)

    def _do(self, action: GroupAction, now: float) -> None:
        match action:
            case Reply(token, body):
                self._native._answer_group_request(token, body)
            case Publish(view):
                self._native._publish_group(view, now)
            case Forget(group_id):
                self._native._forget_group(group_id)


def _read(row: tuple[Any, ...]) -> tuple[float, GroupEvent]:
    """When it came, and what it is."""
    match row:
        case ("request", token, api, version, client_id, client_host, at_ms, _, body, draft):
            return at_ms, Arrived(token, api, version, body, client_id or "", client_host, draft)
        case ("expired", at_ms, group_id, member_id):
            return at_ms, SessionExpired(member_id, group_id)
        case ("deleted", at_ms, group_id):
            return at_ms, Deleted(group_id)
    raise ValueError(f"the broker hands over {row[0]!r}")
