"""Looks up the subscribed topics: their existence, partitions and racks.

    subscribe(names | pattern), watch(names) ──> Metadata ──> Found, whenever something is new
                                                     └─ topics.look, in the background if it is long

It sends one request at a time, by name or by topic id. It repeats it after metadata_max_age_ms, and
sooner while a topic is missing. A topic watched by id is requested until a response by name has it.
In KIP-848's protocol, it also looks for the topics of owned partitions.

The native core has its own metadata, of the topics that it reads. From the responses to fetches it
learns at once that a topic was deleted and created again. So the two are compared.
"""

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from thalweg.coordinator.driver._native import ConsumerCore, Request, ResponseBody, explained
from thalweg.coordinator.driver._waits import Work, is_long_response, now_ms, retry_backoff, soonest
from thalweg.coordinator.topics import Found, Known, Look, Wanted, look
from thalweg.errors import KafkaError, RetriableError, UnsupportedOperationError
from thalweg.structs import SubscriptionPattern

if TYPE_CHECKING:
    from thalweg._config.option_types import DriverConfig

__all__ = ["Topics", "brokers_own"]

log = logging.getLogger("thalweg.coordinator")

# How soon a missing topic is looked for again: brokers may not know a new topic yet.
_MISSING_TOPIC_MS: Final = 1000
# How often the core's metadata is compared with the last result.
_COMPARE_MS: Final = 1000


class Topics:
    """Looks for the subscribed topics.

    Attributes:
        subscribed: Whether there is a subscription.
    """

    def __init__(
        self,
        consumer: ConsumerCore,
        config: "DriverConfig",
        on_response: Callable[[object], object],
    ) -> None:
        self._consumer = consumer
        self._config = config
        self._on_response = on_response
        self._pattern: re.Pattern[str] | None = None
        self._named: frozenset[str] = frozenset()
        self._watched: frozenset[str] = frozenset()
        self._nameless: frozenset[str] = frozenset()  # topic ids whose names are not known yet
        self._named_by_id: frozenset[str] = frozenset()
        self._request: Request[ResponseBody | Look] | None = None
        self._asks_ids = False  # whether the current or last request is by topic id
        self._names_due_ms: float | None = None
        self._ids_due_ms: float | None = None
        self._compare_due_ms = 0.0
        self._agrees_with: int | None = None  # the version of the core's metadata
        self._found: Found | None = None
        self._last: Found | None = None  # also from before a change of the subscription
        self._doubts: Mapping[str, int] = {}
        self._absent: frozenset[str] = frozenset()  # named, but not in the last response
        self._told_absent: frozenset[str] = frozenset()
        self._refusal: KafkaError | None = None  # of some topics, for the next call
        self._backoff = retry_backoff(config)
        self.subscribed = False

    @property
    def due_ms(self) -> float | None:
        """When to send the next request. None: nothing to look for, or a request is in flight."""
        if self._request is not None:
            return None
        return soonest((self._names_due_ms, self._ids_due_ms))

    @property
    def next_call_ms(self) -> float | None:
        """When to call `poll` next."""
        if self._refusal is not None:
            return now_ms()
        compares = self._compare_due_ms if self._found is not None else None
        return soonest((self.due_ms, compares))

    @property
    def is_pattern(self) -> bool:
        """Whether the subscription is a pattern. Its topics are known only after a response."""
        return self._pattern is not None

    def subscribe(self, topics: Iterable[str], pattern: re.Pattern[str] | None) -> None:
        """Changes the topics to look for."""
        self._named, self._pattern = frozenset(topics), pattern
        self.subscribed = True
        self.look_again()

    def watch(self, topics: frozenset[str], ids: frozenset[str] = frozenset()) -> None:
        """Also looks for these topics, by name or topic id, also without a subscription to them."""
        if not self.subscribed:
            return  # a leaving member may still become the leader
        is_less = topics == self._watched and ids <= self._nameless
        self._watched, self._nameless = topics, ids
        if not ids:
            self._ids_due_ms = None
        if is_less:
            return
        if ids:
            self._ids_due_ms = now_ms()
        self.look_again()

    def clear(self) -> None:
        """Stops looking for topics."""
        self._named = self._watched = self._nameless = self._named_by_id = frozenset()
        self._pattern = self._request = self._found = self._last = self._refusal = None
        self._names_due_ms = self._ids_due_ms = None
        self._doubts = {}
        self._absent = self._told_absent = frozenset()
        self.subscribed = False

    def look_again(self) -> None:
        """Forgets what was found, so that the next response is new."""
        self._request = self._found = self._agrees_with = self._refusal = None
        self._names_due_ms = now_ms()

    def names(self) -> set[str] | None:
        """Returns the subscribed topics, or those that match the pattern. None: not subscribed."""
        if not self.subscribed:
            return None
        if self._pattern is None:
            return set(self._named)
        return set() if self._found is None else set(self._found.names)

    def poll(self) -> Found | None:
        """Sends a request if it is due. Returns what a response has, or None if nothing is new.

        Raises:
            TopicAuthorizationFailedError: For a topic subscribed to by name. It is asked for again.
            InvalidTopicError: The same.
            KafkaError: If no broker can be asked, and waiting does not help. It asks again.
        """
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            raise refusal
        now = now_ms()
        if now >= self._compare_due_ms:
            self._compare(now)
        due_ms = self.due_ms
        if due_ms is not None and now >= due_ms:
            self._asks_ids = self._ids_due_ms is not None and now >= self._ids_due_ms
            self._request = self._ask()
            self._request.add_done_callback(self._on_response)
        if self._request is None or not self._request.is_done:
            return None
        request, self._request = self._request, None
        if is_long_response(request) and not self._asks_ids:
            looks = self._looker()
            self._request = Work(lambda: looks(request.result(0)))
            self._request.add_done_callback(self._on_response)
            return None
        try:
            response = request.result(0)
        except KafkaError as error:
            self._look_again(self._backoff.failed())
            if not isinstance(error, RetriableError):
                raise
            log.debug("could not look up the subscribed topics: %s; trying again", error)
            return None
        self._backoff.reset()
        if self._asks_ids and not isinstance(response, Look):
            self._take_names(row for row in response["Topics"] if row["ErrorCode"] == 0)
            return None
        return self._taken(self._looker()(response))

    def _looker(self) -> Callable[[ResponseBody | Look], Look]:
        """Returns `look` with the current wanted and known topics as arguments."""
        hides_internal = self._config["exclude_internal_topics"]
        wanted = Wanted(self._named, self._pattern, self._also(self._owned()), hides_internal)
        known = Known(self._last, self._doubts, self._found)
        return lambda response: (
            response if isinstance(response, Look) else look(response, wanted, known)
        )

    def _compare(self, now: float) -> None:
        """Asks again for topics if the core knows more partitions of one of them."""
        self._compare_due_ms = now + _COMPARE_MS
        if self._found is None or self._request is not None:
            return
        cluster = self._consumer._core_client.cluster()
        if cluster.update_version == self._agrees_with:
            return
        if cluster.has_more_partitions(self._found.partitions):
            self._names_due_ms = now
        else:
            self._agrees_with = cluster.update_version

    def _look_again(self, wait_ms: float) -> None:
        """Plans the next request of the same kind as the last one."""
        if not self._asks_ids:
            self._names_due_ms = now_ms() + wait_ms
        elif self._nameless:
            self._ids_due_ms = now_ms() + wait_ms

    def _ask(self) -> Request[ResponseBody]:
        # Only topics subscribed to by name may be created. A topic that the broker's pattern has
        # found, or that is still owned, exists or was deleted.
        owned = self._owned()
        may_create = bool(self._named) and owned <= self._named
        create = may_create and self._config["allow_auto_create_topics"]
        topics: list[dict[str, str | None]] | None = None
        if self._asks_ids:
            # A request has either names or ids.
            topics = [{"TopicId": each, "Name": None} for each in sorted(self._nameless)]
        elif self._pattern is None:
            topics = [{"Name": each} for each in sorted(self._named | self._also(owned))]
        return self._consumer._core_client.submit(
            "Metadata", {"Topics": topics, "AllowAutoTopicCreation": create}
        )

    def _also(self, owned: frozenset[str]) -> frozenset[str]:
        """Returns the topics to look for whether or not they are subscribed to."""
        return self._watched | self._named_by_id | owned

    def _owned(self) -> frozenset[str]:
        """Returns the topics of the owned partitions in a group of KIP-848's protocol.

        After a change of the subscription, the member owns the old partitions until the group
        revokes them. If a response lacks an owned topic, the member concludes that the topic was
        deleted, and commits no offsets of it.
        """
        if self._config["group_protocol"] != "consumer":
            return frozenset()
        return frozenset(each.topic for each in self._consumer.assignment())

    def _take_names(self, rows: Iterable[ResponseBody]) -> None:
        """Takes the names of topics watched by id, and looks for these names from now on.

        Any broker may have responded, and one with old metadata knows less. So ids are asked for
        again.
        """
        names = frozenset(row["Name"] for row in rows)
        if names:
            self._named_by_id |= names
            self._names_due_ms = now_ms()
        self._look_again(_MISSING_TOPIC_MS)

    def _taken(self, seen: Look) -> Found | None:
        self._nameless -= seen.ids
        if not self._nameless:
            self._ids_due_ms = None
        self._doubts = seen.doubts
        self._look_again(
            _MISSING_TOPIC_MS if seen.is_missing else self._config["metadata_max_age_ms"]
        )
        refusal = seen.refusal
        if refusal is not None:
            client = self._consumer._core_client
            # The permission to read includes the permission to see the topic.
            refusal = explained(client, refusal, "Fetch")
            if not seen.is_news or not seen.found.names:
                raise refusal
            # The next call raises it, because this one takes the other topics.
            self._refusal = refusal
        if self._pattern is None:
            self._tell_of_absent(seen.absent)
        self._last = seen.found
        if not seen.is_news:
            return None
        self._found = seen.found
        return seen.found

    def _tell_of_absent(self, absent: frozenset[str]) -> None:
        """Warns once of each topic that does not exist: its name may be misspelled.

        Two responses in a row must lack the topic, because it may just be created.
        """
        to_tell = absent & self._absent
        for name in sorted(to_tell - self._told_absent):
            log.warning(
                "the subscribed topic %s does not exist (yet). Check its name, or create it", name
            )
        self._told_absent = to_tell
        self._absent = absent


def brokers_own(
    pattern: str | re.Pattern[str] | SubscriptionPattern | None, config: "DriverConfig"
) -> str | None:
    """Returns the pattern if the broker evaluates it, else None.

    Raises:
        UnsupportedOperationError: If the brokers of this group evaluate no patterns.
    """
    if not isinstance(pattern, SubscriptionPattern):
        return None
    if config["group_id"] is None or config["group_protocol"] != "consumer":
        raise UnsupportedOperationError(
            "a SubscriptionPattern needs group_id and group_protocol='consumer', because the broker"
            " evaluates it. Set them, or pass a str or re.Pattern, which the client evaluates"
        )
    return str(pattern)
