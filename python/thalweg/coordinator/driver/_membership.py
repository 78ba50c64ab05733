"""One membership in a group: runs the member's state machine.

    before_poll ── events ──> member.step ── actions ──> requests to the coordinator
                                                     ├─> heartbeats, repeated by Rust
                                                     └─> chores, in their order: auto-commit,
                                                         listener, assignment

Chores run in the thread that polls. An auto-commit before partitions go is waited for between
polls, not in them: meanwhile no records are handed out, as nobody would commit them.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from thalweg.coordinator.driver._clock import now_ms, soonest
from thalweg.coordinator.driver._members import make_member
from thalweg.coordinator.driver._offsets import CommittedOffsets
from thalweg.coordinator.driver._topics import Found, Topics
from thalweg.coordinator.listener import ConsumerRebalanceListener, tell
from thalweg.coordinator.steps import (
    Answered,
    Assign,
    AutoCommit,
    CallbacksDone,
    Closed,
    CommitAnswered,
    Fail,
    ForgetCoordinator,
    HeartbeatAnswered,
    Heartbeats,
    Lose,
    MemberAction,
    MemberEvent,
    Polled,
    PollExpired,
    Raise,
    Revoke,
    Send,
    StopHeartbeats,
    Subscribed,
    Ticked,
    TopicsChanged,
    Unsubscribed,
    WatchTopics,
)
from thalweg.errors import KafkaError
from thalweg.structs import ConsumerGroupMetadata, TopicPartition

__all__ = ["Membership"]

log = logging.getLogger("thalweg.coordinator")

Chore = AutoCommit | Revoke | Lose | Assign
# An auto-commit before a rebalance is given up after so long: the group is not kept waiting.
_AUTO_COMMIT_LIMIT_MS: Final = 5000.0
# Who leaves waits no longer for the answer: without it the session ends all the same.
_LEAVE_LIMIT_MS: Final = 5000.0


class Membership:
    """A consumer's part in its group.

    Attributes:
        listener: Told of changes of partitions.
    """

    def __init__(
        self,
        consumer: Any,
        config: Mapping[str, Any],
        topics: Topics,
        offsets: CommittedOffsets,
        on_answer: Callable[[Any], object],
    ) -> None:
        self._consumer = consumer
        self._config = config
        self._topics = topics
        self._offsets = offsets
        self._on_answer = on_answer
        self._member = make_member(config)
        self._node = ("coordinator", "group", config["group_id"])
        self._requests: dict[int, Any] = {}
        self._chores: deque[Chore] = deque()
        self._at_work = False
        self._auto_commit: tuple[Any, float] | None = None
        self._raised: deque[KafkaError] = deque()
        self._failed: KafkaError | None = None
        self.listener: ConsumerRebalanceListener | None = None

    # ------------------------------------------------------------------ from poll

    def subscribe(self, topics: frozenset[str], regex: str | None = None) -> None:
        """Subscribes to topics by name, or by a pattern that the broker evaluates."""
        self._step(Subscribed(topics, regex))

    def take(self, found: Found) -> None:
        """What is known of the topics has changed."""
        if self._topics.is_pattern:
            self._step(Subscribed(found.names))
        self._step(TopicsChanged(found.partitions, found.racks, found.ids))

    def poll(self) -> float | None:
        """Goes on with the membership; the time of the next call.

        Raises:
            KafkaError: What is wrong with the membership.
        """
        self.keep_up()
        self._work()
        if not self._chores:
            self._step(Polled())
            self._work()
        if self._failed is not None:
            raise self._failed
        if self._raised:
            raise self._raised.popleft()
        return soonest([self._member.next_deadline(), self._auto_commit_due()])

    def keep_up(self) -> None:
        """Takes in what the coordinator has said; runs no callback."""
        if self._consumer._poll_expired():
            self._step(PollExpired())
        for body, error in self._consumer._notable_heartbeats():
            self._step(HeartbeatAnswered(body, error))
        for token, request in list(self._requests.items()):
            if request.is_done:
                del self._requests[token]
                self._step(self._answer(token, request))
        due = self._member.next_deadline()
        if due is not None and now_ms() >= due:
            self._step(Ticked())

    @staticmethod
    def _answer(token: int, request: Any, timeout_ms: int = 0) -> Answered:
        try:
            return Answered(token, request.result(timeout_ms))
        except KafkaError as error:
            return Answered(token, None, error)

    # ------------------------------------------------------------------ what the member wants

    def _step(self, event: MemberEvent) -> None:
        for action in self._member.step(event, now_ms()):
            self._do(action)

    def _do(self, action: MemberAction) -> None:
        match action:
            case Send():
                self._send(action)
            case Heartbeats():
                self._consumer._heartbeat(
                    action.api,
                    action.body,
                    self._node,
                    int(action.interval_ms),
                    action.leave,
                    int(action.max_poll_interval_ms),
                )
            case StopHeartbeats():
                self._consumer._stop_heartbeat()
            case ForgetCoordinator():
                self._consumer.client.forget_coordinator("group", self._config["group_id"])
            case WatchTopics():
                self._topics.watch(action.topics, action.ids)
            case Raise():
                self._raised.append(action.error)
            case Fail():
                self._failed = action.error
            case _:
                self._chores.append(action)

    def _send(self, action: Send) -> None:
        request = self._consumer.client.submit(
            action.api, action.body, self._node, timeout_ms=int(action.timeout_ms)
        )
        self._requests[action.token] = request
        request.add_done_callback(self._on_answer)

    # ------------------------------------------------------------------ chores

    def _work(self, wait_until_ms: float | None = None) -> None:
        """Does what is to be done in the application's thread, as far as it need not wait."""
        if self._at_work or not self._chores:
            return  # a listener that commits or seeks comes by here again
        self._at_work = True
        try:
            while self._chores:
                if isinstance(self._chores[0], AutoCommit) and not self._committed(wait_until_ms):
                    return
                self._work_on(self._chores.popleft())
        finally:
            self._at_work = False
        self._step(CallbacksDone())
        self._work(wait_until_ms)

    def _committed(self, wait_until_ms: float | None) -> bool:
        """Whether the auto-commit is over; begins it."""
        if self._auto_commit is None:
            future = self._offsets.commit_what_moved()
            if future is None:
                return True
            self._auto_commit = future, now_ms() + _AUTO_COMMIT_LIMIT_MS
            self._consumer._hold(True)
        future, deadline = self._auto_commit
        if wait_until_ms is not None:
            self._offsets.finish(min(wait_until_ms, deadline))
        else:
            self._offsets.poll()
        if not future.is_done and now_ms() < deadline:
            return False
        self._auto_commit = None
        self._consumer._hold(False)
        return True

    def _auto_commit_due(self) -> float | None:
        return None if self._auto_commit is None else self._auto_commit[1]

    def _work_on(self, chore: Chore) -> None:
        match chore:
            case Revoke(partitions):
                tell(self.listener, "on_partitions_revoked", partitions)
                self._take_away(partitions)
            case Lose(partitions):
                tell(self.listener, "on_partitions_lost", partitions)
                self._take_away(partitions)
            case Assign(assigned, added):
                self._consumer._assign_native(assigned)
                tell(self.listener, "on_partitions_assigned", added)

    def _take_away(self, partitions: tuple[TopicPartition, ...]) -> None:
        left = self._consumer.assignment() - set(partitions)
        self._consumer._assign_native(sorted(left))

    # ------------------------------------------------------------------ what others ask

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The membership as commits carry it."""
        return self._member.group_metadata()

    def commit_refusal(self) -> KafkaError | None:
        """Why it cannot commit now, if it cannot."""
        return self._member.commit_refusal()

    def commit_answered(self, code: int, generation: int) -> None:
        """The group refused a commit."""
        self._step(CommitAnswered(code, generation))

    # ------------------------------------------------------------------ the end

    def unsubscribe(self, deadline_ms: float) -> None:
        """Gives the partitions up and leaves the group, until it is subscribed again."""
        self._leave(Unsubscribed(), deadline_ms)
        self._raised.clear()

    def close(self, deadline_ms: float, *, commit: bool) -> None:
        """The same for good; without `commit` not even auto-commit writes down what was read."""
        self._leave(Closed(leave=True), deadline_ms, commit=commit)

    def _leave(self, event: MemberEvent, deadline_ms: float, *, commit: bool = True) -> None:
        """Within a limit; errors are logged."""
        self.keep_up()
        self._requests.clear()  # a JoinGroup that waits is of no interest any more
        self._step(event)
        if not commit:
            self._chores = deque(c for c in self._chores if not isinstance(c, AutoCommit))
        self._work(deadline_ms)
        answered_ms = min(deadline_ms, now_ms() + _LEAVE_LIMIT_MS)
        leaving, self._requests = self._requests, {}
        for token, request in leaving.items():
            self._step(self._answer(token, request, max(0, int(answered_ms - now_ms()))))
        self._consumer._stop_heartbeat()
