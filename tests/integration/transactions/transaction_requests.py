"""Requests of transactions: what a client sends and what a broker responds, in Kafka's terms.

    speaker = TransactionRequests(broker.bootstrap_servers, "my-id")
    error, producer = speaker.init()
    speaker.add(producer, "t"), speaker.produce(producer, "t"), speaker.end(producer, commit=True)

Results are the names of error codes, so that a test reads like Kafka's documentation. No client
state is involved: a test can send requests that no correct client sends.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tests.support.batches import batch, record
from tests.support.waiting import wait_until
from thalweg.admin import KafkaAdminClient
from thalweg.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    kafka_errors,
)

_Coordinator = tuple[Literal["coordinator"], str, str]
# Responses that only mean "not yet".
_PASSING = {
    "CONCURRENT_TRANSACTIONS",
    "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "NOT_COORDINATOR",
    "NOT_ENOUGH_REPLICAS",
}
_TRANSACTIONAL = 0x10  # in a batch's attributes


@dataclass(frozen=True)
class Producer:
    """The IDs by which a broker knows a producer, and its next sequence number per partition."""

    id: int
    epoch: int
    sequences: dict[tuple[str, int], int] = field(default_factory=dict, compare=False)

    def older(self) -> Producer:
        """Returns the same producer with the previous epoch."""
        return replace(self, epoch=self.epoch - 1, sequences={})

    def newer(self) -> Producer:
        """Returns the same producer with the next epoch."""
        return replace(self, epoch=self.epoch + 1, sequences={})


def name_of(code: int) -> str:
    """Returns Kafka's name of an error code."""
    return "NONE" if code == 0 else str(kafka_errors[code].message)


class TransactionRequests:
    """Uses one transactional ID at one broker."""

    def __init__(self, bootstrap_servers: str, transactional_id: str) -> None:
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
        self.client = self._admin._client
        self.id = transactional_id
        self.coordinator: _Coordinator = ("coordinator", "transaction", transactional_id)

    def init(
        self,
        old: Producer | None = None,
        *,
        timeout_ms: int = 60_000,
        version: int = 4,
    ) -> tuple[str, Producer]:
        """Sends InitProducerId, with retries."""
        body: dict[str, Any] = {"TransactionalId": self.id, "TransactionTimeoutMs": timeout_ms}
        if old is not None:
            body |= {"ProducerId": old.id, "ProducerEpoch": old.epoch}
        response = self._settled("InitProducerId", body, self.coordinator, version)
        return name_of(response["ErrorCode"]), Producer(
            response["ProducerId"], response["ProducerEpoch"]
        )

    def add(self, producer: Producer, topic: str, partition: int = 0, *, version: int = 3) -> str:
        """Sends AddPartitionsToTxn for one partition, as clients before KIP-890 do."""
        body = {
            "V3AndBelowTransactionalId": self.id,
            "V3AndBelowProducerId": producer.id,
            "V3AndBelowProducerEpoch": producer.epoch,
            "V3AndBelowTopics": [{"Name": topic, "Partitions": [partition]}],
        }

        def code(response: dict[str, Any]) -> int:
            rows = response["ResultsByTopicV3AndBelow"][0]["ResultsByPartition"]
            return int(rows[0]["PartitionErrorCode"])

        return name_of(
            code(self._settled("AddPartitionsToTxn", body, self.coordinator, version, code))
        )

    def produce(
        self,
        producer: Producer,
        topic: str,
        partition: int = 0,
        *,
        version: int = 12,
        transactional: bool = True,
        sequence: int | None = None,
        transactional_id: str | None = "",
        value: bytes = b"v",
    ) -> str:
        """Sends Produce with one record.

        Version 12 and above add the partition to the transaction.
        """
        key = (topic, partition)
        first = producer.sequences.get(key, 0) if sequence is None else sequence
        body = {
            "TransactionalId": self.id if transactional_id == "" else transactional_id,
            "Acks": -1,
            "TimeoutMs": 10_000,
            "TopicData": [
                {
                    "Name": topic,
                    "PartitionData": [
                        {
                            "Index": partition,
                            "Records": _batch(producer, first, value, transactional=transactional),
                        }
                    ],
                }
            ],
        }

        def code(response: dict[str, Any]) -> int:
            return int(response["Responses"][0]["PartitionResponses"][0]["ErrorCode"])

        found = name_of(
            code(self._settled("Produce", body, self._leader(topic, partition), version, code))
        )
        if found == "NONE" and sequence is None:
            producer.sequences[key] = first + 1
        return found

    def end(self, producer: Producer, *, commit: bool, version: int = 5) -> tuple[str, Producer]:
        """Sends EndTxn. From version 5 on the response has the next transaction's producer."""
        body = {
            "TransactionalId": self.id,
            "ProducerId": producer.id,
            "ProducerEpoch": producer.epoch,
            "Committed": commit,
        }
        response = self._settled("EndTxn", body, self.coordinator, version)
        error = name_of(response["ErrorCode"])
        if version < 5 or error != "NONE":
            return error, producer
        return error, Producer(response["ProducerId"], response["ProducerEpoch"])

    def add_offsets(self, producer: Producer, group: str, *, version: int = 3) -> str:
        """Sends AddOffsetsToTxn."""
        body = {
            "TransactionalId": self.id,
            "ProducerId": producer.id,
            "ProducerEpoch": producer.epoch,
            "GroupId": group,
        }
        response = self._settled("AddOffsetsToTxn", body, self.coordinator, version)
        return name_of(response["ErrorCode"])

    def commit_offset(
        self,
        producer: Producer,
        group: str,
        topic: str,
        offset: int,
        *,
        version: int = 5,
        generation: int = -1,
        member: str = "",
    ) -> str:
        """Sends TxnOffsetCommit for partition 0. Version 5 adds the group to the transaction."""
        body = {
            "TransactionalId": self.id,
            "GroupId": group,
            "ProducerId": producer.id,
            "ProducerEpoch": producer.epoch,
            "GenerationId": generation,
            "MemberId": member,
            "Topics": [
                {
                    "Name": topic,
                    "Partitions": [
                        {"PartitionIndex": 0, "CommittedOffset": offset, "CommittedMetadata": "m"}
                    ],
                }
            ],
        }

        def code(response: dict[str, Any]) -> int:
            return int(response["Topics"][0]["Partitions"][0]["ErrorCode"])

        where: _Coordinator = ("coordinator", "group", group)
        return name_of(code(self._settled("TxnOffsetCommit", body, where, version, code)))

    def offset(self, group: str, topic: str, *, stable: bool) -> tuple[str, int]:
        """Sends OffsetFetch for partition 0, and returns the error and the offset."""
        body = {
            "Groups": [
                {"GroupId": group, "Topics": [{"Name": topic, "PartitionIndexes": [0]}]},
            ],
            "RequireStable": stable,
        }
        where: _Coordinator = ("coordinator", "group", group)
        response = self.client.request("OffsetFetch", body, node=where, version=8)
        row = response["Groups"][0]["Topics"][0]["Partitions"][0]
        return name_of(row["ErrorCode"]), row["CommittedOffset"]

    def end_offset(self, topic: str, *, read_committed: bool) -> int:
        """Sends ListOffsets for partition 0: the last stable offset, or the high watermark."""
        body = {
            "ReplicaId": -1,
            "IsolationLevel": int(read_committed),
            "Topics": [{"Name": topic, "Partitions": [{"PartitionIndex": 0, "Timestamp": -1}]}],
        }
        response = self.client.request("ListOffsets", body, node=self._leader(topic, 0), version=7)
        return int(response["Topics"][0]["Partitions"][0]["Offset"])

    def aborted(self, topic: str, offset: int = 0) -> tuple[int, list[tuple[int, int]]]:
        """Fetches with read_committed: last stable offset, and aborted (producer, first offset)."""
        body = {
            "MaxWaitMs": 0,
            "MinBytes": 1,
            "MaxBytes": 1 << 20,
            "IsolationLevel": 1,
            "Topics": [
                {
                    "Topic": topic,
                    "Partitions": [
                        {"Partition": 0, "FetchOffset": offset, "PartitionMaxBytes": 1 << 20}
                    ],
                }
            ],
        }
        response = self.client.request("Fetch", body, node=self._leader(topic, 0), version=12)
        row = response["Responses"][0]["Partitions"][0]
        aborted = [(each["ProducerId"], each["FirstOffset"]) for each in row["AbortedTransactions"]]
        return row["LastStableOffset"], aborted

    def describe(self) -> dict[str, Any]:
        """Sends DescribeTransactions."""
        body = {"TransactionalIds": [self.id]}
        response = self.client.request("DescribeTransactions", body, node=self.coordinator)
        row: dict[str, Any] = response["TransactionStates"][0]
        return row

    def mark(self, producer: Producer, topic: str, *, coordinator_epoch: int = 0) -> str:
        """Sends WriteTxnMarkers like an administrator: an abort of partition 0."""
        marker = {
            "ProducerId": producer.id,
            "ProducerEpoch": producer.epoch,
            "TransactionResult": False,
            "Topics": [{"Name": topic, "PartitionIndexes": [0]}],
            "CoordinatorEpoch": coordinator_epoch,
        }
        body = {"Markers": [marker]}
        response = self.client.request(
            "WriteTxnMarkers", body, node=self._leader(topic, 0), version=1
        )
        return name_of(response["Markers"][0]["Topics"][0]["Partitions"][0]["ErrorCode"])

    def settled_state(self) -> str:
        """Returns the state once no markers are being written."""

        def settled() -> bool:
            return not self.describe()["TransactionState"].startswith("Prepare")

        wait_until(settled, what="the transaction is over")
        return str(self.describe()["TransactionState"])

    def close(self) -> None:
        self._admin.close()

    def _leader(self, topic: str, partition: int) -> int:
        response = self.client.metadata([topic])
        rows = response["Topics"][0]["Partitions"]
        return int(next(row["LeaderId"] for row in rows if row["PartitionIndex"] == partition))

    def _settled(
        self,
        api: str,
        body: dict[str, Any],
        node: Any,
        version: int,
        code: Callable[[dict[str, Any]], int] = lambda response: int(response["ErrorCode"]),
    ) -> dict[str, Any]:
        """Repeats a request until the response is more than "not yet"."""
        responses: list[dict[str, Any]] = []

        def asked() -> bool:
            try:
                responses.append(self.client.request(api, body, node=node, version=version))
            except (CoordinatorNotAvailableError, CoordinatorLoadInProgressError):
                return False
            found = name_of(code(responses[-1]))
            if found == "NOT_COORDINATOR":
                self.client.forget_coordinator(node[1], node[2])
            return found not in _PASSING

        wait_until(asked, what=f"{api} responds")
        return responses[-1]


def _batch(producer: Producer, sequence: int, value: bytes, *, transactional: bool) -> bytes:
    """Makes a batch of one record, with the current time."""
    return batch(
        record(value),
        attributes=_TRANSACTIONAL if transactional else 0,
        timestamp_ms=int(time.time() * 1000),
        producer=(producer.id, producer.epoch, sequence),
        leader_epoch=-1,
    )
