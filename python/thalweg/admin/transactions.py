"""Transactions: list, describe, end and abort them, find hanging ones (KIP-664)."""

import random
import time
from collections import defaultdict
from collections.abc import Iterable
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

from thalweg._client.arguments import names_given, partitions_given
from thalweg.admin.cluster import ClusterRequests
from thalweg.admin.naming import FlexibleEnum, member_of
from thalweg.admin.requests import TRY_AGAIN, Again
from thalweg.coordinator.backoff import Backoff
from thalweg.errors import (
    BrokerResponseError,
    ConcurrentTransactionsError,
    NoError,
    RetriableError,
    TransactionalIdNotFoundError,
    for_code,
)
from thalweg.structs import PreparedTransaction, TopicPartition

__all__ = [
    "AbortTransactionSpec",
    "PartitionProducerState",
    "ProducerState",
    "TransactionDescription",
    "TransactionListing",
    "TransactionRequests",
    "TransactionState",
]

_BATCHED_LOOKUP = 4  # FindCoordinator with several keys (KIP-699)
_END_TXN_V1 = 4  # the last version of EndTxn for transaction.version 1
_SLACK_MS = 5 * 60 * 1000  # kafka-transactions.sh also adds this to the timeout


class TransactionState(FlexibleEnum, StrEnum):
    """The states of a transaction at its coordinator."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    UNKNOWN = "Unknown"


_OVER = (
    TransactionState.EMPTY,
    TransactionState.COMPLETE_COMMIT,
    TransactionState.COMPLETE_ABORT,
    TransactionState.DEAD,
)


class TransactionListing(NamedTuple):
    """A row of `list_transactions`."""

    transactional_id: str
    producer_id: int
    state: TransactionState


class TransactionDescription(NamedTuple):
    """A transaction, as `describe_transactions` returns it.

    `transaction_start_time_ms` is in Unix ms.
    """

    coordinator_id: int
    state: TransactionState
    producer_id: int
    producer_epoch: int
    transaction_timeout_ms: int
    transaction_start_time_ms: int
    topic_partitions: set[TopicPartition]


class ProducerState(NamedTuple):
    """An active producer of a partition.

    `last_timestamp` is in Unix ms. `current_transaction_start_offset` is -1 outside a transaction.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_transaction_start_offset: int


class PartitionProducerState(NamedTuple):
    """The active producers of a partition."""

    active_producers: list[ProducerState]


class AbortTransactionSpec(NamedTuple):
    """An open transaction in one partition.

    If the coordinator epoch is -1, the broker does not check the epoch.
    """

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int = -1


class TransactionRequests(ClusterRequests):
    """Calls about transactions."""

    def list_transactions(
        self,
        broker_ids: Iterable[int] | None = None,
        producer_id_filters: Iterable[int] | None = None,
        state_filters: Iterable[TransactionState | str] | None = None,
        duration_filter_ms: float | None = None,
        transactional_id_pattern: str | None = None,
    ) -> dict[int, list[TransactionListing]]:
        """Lists the transactional IDs of each coordinator (ListTransactions).

        Args:
            broker_ids: IDs of the nodes to ask. None: all nodes.
            producer_id_filters: Only these producer IDs.
            state_filters: Only these states.
            duration_filter_ms: Only transactions that are open for longer than this (brokers of
                3.8 and newer).
            transactional_id_pattern: Only IDs that match (brokers of 4.1 and newer, KIP-1152).

        Returns:
            {node ID: [TransactionListing]}.

        Raises:
            UnsupportedVersionError: If a broker is too old for a filter.
        """
        body: dict[str, Any] = {
            "StateFilters": [TransactionState.value_for(each) for each in state_filters or ()],
            "ProducerIdFilters": list(producer_id_filters or ()),
        }
        if duration_filter_ms is not None:
            body["DurationFilter"] = int(duration_filter_ms)
        if transactional_id_pattern is not None:
            body["TransactionalIdPattern"] = transactional_id_pattern
        found = {}
        for node in self._node_ids() if broker_ids is None else broker_ids:
            response = self._call(
                "ListTransactions",
                body,
                node,
                codes=lambda response: [(response["ErrorCode"], None, "ListTransactions")],
                is_repeatable=True,
            )
            found[node] = [
                TransactionListing(
                    row["TransactionalId"],
                    row["ProducerId"],
                    member_of(TransactionState, row["TransactionState"]),
                )
                for row in response["TransactionStates"]
            ]
        return found

    def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription]:
        """Describes the transactions of transactional IDs (DescribeTransactions).

        Returns:
            {transactional ID: TransactionDescription}.

        Raises:
            TransactionalIdNotFoundError: If a coordinator does not know a transactional ID.
            TypeError: If `transactional_ids` is one str.
        """
        names = names_given(transactional_ids, "transactional_ids")
        found, refused = self._described_transactions(names)
        for error in refused.values():
            raise error
        return {name: found[name] for name in names}

    def _described_transactions(
        self, names: Iterable[str]
    ) -> tuple[dict[str, TransactionDescription], dict[str, BrokerResponseError]]:
        """Describes transactions with one request to each coordinator.

        Returns:
            The descriptions, and the errors of the transactional IDs that have none.

        Raises:
            BrokerResponseError: If the brokers do not say who the coordinators are.
            KafkaTimeoutError: If no broker responds in time.
        """
        found: dict[str, TransactionDescription] = {}
        refused: dict[str, BrokerResponseError] = {}
        deadline = time.monotonic() + self.config["default_api_timeout_ms"] / 1000
        first, most = self.config["retry_backoff_ms"], self.config["retry_backoff_max_ms"]
        backoff = Backoff(first, most, lambda: random.uniform(0.8, 1.2))
        pending = list(dict.fromkeys(names))
        while pending:
            wait_s = backoff.failed() / 1000
            in_time = time.monotonic() + wait_s < deadline
            moved: list[str] = []
            for node, theirs in self._by_coordinator(pending).items():
                where = ("coordinator", "transaction", theirs[0])
                body = {"TransactionalIds": theirs}
                response = self._call("DescribeTransactions", body, where, is_repeatable=True)
                for row in response["TransactionStates"]:
                    name, kind = row["TransactionalId"], for_code(row["ErrorCode"])
                    if kind is NoError:
                        found[name] = _description(node, row)
                    elif in_time and issubclass(kind, TRY_AGAIN):
                        self._client.forget_coordinator("transaction", theirs[0])
                        moved.append(name)
                    else:
                        why = self._refusal("DescribeTransactions", row["ErrorCode"], None)
                        refused[name] = kind(f"transactional id {name!r}: {why}")
            pending = moved
            if pending:
                time.sleep(wait_s)
        return found, refused

    def _by_coordinator(self, names: Iterable[str]) -> dict[int, list[str]]:
        """Returns the transactional IDs of each coordinator, by its node ID."""
        if self._client.negotiate("FindCoordinator") >= _BATCHED_LOOKUP:
            bodies: list[dict[str, Any]] = [{"CoordinatorKeys": list(names)}]
        else:
            bodies = [{"Key": name} for name in names]
        found: dict[int, list[str]] = defaultdict(list)
        for body in bodies:
            codes = partial(_lookup_codes, body)
            response = self._call(
                "FindCoordinator", {"KeyType": 1, **body}, codes=codes, is_repeatable=True
            )
            for row in _lookups(body, response):
                found[row["NodeId"]].append(row["Key"])
        return found

    def describe_producers(
        self, partitions: Iterable[TopicPartition], broker_id: int | None = None
    ) -> dict[TopicPartition, PartitionProducerState]:
        """Describes the active producers of partitions (DescribeProducers).

        Args:
            partitions: TopicPartitions.
            broker_id: The replica to ask. None: the leader of each partition.

        Returns:
            {TopicPartition: PartitionProducerState}.

        Raises:
            BrokerResponseError: If a partition fails.
            TypeError: If `partitions` is not a list of TopicPartitions.
        """
        found = {}

        def ask(node: int, theirs: list[TopicPartition], limit_ms: int) -> Again:
            topics: dict[str, list[int]] = defaultdict(list)
            for topic, partition in theirs:
                topics[topic].append(partition)
            body = {
                "Topics": [{"Name": name, "PartitionIndexes": ids} for name, ids in topics.items()]
            }
            response = self._call(
                "DescribeProducers",
                body,
                node,
                codes=lambda response: (
                    (
                        row["ErrorCode"],
                        row["ErrorMessage"],
                        f"{each['Name']}-{row['PartitionIndex']}",
                    )
                    for each in response["Topics"]
                    for row in each["Partitions"]
                ),
                ignored=(RetriableError,),
                timeout_ms=limit_ms,
            )
            again = {}
            for each in response["Topics"]:
                for row in each["Partitions"]:
                    where = TopicPartition(each["Name"], row["PartitionIndex"])
                    if row["ErrorCode"]:
                        again[where] = for_code(row["ErrorCode"])
                    else:
                        found[where] = PartitionProducerState(
                            [ProducerState(*_fields(state)) for state in row["ActiveProducers"]]
                        )
            return again

        self._by_leader(partitions_given(partitions), ask, None, broker_id)
        return found

    def abort_transaction(self, spec: AbortTransactionSpec) -> None:
        """Writes an abort marker for an open transaction (WriteTxnMarkers).

        Raises:
            BrokerResponseError: If the partition's leader refuses the request.
            KafkaTimeoutError, KafkaConnectionError: The marker may have been written. Before you
                repeat the call, check with `describe_producers`.
        """
        where = TopicPartition(*spec.topic_partition)
        marker = {
            "ProducerId": spec.producer_id,
            "ProducerEpoch": spec.producer_epoch,
            "TransactionResult": False,
            "Topics": [{"Name": where.topic, "PartitionIndexes": [where.partition]}],
            "CoordinatorEpoch": spec.coordinator_epoch,
        }

        def ask(node: int, _: list[TopicPartition], limit_ms: int) -> Again:
            response = self._call(
                "WriteTxnMarkers", {"Markers": [marker]}, node, timeout_ms=limit_ms
            )
            for topic in (topic for row in response["Markers"] for topic in row["Topics"]):
                for row in topic["Partitions"]:
                    kind = for_code(row["ErrorCode"])
                    if issubclass(kind, RetriableError):
                        return {where: kind}
                    if kind is not NoError:
                        about = f"{where.topic}-{where.partition}, producer id {spec.producer_id}"
                        raise kind(f"aborting the transaction on {about}: {kind.description}")
            return {}

        # A second marker could end the producer's next transaction.
        self._by_leader([where], ask, None, is_repeatable=False)

    def end_transaction(self, prepared: PreparedTransaction, *, commit: bool) -> None:
        """Commits or aborts a transaction that a producer has prepared (EndTxn).

        If the feature `transaction.version` is 2 (Kafka 4.0 and newer), you can repeat the call: it
        succeeds again. With version 1, do not repeat the call after another producer with this
        transactional ID has begun a transaction.

        Args:
            prepared: The result of `KafkaProducer.prepare_transaction`.
            commit: True: commits the transaction. False: aborts it.

        Raises:
            ProducerFencedError: If another producer with this transactional ID has started. The
                coordinator aborts the prepared transaction.
            InvalidTxnStateError: If a call has ended the transaction in the other way, or the
                transaction has timed out.
            InvalidProducerEpochError, InvalidProducerIdMappingError: If the coordinator has
                forgotten the producer or ended its transaction.
            TransactionalIdAuthorizationFailedError: If you have no permission to WRITE the
                transactional ID.
            KafkaTimeoutError: If no broker responds in time. The transaction may have ended.
            KafkaConnectionError: With version 1: if the connection broke after the client sent the
                request. The transaction may have ended.
        """
        self._end(PreparedTransaction(*prepared), commit, self._transaction_version())

    def _end(self, prepared: PreparedTransaction, commit: bool, version: int) -> dict[str, Any]:
        """Ends a transaction, with the level of the feature transaction.version.

        Returns:
            The response. With version 2, it has the producer ID and epoch of the next transaction.
        """
        is_repeatable = version >= 2
        body = {
            "TransactionalId": prepared.transactional_id,
            "ProducerId": prepared.producer_id,
            "ProducerEpoch": prepared.producer_epoch,
            "Committed": commit,
        }
        about = f"transactional id {prepared.transactional_id!r}"
        return self._call(
            "EndTxn",
            body,
            ("coordinator", "transaction", prepared.transactional_id),
            codes=lambda response: [(response["ErrorCode"], None, about)],
            # Later versions change the epoch, which only version 2 of transactions does.
            max_version=None if is_repeatable else _END_TXN_V1,
            again=(ConcurrentTransactionsError,),
            is_repeatable=is_repeatable,
        )

    def _transaction_version(self) -> int:
        """Returns the level of the cluster's feature transaction.version."""
        feature = self.describe_features().get("transaction.version", {})
        level: int = feature.get("finalized", (0, 0))[1]
        return level

    def find_hanging_transactions(
        self, broker_ids: Iterable[int] | None = None, max_transaction_timeout_ms: int = 900000
    ) -> list[dict[str, Any]]:
        """Finds transactions that have been open for too long, like kafka-transactions.sh.

        These have been open for at least 5 minutes longer than `max_transaction_timeout_ms`.

        Args:
            broker_ids: IDs of the nodes to ask. None: all nodes.
            max_transaction_timeout_ms: The brokers' transaction.max.timeout.ms.

        Returns:
            [{transactional_id, producer_id, producer_epoch, state, age_ms, coordinator_id,
            topic_partitions}].
        """
        listings = self.list_transactions(broker_ids)
        names = sorted({row.transactional_id for rows in listings.values() for row in rows})
        now_ms = int(time.time() * 1000)
        found = []
        described, refused = self._described_transactions(names)
        for error in refused.values():
            # A coordinator forgets a transactional ID that nobody uses.
            if not isinstance(error, TransactionalIdNotFoundError):
                raise error
        for name, row in described.items():
            age_ms = now_ms - row.transaction_start_time_ms
            started = row.state not in _OVER and row.transaction_start_time_ms >= 0
            if started and age_ms >= max_transaction_timeout_ms + _SLACK_MS:
                found.append(
                    {
                        "transactional_id": name,
                        "producer_id": row.producer_id,
                        "producer_epoch": row.producer_epoch,
                        "state": row.state.value,
                        "age_ms": age_ms,
                        "coordinator_id": row.coordinator_id,
                        "topic_partitions": sorted(row.topic_partitions),
                    }
                )
        return found


def _lookups(body: dict[str, Any], response: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the rows of a FindCoordinator response. Old versions have only one."""
    rows: list[dict[str, Any]] = response.get("Coordinators") or [
        {**response, "Key": body.get("Key")}
    ]
    return rows


def _lookup_codes(
    body: dict[str, Any], response: dict[str, Any]
) -> Iterable[tuple[int, str | None, str]]:
    return (
        (row["ErrorCode"], row.get("ErrorMessage"), f"transactional id {row['Key']!r}")
        for row in _lookups(body, response)
    )


def _description(coordinator_id: int, row: dict[str, Any]) -> TransactionDescription:
    return TransactionDescription(
        coordinator_id,
        member_of(TransactionState, row["TransactionState"]),
        row["ProducerId"],
        row["ProducerEpoch"],
        row["TransactionTimeoutMs"],
        row["TransactionStartTimeMs"],
        {
            TopicPartition(topic["Topic"], partition)
            for topic in row["Topics"]
            for partition in topic["Partitions"]
        },
    )


def _fields(state: dict[str, Any]) -> tuple[int, ...]:
    return (
        state["ProducerId"],
        state["ProducerEpoch"],
        state["LastSequence"],
        state["LastTimestamp"],
        state["CoordinatorEpoch"],
        state["CurrentTxnStartOffset"],
    )
