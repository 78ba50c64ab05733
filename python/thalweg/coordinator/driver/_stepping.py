"""Steps of a member's state machine: at once, or, of a large group, in the background.

    step(event) ──> short ──> member.step ────────────┬──> act(action), in the application's thread
               └──> long ───> Work: member.step ──> finish()

While a long step is under way nobody else touches the machine: later events wait their turn, and
questions are answered as of before that step.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from thalweg.coordinator.driver._background import LONG, Work
from thalweg.coordinator.driver._clock import now_ms
from thalweg.coordinator.steps import (
    Assign,
    CommitAnswered,
    MemberAction,
    MemberEvent,
    Polled,
    Subscribed,
    Ticked,
    TopicsChanged,
)
from thalweg.errors import KafkaError
from thalweg.structs import ConsumerGroupMetadata

__all__ = ["Stepping"]


@dataclass(frozen=True, slots=True)
class _Shown:
    """What a machine answers."""

    group_metadata: ConsumerGroupMetadata
    commit_refusal: KafkaError | None
    is_settled: bool
    next_deadline: float | None


class Stepping:
    """A machine and its events.

    Args:
        member: The machine.
        act: Does what a step wants done.
        on_done: Called when a long step is over and `finish` has something to do; by any thread.
        may_be_long: Whether other threads may run the machine: not where it runs the user's code.

    Attributes:
        at_once: No step begins in the background from now on.
    """

    def __init__(
        self,
        member: Any,
        act: Callable[[MemberAction], None],
        on_done: Callable[[Any], object],
        *,
        may_be_long: bool,
    ) -> None:
        self._member = member
        self._act = act
        self._on_done = on_done
        self._may_be_long = may_be_long
        self._events: deque[MemberEvent] = deque()
        # What it wants done, and whether anything has changed.
        self._work: Work[tuple[list[MemberAction], bool]] | None = None
        self._shown: _Shown | None = None
        self._topics = self._partitions = 0
        self._is_new = False  # topics that no poll has told the machine's callbacks of
        self.at_once = False

    # ------------------------------------------------------------------ what is read

    @property
    def group_metadata(self) -> ConsumerGroupMetadata:
        """The membership as commits carry it."""
        return self._show().group_metadata

    @property
    def commit_refusal(self) -> KafkaError | None:
        """Why it cannot commit now, if it cannot."""
        shown = self._shown
        refusal: KafkaError | None
        refusal = self._member.commit_refusal() if shown is None else shown.commit_refusal
        return refusal

    @property
    def is_settled(self) -> bool:
        """Whether no partitions are about to come."""
        return self._shown is None and not self._events and bool(self._member.is_settled)

    @property
    def next_deadline(self) -> float | None:
        """When the machine wants a `Ticked`; None while a step is under way."""
        deadline: float | None = None if self._shown else self._member.next_deadline()
        return deadline

    @property
    def under_way(self) -> Work[Any] | None:
        """The step that has begun in the background and was not finished yet."""
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
        """Steps as soon as the steps before it are over."""
        self._events.append(event)
        self.finish()  # it may have ended without an event to go on with
        self._go_on()

    def finish(self, *, wait: bool = False) -> None:
        """Does what a finished long step asks for, then takes the next events.

        Args:
            wait: Until nothing is under way.
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
            # A poll that changed nothing must not make another one: they would never end.
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
            case Ticked() | CommitAnswered():
                return False
            case Polled():
                is_new, self._is_new = self._is_new, False
                if self._member.is_settled and not is_new:
                    return False
        size = max(self._topics, self._partitions)
        return size >= LONG and self._may_be_long and not self.at_once
