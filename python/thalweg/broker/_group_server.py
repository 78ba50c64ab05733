"""The thread that serves the consumer groups of an embedded broker.

    broker (Rust) ── requests, expired sessions ──> coordinator/groups.py, a pure state machine
                  <── responses, views of the groups ──┘

Rust responds to heartbeats and commits with the views. So an application that holds the
interpreter's lock for long makes rebalances wait, but evicts no member: each event carries the time
at which it came, and is stepped at that time. A timer runs once all events that came before it was
due have been stepped.
"""

import contextlib
import logging
import threading
import uuid
from collections.abc import Mapping
from typing import Any, Final

from thalweg._uuids import random_base64
from thalweg.coordinator.classic.group import GroupSettings
from thalweg.coordinator.groups import Groups
from thalweg.coordinator.kip848.group import ConsumerGroup, ConsumerGroupSettings
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
    TopicsChanged,
)

__all__ = ["GroupServer"]

log = logging.getLogger("thalweg.broker")

_STOP_LIMIT_S: Final = 5.0


class GroupServer:
    """Serves the groups of one broker until the broker is closed."""

    def __init__(self, native: Any) -> None:
        self._native = native
        self._topics = TopicsChanged({}, {})
        self._groups: Groups | None = None
        # A daemon thread: a broker that is still open is closed by atexit. The interpreter waits
        # for other threads before that, and this one would never end.
        self._thread = threading.Thread(target=self._serve, name="thalweg-groups", daemon=True)

    def start(self) -> None:
        """Starts to serve the groups. The broker must be running."""
        self._native.serve()
        options = self._native.options()
        settings = _consumer_settings(options)

        def new_consumer_group(group_id: str) -> ConsumerGroup:
            visible = self._native.visible_topics
            return ConsumerGroup(group_id, settings, random_base64, self._topics, visible)

        self._groups = Groups(_classic_settings(options), _new_id, new_consumer_group)
        self._thread.start()

    def join(self) -> None:
        """Waits for the end of the thread. Close the broker first."""
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_STOP_LIMIT_S)

    def _serve(self) -> None:
        native, groups = self._native, self._groups
        assert groups is not None, "start() has made them"
        while True:
            # The time before the look into the queue: what came until then is found there.
            now = native.now_ms()
            due = groups.next_deadline()
            events = native.next_events(None if due is None else max(0.0, due - now))
            if events is None:
                return
            for row in events:
                now, event = self._read(row)
                self._step(groups, event, now)
            # After events, `now` is when the last one came: later ones may be queued still.
            due = groups.next_deadline()
            if due is not None and due <= now:
                self._step(groups, Ticked(), now)

    def _read(self, row: tuple[Any, ...]) -> tuple[float, GroupEvent]:
        """Converts an event of the broker to (time of arrival, event)."""
        match row:
            case ("request", token, api, version, client_id, host, user, at_ms, _, body, draft):
                return at_ms, Arrived(token, api, version, body, client_id, host, draft, user)
            case ("expired", at_ms, group_id, member_id):
                return at_ms, SessionExpired(member_id, group_id)
            case ("deleted", at_ms, group_id):
                return at_ms, Deleted(group_id)
            case ("topics", at_ms):
                rows = self._native.topics()
                counts = {name: count for name, _, count in rows}
                ids = {name: topic_id for name, topic_id, _ in rows}
                self._topics = TopicsChanged(counts, {}, ids)
                return at_ms, self._topics
        raise ValueError(f"unknown event of the broker: {row[0]!r}")

    def _step(self, groups: Groups, event: GroupEvent, now: float) -> None:
        try:
            actions = groups.step(event, now)
        except Exception:
            # A defect in this code must not stop all groups.
            log.exception("serving %r failed", event)
            if isinstance(event, Arrived):
                # If a response fits no schema, the broker returns UNKNOWN_SERVER_ERROR instead.
                with contextlib.suppress(TypeError):
                    self._native.respond(event.token, None)
            return
        for action in actions:
            self._do(action, now)

    def _do(self, action: GroupAction, now: float) -> None:
        try:
            match action:
                case Reply(token, body):
                    self._native.respond(token, body)
                case Publish(view):
                    self._native.publish(view, now)
                case Forget(group_id):
                    self._native.forget(group_id)
        except Exception:
            # The group has taken its step: the other members must hear of it.
            log.exception("%s of a group failed", type(action).__name__)


def _new_id() -> str:
    return str(uuid.uuid4())


def _classic_settings(options: Mapping[str, str]) -> GroupSettings:
    return GroupSettings(
        initial_rebalance_delay_ms=int(options["group.initial.rebalance.delay.ms"]),
        min_session_timeout_ms=int(options["group.min.session.timeout.ms"]),
        max_session_timeout_ms=int(options["group.max.session.timeout.ms"]),
        max_size=int(options["group.max.size"]),
    )


def _consumer_settings(options: Mapping[str, str]) -> ConsumerGroupSettings:
    return ConsumerGroupSettings(
        session_timeout_ms=int(options["group.consumer.session.timeout.ms"]),
        heartbeat_interval_ms=int(options["group.consumer.heartbeat.interval.ms"]),
        assignment_interval_ms=int(options["group.consumer.assignment.interval.ms"]),
        max_size=int(options["group.consumer.max.size"]),
        assignors=tuple(options["group.consumer.assignors"].split(",")),
    )
