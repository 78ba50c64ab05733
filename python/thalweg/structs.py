"""Arguments and results of calls, with kafka-python's names and fields.

All are NamedTuples: they unpack, compare, hash, sort and pickle like tuples. The native core
creates TopicPartition, OffsetAndMetadata, RecordMetadata and BrokerMetadata itself.
"""

from typing import NamedTuple

__all__ = [
    "BrokerMetadata",
    "ClusterResource",
    "ConsumerGroupMetadata",
    "GroupInformation",
    "MemberInformation",
    "MemberState",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionMetadata",
    "PreparedTransaction",
    "RecordMetadata",
    "SubscriptionPattern",
    "TopicPartition",
    "TopicPartitionReplica",
]


class SubscriptionPattern(str):
    """A pattern for topic names that the broker evaluates (RE2/J syntax, KIP-848).

    Use it in `subscribe(pattern=...)` with group_protocol='consumer'. The client itself evaluates a
    pattern that is a str or a re.Pattern.
    """

    __slots__ = ()


class TopicPartition(NamedTuple):
    """A partition of a topic (`org.apache.kafka.common.TopicPartition`)."""

    topic: str
    partition: int


class TopicPartitionReplica(NamedTuple):
    """One replica of a partition, on the broker with this node ID."""

    topic: str
    partition: int
    broker_id: int


class OffsetAndMetadata(NamedTuple):
    """A committed offset (`consumer.OffsetAndMetadata`).

    Attributes:
        offset: The next offset to read: the offset of the last processed record plus one.
        metadata: Any str of the application.
        leader_epoch: Leader epoch of the last batch before the offset (KIP-320). -1 if unknown.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """Result of `offsets_for_times`: the first record at or after a time (Unix ms)."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


class PreparedTransaction(NamedTuple):
    """A transaction whose records are in the log. Any client may end it.

    `KafkaProducer.prepare_transaction` returns this object. Give it to
    `KafkaAdminClient.end_transaction`.

    Attributes:
        transactional_id: The transactional ID of the producer.
        producer_id: The ID that the coordinator has assigned to the producer.
        producer_epoch: The epoch of the producer.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int


class RecordMetadata(NamedTuple):
    """Where a record was written (`producer.RecordMetadata`).

    Attributes:
        topic: The record's topic.
        partition: The record's partition.
        topic_partition: Topic and partition.
        offset: The record's offset. -1 if the broker did not send it: with acks=0, or for a
            duplicate whose offset the broker no longer knows.
        timestamp: Unix ms. With LogAppendTime it is the broker's time.
        checksum: Always None: records have no checksum since version 2 of the batch format.
        serialized_key_size: Bytes of the key. -1 without a key.
        serialized_value_size: Bytes of the value. -1 for a null.
        serialized_header_size: Bytes of all names and values. -1 without headers.
    """

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    timestamp: int
    checksum: int | None
    serialized_key_size: int
    serialized_value_size: int
    serialized_header_size: int


class ClusterResource(NamedTuple):
    """The cluster that a client is connected to (`org.apache.kafka.common.ClusterResource`)."""

    cluster_id: str


class BrokerMetadata(NamedTuple):
    """A broker in the cluster's metadata."""

    nodeId: int  # noqa: N815 (kafka-python 2.x)
    host: str
    port: int
    rack: str | None = None

    @property
    def node_id(self) -> int:
        """The node ID, under kafka-python 3's name."""
        return self.nodeId


class PartitionMetadata(NamedTuple):
    """A partition in the cluster's metadata. Node IDs name the brokers."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline_replicas: list[int]
    error: type[Exception] | None = None


class MemberState:
    """The values of `ConsumerGroupMetadata.state`."""

    UNJOINED = "<unjoined>"
    REBALANCING = "<rebalancing>"
    STABLE = "<stable>"


class ConsumerGroupMetadata(NamedTuple):
    """A consumer's membership in its group at one moment, for transactions (KIP-447).

    Attributes:
        group_id: The group, or None if the consumer has none.
        generation_id: The generation or member epoch. -1 outside a group.
        member_id: The member ID from the coordinator. "" outside a group.
        group_instance_id: The ID of a static member.
        state: One of MemberState. Transactions do not use the state.
    """

    group_id: str | None = None
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    state: str = MemberState.UNJOINED


class GroupInformation(NamedTuple):
    """A group, as kafka-python 2's admin client returns it."""

    error_code: int
    group: str
    state: str
    protocol_type: str
    protocol: str
    members: list["MemberInformation"]
    authorized_operations: set[str] | None


class MemberInformation(NamedTuple):
    """A member of a group, as kafka-python 2's admin client returns it."""

    member_id: str
    client_id: str
    client_host: str
    member_metadata: object
    member_assignment: object
