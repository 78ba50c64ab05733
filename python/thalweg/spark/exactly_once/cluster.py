"""`Cluster`: the requests of the exactly-once sink, which the driver sends."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Self

from thalweg.admin import KafkaAdminClient, TransactionDescription, TransactionState
from thalweg.coordinator import offsets as wire
from thalweg.errors import (
    BrokerResponseError,
    ConcurrentTransactionsError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    ProducerFencedError,
    TransactionalIdNotFoundError,
    UnstableOffsetCommitError,
)
from thalweg.spark.client_config import ClientConfig
from thalweg.spark.clients import KeptClients
from thalweg.spark.exactly_once.decisions import Decision, Driver, count, pack, unpack
from thalweg.spark.exactly_once.delivery import ExactlyOnce
from thalweg.spark.options import SinkOptions
from thalweg.spark.workers.files import with_local_files
from thalweg.structs import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    PreparedTransaction,
    TopicPartition,
)

# The level of the feature transaction.version from which on an end can be repeated.
_VERSION: Final = 2
_ENDS_MAX: Final = 16  # how many transactions to end at the same time
# The errors that a driver gets after a newer plan.
FENCED: Final = (ProducerFencedError, InvalidProducerEpochError, InvalidProducerIdMappingError)
# The errors of a transaction that has expired, or that another attempt has replaced.
GONE: Final = (*FENCED, InvalidTxnStateError, TransactionalIdNotFoundError)


def _connected(config: Mapping[str, Any]) -> KafkaAdminClient:
    """Connects to a cluster, and checks that an end of a transaction can be repeated there.

    Raises:
        ValueError: If the cluster's feature transaction.version is below 2.
    """
    admin = KafkaAdminClient.from_config(ClientConfig(config).of_admin())
    found = admin._transaction_version()
    if found < _VERSION:
        admin.close()
        raise ValueError(
            "delivery.guarantee=exactly-once needs a cluster with the feature"
            f" transaction.version={_VERSION} (Kafka 4.0 and newer), and this one has {found}."
            f" Run `kafka-features.sh upgrade --feature transaction.version={_VERSION}`, or use"
            " delivery.guarantee=at-least-once"
        )
    return admin


# Workers are used again, on the driver and on the executors.
_ADMINS: KeptClients[KafkaAdminClient] = KeptClients(
    _connected, lambda admin, timeout: admin.close(), outside_of_tasks=True
)


def delivery_of(options: SinkOptions) -> ExactlyOnce:
    """Returns the options of exactly-once delivery, which the writer has chosen."""
    assert options.exactly_once is not None
    return options.exactly_once


def cluster_of(options: SinkOptions) -> Cluster:
    """Connects to the cluster of the sink. The options must be those of exactly-once delivery."""
    delivery = delivery_of(options)
    config = with_local_files(options.client_config, options.driver_files)
    return Cluster(config, delivery.prefix, delivery.topic)


class Cluster:
    """Sends the requests for one prefix of transactional IDs."""

    def __init__(self, config: Mapping[str, Any], prefix: str, topic: str) -> None:
        """Connects, or continues with the connections of the last batch.

        Args:
            config: The options of the sink's producers, under Kafka's names.
            prefix: The option `transactional.id.prefix`.
            topic: The topic under whose name groups store the decisions. It gets no record.

        Raises:
            ValueError: If the cluster's feature transaction.version is below 2.
        """
        self._config = config
        self._admin = _ADMINS.take(config)
        self._prefix = prefix
        self._where = TopicPartition(topic, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        if kind is None:
            _ADMINS.give_back(self._config, self._admin)
        else:
            _ADMINS.discard(self._admin)

    @property
    def _driver_id(self) -> str:
        return f"{self._prefix}-driver"

    def _group(self, piece: int) -> str:
        return self._prefix if piece == 0 else f"{self._prefix}-decision-{piece}"

    def become_driver(self, timeout_ms: int) -> Driver:
        """Fences all older drivers, and ends what they have left half done.

        Args:
            timeout_ms: After this time the coordinator aborts an unfinished decision.
        """
        return self._initialized(Driver(-1, -1), timeout_ms)

    def driver(self) -> Driver | None:
        """Returns the identity that can decide now. None: no driver has this prefix."""
        found = self.describe([self._driver_id]).get(self._driver_id)
        return None if found is None else Driver(found.producer_id, found.producer_epoch)

    def renewed(self, driver: Driver, timeout_ms: int) -> Driver | None:
        """Returns a new identity of this driver, or None if a plan is newer.

        The old identity can decide nothing afterwards.
        """
        try:
            return self._initialized(driver, timeout_ms)
        except FENCED:
            return None

    def _initialized(self, expected: Driver, timeout_ms: int) -> Driver:
        about = f"transactional id {self._driver_id!r}, kafka.transaction.timeout.ms={timeout_ms}"
        response = self._admin._call(
            "InitProducerId",
            {
                "TransactionalId": self._driver_id,
                "TransactionTimeoutMs": timeout_ms,
                "ProducerId": expected.producer_id,
                "ProducerEpoch": expected.producer_epoch,
            },
            ("coordinator", "transaction", self._driver_id),
            codes=lambda response: [(response["ErrorCode"], None, about)],
            again=(ConcurrentTransactionsError,),
            is_repeatable=True,
        )
        return Driver(response["ProducerId"], response["ProducerEpoch"])

    # ------------------------------------------------------------------ decisions

    def decision(self) -> Decision | None:
        """Returns the last decision, or None if there is none.

        Raises:
            ValueError: If the groups contain something else, or the decision of another topic.
        """
        first = self._committed(self._group(0))
        if first is None:
            self._check_topic()
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

    def _check_topic(self) -> None:
        """Checks that no earlier run has stored its decision under the name of another topic.

        This driver would not find it, and would send the rows of a decided batch again.
        """
        group = self._group(0)
        for where, found in self._fetched(group, None).items():
            try:
                count(found.metadata)
            except ValueError:
                continue  # an offset of something else
            raise ValueError(
                f"the last decision with transactional.id.prefix={self._prefix!r} is stored under"
                f" the topic {where.topic!r}, but this run looks for it under"
                f" {self._where.topic!r}. So it could write a batch twice. Set"
                f" delivery.decisionTopic={where.topic!r}. Or start a new query, with a new"
                " checkpoint and a new prefix"
            )

    def _committed(self, group: str) -> tuple[int, str] | None:
        found = self._fetched(group, [self._where]).get(self._where)
        return None if found is None else (found.offset, found.metadata)

    def _fetched(
        self, group: str, wanted: list[TopicPartition] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns committed offsets, once no open transaction can change them. None: all."""

        def codes(response: dict[str, Any]) -> Iterator[tuple[int, str | None, str]]:
            part = (response.get("Groups") or [response])[0]
            about = f"the decisions in group {group!r}"
            yield part.get("ErrorCode", 0), None, about
            for topic in part["Topics"]:
                for row in topic["Partitions"]:
                    yield row["ErrorCode"], None, about

        response = self._admin._call(
            "OffsetFetch",
            wire.fetch_bodies(ConsumerGroupMetadata(group), wanted, require_stable=True),
            ("coordinator", "group", group),
            codes=codes,
            max_version=wire.FETCH_VERSION_MAX,
            again=(UnstableOffsetCommitError,),
            is_repeatable=True,
        )
        offsets = wire.fetched(response)[0]
        return {where: found for where, found in offsets.items() if found is not None}

    def decide(self, driver: Driver, decision: Decision) -> Driver:
        """Stores a decision.

        Returns:
            The driver's identity after it. It can decide nothing more.

        Raises:
            BrokerResponseError: One of `FENCED` if a newer driver has taken over. Others if a
                permission is missing.
        """
        for number, piece in enumerate(pack(decision)):
            self._store(driver, self._group(number), decision.batch, piece)
        response = self._end(PreparedTransaction(self._driver_id, *driver), commit=True)
        return Driver(response["ProducerId"], response["ProducerEpoch"])

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
            codes=lambda response: [
                (each["ErrorCode"], None, about)
                for topic in response["Topics"]
                for each in topic["Partitions"]
            ],
            again=(ConcurrentTransactionsError,),
            is_repeatable=True,
        )

    # ------------------------------------------------------------------ transactions

    def describe(self, names: Iterable[str]) -> dict[str, TransactionDescription]:
        """Describes transactions. Those that no coordinator knows are missing."""
        found, refused = self._admin._described_transactions(names)
        for error in refused.values():
            if not isinstance(error, TransactionalIdNotFoundError):
                raise error
        return found

    def end_all(
        self, prepared: Sequence[PreparedTransaction], *, commit: bool
    ) -> list[BrokerResponseError | None]:
        """Ends transactions, several at the same time.

        Returns:
            For each of them None, or one of `GONE` if the transaction is not there any more.

        Raises:
            KafkaError: If no broker responds in time, or a permission is missing. Some of the
                transactions may have ended.
        """
        with ThreadPoolExecutor(_ENDS_MAX) as pool:
            return list(pool.map(partial(self._loss, commit=commit), prepared))

    def _loss(self, prepared: PreparedTransaction, *, commit: bool) -> BrokerResponseError | None:
        try:
            self._end(prepared, commit=commit)
        except GONE as error:
            return error
        return None

    def _end(self, prepared: PreparedTransaction, *, commit: bool) -> dict[str, Any]:
        # A new client checks the version, which never becomes lower.
        return self._admin._end(prepared, commit, _VERSION)

    def open_attempts(self) -> list[PreparedTransaction]:
        """Returns the open transactions of all tasks with this prefix, also of other drivers."""
        own = re.compile(re.escape(self._prefix) + r"-\d+-\d+")
        # Not the brokers that this client has known before: a broker may be down since then.
        alive = {row["NodeId"] for row in self._admin._metadata([])["Brokers"]}
        listed = self._admin.list_transactions(
            sorted(alive & set(self._admin._node_ids())), state_filters=[TransactionState.ONGOING]
        )
        names = {row.transactional_id for rows in listed.values() for row in rows}
        return [
            PreparedTransaction(name, row.producer_id, row.producer_epoch)
            for name, row in self.describe(sorted(filter(own.fullmatch, names))).items()
            if row.state is TransactionState.ONGOING
        ]
