"""Small immutable values that calls take and give; kafka-python's names and fields.

All are NamedTuples, so they unpack, compare, hash, sort and pickle as tuples do. The native
core makes TopicPartition, OffsetAndMetadata, RecordMetadata and BrokerMetadata itself.
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
    "RecordMetadata",
    "SubscriptionPattern",
    "TopicPartition",
    "TopicPartitionReplica",
]


class SubscriptionPattern(str):
    """A pattern of topics' names that the broker evaluates (RE2/J; KIP-848).

    For `subscribe(pattern=...)` with group_protocol='consumer'. A plain str or re.Pattern is
    evaluated by the client.
    """

    __slots__ = ()


class TopicPartition(NamedTuple):
    """A topic's name and a partition's id (`org.apache.kafka.common.TopicPartition`)."""

    topic: str
    partition: int


class TopicPartitionReplica(NamedTuple):
    """One replica of a partition, on the broker with this node id."""

    topic: str
    partition: int
    broker_id: int


class OffsetAndMetadata(NamedTuple):
    """What a group commits for a partition (`consumer.OffsetAndMetadata`).

    Attributes:
        offset: The next offset to read: that of the last processed record, plus one.
        metadata: Free text of the application.
        leader_epoch: Of the last batch before the offset, with or without records (KIP-320); -1
            if unknown.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """The answer of `offsets_for_times`: the first record at or after a timestamp (Unix ms)."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


class RecordMetadata(NamedTuple):
    """Where a record went (`producer.RecordMetadata`).

    Attributes:
        topic: Its topic.
        partition: Its partition.
        topic_partition: Both.
        offset: Its offset; -1 if the broker did not say (acks=0, or a duplicate of a batch
            whose offset the broker no longer knows).
        timestamp: Unix ms; the broker's own under LogAppendTime.
        checksum: Always None: version 2 batches have no checksum per record.
        serialized_key_size: Bytes; -1 without key.
        serialized_value_size: Bytes; -1 without value.
        serialized_header_size: Bytes of names and values; -1 without headers.
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
    """Which cluster a client talks to (`org.apache.kafka.common.ClusterResource`)."""

    cluster_id: str


class BrokerMetadata(NamedTuple):
    """A broker as the cluster's metadata names it."""

    nodeId: int  # noqa: N815 (kafka-python 2.x)
    host: str
    port: int
    rack: str | None = None

    @property
    def node_id(self) -> int:
        """The node id, under kafka-python 3's name."""
        return self.nodeId


class PartitionMetadata(NamedTuple):
    """A partition as the cluster's metadata names it; node ids throughout."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline_replicas: list[int]
    error: type[Exception] | None = None


class MemberState:
    """The states that `ConsumerGroupMetadata.state` shows."""

    UNJOINED = "<unjoined>"
    REBALANCING = "<rebalancing>"
    STABLE = "<stable>"


class ConsumerGroupMetadata(NamedTuple):
    """A snapshot of a consumer's membership, for fencing in transactions (KIP-447).

    Attributes:
        group_id: The group, or None for a consumer without one.
        generation_id: The generation, or member epoch; -1 outside a group.
        member_id: Given by the coordinator; "" outside a group.
        group_instance_id: Of a static member.
        state: One of MemberState; not part of the fencing.
    """

    group_id: str | None = None
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    state: str = MemberState.UNJOINED


class GroupInformation(NamedTuple):
    """A group as kafka-python 2.x's admin client describes it."""

    error_code: int
    group: str
    state: str
    protocol_type: str
    protocol: str
    members: list["MemberInformation"]
    authorized_operations: set[str] | None


class MemberInformation(NamedTuple):
    """A member as kafka-python 2.x's admin client describes it."""

    member_id: str
    client_id: str
    client_host: str
    member_metadata: object
    member_assignment: object
