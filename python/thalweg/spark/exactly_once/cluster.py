"""`Cluster`: the requests of the exactly-once sink, which the driver sends."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Self

from thalweg.admin import KafkaAdminClient, TransactionDescription, TransactionState
from thalweg.config import unknown_option
from thalweg.coordinator import offsets as wire
from thalweg.errors import (
    BrokerResponseError,
    ConcurrentTransactionsError,
    TransactionalIdNotFoundError,
    UnstableOffsetCommitError,
)
from thalweg.spark.exactly_once.decisions import Decision, count, pack, unpack
from thalweg.structs import ConsumerGroupMetadata, PreparedTransaction, TopicPartition

# The level of the feature transaction.version from which on an end can be repeated.
_VERSION: Final = 2


class Driver(NamedTuple):
    """The identity with which a driver stores its decisions. The next driver fences it."""

    producer_id: int
    producer_epoch: int


class Cluster:
    """Sends the requests for one prefix of transactional IDs."""

    def __init__(self, config: Mapping[str, Any], prefix: str, topic: str) -> None:
        """Connects.

        Args:
            config: The options of the sink's producers, under Kafka's names.
            prefix: The option `transactional.id.prefix`.
            topic: The topic under whose name groups store the decisions. It gets no record.
        """
        own = {name: value for name, value in config.items() if unknown_option("a", name) is None}
        self._admin = KafkaAdminClient.from_config(own)
        self._prefix = prefix
        self._where = TopicPartition(topic, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._admin.close()

    @property
    def _driver_id(self) -> str:
        return f"{self._prefix}-driver"

    def _group(self, piece: int) -> str:
        return self._prefix if piece == 0 else f"{self._prefix}-decision-{piece}"

    def check_version(self) -> None:
        """Checks that an end of a transaction can be repeated.

        Raises:
            ValueError: If the cluster's feature transaction.version is below 2.
        """
        found = self._admin._transaction_version()
        if found < _VERSION:
            raise ValueError(
                "delivery.guarantee=exactly-once needs a cluster with the feature"
                f" transaction.version={_VERSION} (Kafka 4.0 and newer), and this one has {found}."
                " Raise it with kafka-features.sh, or use delivery.guarantee=at-least-once"
            )

    def become_driver(self, timeout_ms: int) -> Driver:
        """Fences all older drivers, and ends what they have left half done.

        Args:
            timeout_ms: After this time the coordinator aborts an unfinished decision.
        """
        answer = self._admin._call(
            "InitProducerId",
            {
                "TransactionalId": self._driver_id,
                "TransactionTimeoutMs": timeout_ms,
                "ProducerId": -1,
                "ProducerEpoch": -1,
            },
            ("coordinator", "transaction", self._driver_id),
            codes=lambda answer: [
                (answer["ErrorCode"], None, f"transactional id {self._driver_id!r}")
            ],
            again=(ConcurrentTransactionsError,),
            is_repeatable=True,
        )
        return Driver(answer["ProducerId"], answer["ProducerEpoch"])

    # ------------------------------------------------------------------ decisions

    def decision(self) -> Decision | None:
        """Returns the last decision, or None if there is none.

        Raises:
            ValueError: If the groups contain something else.
        """
        first = self._committed(self._group(0))
        if first is None:
            return None
        try:
            pieces = [first[1]]
            for number in range(1, count(first[1])):
                found = self._committed(self._group(number))
                pieces.append("" if found is None or found[0] != first[0] else found[1])
            return unpack(first[0], pieces)
        except ValueError as error:
            raise ValueError(
                f"transactional.id.prefix={self._prefix!r} cannot be used: the group of this name"
                f" has an offset for {self._where.topic}-0 that is not a decision ({error}). Choose"
                " another prefix"
            ) from error

    def _committed(self, group: str) -> tuple[int, str] | None:
        """Returns the offset and its metadata, once no open transaction can change them."""

        def codes(answer: dict[str, Any]) -> Iterator[tuple[int, str | None, str]]:
            part = (answer.get("Groups") or [answer])[0]
            about = f"the decisions in group {group!r}"
            yield part.get("ErrorCode", 0), None, about
            for topic in part["Topics"]:
                for row in topic["Partitions"]:
                    yield row["ErrorCode"], None, about

        answer = self._admin._call(
            "OffsetFetch",
            wire.fetch_bodies(ConsumerGroupMetadata(group), [self._where], require_stable=True),
            ("coordinator", "group", group),
            codes=codes,
            max_version=wire.FETCH_VERSION_MAX,
            again=(UnstableOffsetCommitError,),
        )
        found = wire.fetched(answer, [self._where])[0][self._where]
        return None if found is None else (found.offset, found.metadata)

    def decide(self, driver: Driver, decision: Decision) -> None:
        """Stores a decision.

        Raises:
            BrokerResponseError: If another driver has taken over, or the right to do it is missing.
        """
        for number, piece in enumerate(pack(decision)):
            self._store(driver, self._group(number), decision.batch, piece)
        self.end(PreparedTransaction(self._driver_id, *driver), commit=True)

    def _store(self, driver: Driver, group: str, batch: int, piece: str) -> None:
        row = {
            "PartitionIndex": self._where.partition,
            "CommittedOffset": batch,
            "CommittedLeaderEpoch": -1,
            "CommittedMetadata": piece,
        }
        about = f"storing a decision in group {group!r}"
        self._admin._call(
            "TxnOffsetCommit",
            {
                "TransactionalId": self._driver_id,
                "GroupId": group,
                "ProducerId": driver.producer_id,
                "ProducerEpoch": driver.producer_epoch,
                "GenerationId": -1,
                "MemberId": "",
                "Topics": [{"Name": self._where.topic, "Partitions": [row]}],
            },
            ("coordinator", "group", group),
            codes=lambda answer: [
                (each["ErrorCode"], None, about)
                for topic in answer["Topics"]
                for each in topic["Partitions"]
            ],
            again=(ConcurrentTransactionsError,),
            is_repeatable=True,
        )

    # ------------------------------------------------------------------ transactions

    def describe(self, names: Iterable[str]) -> dict[str, TransactionDescription]:
        """Describes transactions. Those that no coordinator knows are missing."""
        found = {}
        for name in names:
            try:
                found.update(self._admin.describe_transactions([name]))
            except TransactionalIdNotFoundError:
                continue
        return found

    def end(self, prepared: PreparedTransaction, *, commit: bool) -> None:
        """Ends a transaction, as `KafkaAdminClient.end_transaction`."""
        # The plan has checked the version, which never becomes lower.
        self._admin._end(prepared, commit, _VERSION)

    def sweep(self, kept: Iterable[PreparedTransaction] = ()) -> None:
        """Aborts the open transactions of attempts that failed, or whose driver has died.

        Args:
            kept: The transactions to leave alone. A later attempt may have the transactional ID of
                one of them, and is aborted.
        """
        decided = set(kept)
        own = re.compile(re.escape(self._prefix) + r"-\d+-\d+")
        listed = self._admin.list_transactions(state_filters=[TransactionState.ONGOING])
        names = {row.transactional_id for rows in listed.values() for row in rows}
        left = [name for name in names if own.fullmatch(name)]
        for name, row in self.describe(left).items():
            lost = PreparedTransaction(name, row.producer_id, row.producer_epoch)
            if row.state is TransactionState.ONGOING and lost not in decided:
                try:
                    self.end(lost, commit=False)
                except BrokerResponseError:
                    continue  # it has ended meanwhile, or its next attempt has begun
