"""The state machine of a member: creates it, runs its steps, and notes interruptions.

    step(event) ──> short ──> member.step ────────────┬──> act(action), in the application's thread
               └──> long ───> Work: member.step ──> finish()

    with interruptions:  ── raises ──> is_broken ── next poll ──> the driver joins the group again
        pop an event, step, act

For large groups, steps run in the background. During a long step, no other thread uses the machine:
later events wait, and properties return the values from before the step.

A signal handler, for example that of Ctrl-C, may raise between any two instructions. An event that
was taken from its queue is then lost, and the member would wait for it for ever.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from thalweg._uuids import random_base64
from thalweg.coordinator.assignors.abstract import AbstractPartitionAssignor
from thalweg.coordinator.classic.member import ClassicMember
from thalweg.coordinator.classic.requests import MemberSettings
from thalweg.coordinator.driver._waits import LONG, Work, jitter, now_ms
from thalweg.coordinator.kip848.member import ConsumerMember, ConsumerMemberSettings
from thalweg.coordinator.steps import (
    Assign,
    CommitRefused,
    MemberAction,
    MemberEvent,
    OldHeartbeatsDone,
    Polled,
    Subscribed,
    Ticked,
    TopicsChanged,
)
from thalweg.errors import KafkaError
from thalweg.structs import ConsumerGroupMetadata

if TYPE_CHECKING:
    from thalweg._config.option_types import DriverConfig

__all__ = ["Interruptions", "Member", "Stepping", "make_member"]

Member = ClassicMember | ConsumerMember


def make_member(
    config: "DriverConfig",
    group_id: str,
    assignors: Sequence[AbstractPartitionAssignor],
    member_id: str,
) -> Member:
    """Creates a member that has not joined yet, for the protocol of `group_protocol`.

    Args:
        config: The consumer's options.
        group_id: Its group.
        assignors: Those of `partition_assignment_strategy`.
        member_id: The id of an earlier member of the same consumer, or "".
    """
    if config["group_protocol"] == "consumer":
        return ConsumerMember(
            ConsumerMemberSettings(
                group_id=group_id,
                member_id=member_id or random_base64(),
                instance_id=config["group_instance_id"],
                rack_id=config["client_rack"] or None,
                server_assignor=config["group_remote_assignor"],
                max_poll_interval_ms=config["max_poll_interval_ms"],
                rebalance_timeout_ms=config["rebalance_timeout_ms"],
                request_timeout_ms=config["request_timeout_ms"],
                retry_backoff_ms=config["retry_backoff_ms"],
                retry_backoff_max_ms=config["retry_backoff_max_ms"],
            ),
            jitter,
        )
    settings = MemberSettings(
        group_id=group_id,
        group_instance_id=config["group_instance_id"],
        client_rack=config["client_rack"],
        session_timeout_ms=config["session_timeout_ms"],
        heartbeat_interval_ms=config["heartbeat_interval_ms"],
        max_poll_interval_ms=config["max_poll_interval_ms"],
        rebalance_timeout_ms=config["rebalance_timeout_ms"],
        request_timeout_ms=config["request_timeout_ms"],
        retry_backoff_ms=config["retry_backoff_ms"],
        retry_backoff_max_ms=config["retry_backoff_max_ms"],
    )
    return ClassicMember(settings, assignors, jitter, member_id)


@dataclass(frozen=True, slots=True)
class _Shown:
    """The properties of a machine."""

    group_metadata: ConsumerGroupMetadata
    commit_refusal: KafkaError | None
    is_settled: bool
    next_deadline: float | None


class Stepping:
    """A state machine and its queue of events.

    Args:
        member: The state machine.
        act: Does an action of a step.
        on_done: Called by any thread when a long step has ended and `finish` has work to do.
        may_be_long: Whether other threads may run the machine. Not if it runs the user's code.

    Attributes:
        at_once: Whether no more steps run in the background.
    """

    def __init__(
        self,
        member: Member,
        act: Callable[[MemberAction], None],
        on_done: Callable[[object], object],
        *,
        may_be_long: bool,
    ) -> None:
        self._member = member
        self._act = act
        self._on_done = on_done
        self._may_be_long = may_be_long
        self._events: deque[MemberEvent] = deque()
        # The actions of the step, and whether anything has changed.
        self._work: Work[tuple[list[MemberAction], bool]] | None = None
        self._shown: _Shown | None = None
        self._topics = self._partitions = 0
        self._is_new = False  # whether no poll has followed the last change of topics
        self.at_once = False

    # ------------------------------------------------------------------ properties

    @property
    def group_metadata(self) -> ConsumerGroupMetadata:
        """The membership, as in commits."""
        return self._show().group_metadata

    @property
    def commit_refusal(self) -> KafkaError | None:
        """Why the member cannot commit now, or None."""
        shown = self._shown
        return self._member.commit_refusal() if shown is None else shown.commit_refusal

    @property
    def is_settled(self) -> bool:
        """Whether no change of the assignment is in progress."""
        return self._shown is None and not self._events and self._member.is_settled

    @property
    def next_deadline(self) -> float | None:
        """When the machine needs a `Ticked`. None during a long step."""
        return None if self._shown else self._member.next_deadline()

    @property
    def unfinished(self) -> Work[tuple[list[MemberAction], bool]] | None:
        """The step in the background that `finish` has not completed yet."""
        return self._work

    def _show(self) -> _Shown:
        if self._shown is not None:
            return self._shown
        member = self._member
        return _Shown(
            member.group_metadata(),
            member.commit_refusal(),
            member.is_settled,
            member.next_deadline(),
        )

    # ------------------------------------------------------------------ steps

    def step(self, event: MemberEvent) -> None:
        """Handles an event, after the events before it."""
        self._events.append(event)
        self.finish()  # a long step may have ended when there was no next event
        self._go_on()

    def finish(self, *, wait: bool = False) -> None:
        """Does the actions of a finished long step, then handles the next events.

        Args:
            wait: Whether to wait until no step runs.
        """
        while self._work is not None and (wait or self._work.is_done):
            work, self._work, self._shown = self._work, None, None
            for action in work.result()[0]:
                self._do(action)
            self._go_on()

    def _go_on(self) -> None:
        while self._work is None and self._events:
            event = self._events.popleft()
            if self._is_long(event):
                self._begin(event)
                return
            for action in self._member.step(event, now_ms()):
                self._do(action)

    def _do(self, action: MemberAction) -> None:
        if isinstance(action, Assign):
            self._partitions = len(action.assigned)
        self._act(action)

    def _begin(self, event: MemberEvent) -> None:
        self._shown = self._show()
        deadline = self._shown.next_deadline
        member, now = self._member, now_ms()

        def compute() -> tuple[list[MemberAction], bool]:
            actions = member.step(event, now)
            return actions, bool(actions) or member.next_deadline() != deadline

        def done(work: Work[tuple[list[MemberAction], bool]]) -> None:
            # A poll that changed nothing must not cause another one: that would never end.
            is_idle = isinstance(event, Polled) and not self._events
            if work.error is not None or work.result()[1] or not is_idle:
                self._on_done(None)

        self._work = Work(compute)
        self._work.add_done_callback(done)

    def _is_long(self, event: MemberEvent) -> bool:
        match event:
            case Subscribed(topics):
                self._topics, self._is_new = len(topics), True
            case TopicsChanged(partitions):
                self._topics, self._is_new = len(partitions), True
            case Ticked() | CommitRefused() | OldHeartbeatsDone():
                return False
            case Polled():
                is_new, self._is_new = self._is_new, False
                if self._member.is_settled and not is_new:
                    return False
        size = max(self._topics, self._partitions)
        return size >= LONG and self._may_be_long and not self.at_once


class Interruptions:
    """Notes whether something raised within its `with` blocks, which may be nested.

    Attributes:
        is_broken: Whether an event may be lost.
        harmless: An exception that loses nothing: a listener raised it.
    """

    def __init__(self) -> None:
        self.is_broken = False
        self.harmless: BaseException | None = None

    def __enter__(self) -> None:
        """Begins something that must not be interrupted."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The driver raises a KafkaError only after it has handled the event.
        if error is not None and error is not self.harmless and not isinstance(error, KafkaError):
            self.is_broken = True
        self.harmless = None  # it would keep the variables of the listener alive
