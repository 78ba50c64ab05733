"""Differences between thalweg and kafka-python 2.3 or 3.0.12, each with its reason.

Everything that is not listed here is the same. test_kafka_python.py checks both: there are no
unlisted differences, and every listed difference exists. docs/migrating-from-kafka-python.md
shows the defaults to users.
"""

from typing import Final

_INSIDE = "a part of kafka-python's inside; applications import its names from the package above"
_RUST = "connections, batches and requests are the native core's"

_MEMBERSHIP = "what a membership is made of; thalweg.coordinator has files of its own"

# Module paths that cannot be imported: prefix -> reason. The migration page lists them, too.
MODULES: Final = {
    "admin._": _INSIDE,
    "client_async": _RUST,
    "cluster": _RUST,
    "codec": _RUST,
    "conn": _RUST,
    "coordinator.base": _MEMBERSHIP,
    "coordinator.consumer": _MEMBERSHIP,
    "coordinator.heartbeat": _MEMBERSHIP,
    "coordinator.subscription": _MEMBERSHIP,
    "future": _RUST,
    "producer.producer_batch": _RUST,
    "producer.record_accumulator": _RUST,
    "producer.sender": _RUST,
    "producer.transaction_manager": _RUST,
    "socks5_wrapper": _RUST,
    "util": _INSIDE,
}

# (module, name) that does not exist.
NAMES: Final = {
    ("", "BrokerConnection"): _RUST,
    ("", "KafkaClient"): _RUST,
    ("structs", "RetryOptions"): "of a producer that kafka-python itself removed in 1.4",
}

# (class, member) that does not exist.
METHODS: Final = {
    ("KafkaAdminClient", "send_request"): "took kafka-python's own request classes",
    ("KafkaAdminClient", "send_requests"): "took kafka-python's own request classes",
    ("KafkaConsumer", "DEFAULT_SESSION_TIMEOUT_MS_0_9"): "brokers of 0.9 are not spoken to",
    ("KafkaConsumer", "DEFAULT_SESSION_TIMEOUT_MS_PRE_KIP_735"): (
        "session_timeout_ms is what the option says, whatever the broker's age"
    ),
    ("FutureRecordMetadata", "args"): _INSIDE,
    ("FutureRecordMetadata", "chain"): "completes another future; a callback does that",
    ("FutureRecordMetadata", "error_on_callbacks"): "a callback that raises is logged",
    ("FutureRecordMetadata", "failure"): "only the producer completes a record's future",
    ("FutureRecordMetadata", "rebind"): _INSIDE,
    ("FutureRecordMetadata", "success"): "only the producer completes a record's future",
}

# (class, method) whose parameters differ.
SIGNATURES: Final = {
    ("KafkaProducer", "send_offsets_to_transaction"): (
        "takes 3.x's group_metadata and 2.x's consumer_group_id"
    ),
}

# Option -> reason why its default differs.
DEFAULTS: Final = {
    "acks": "Kafka's own since 3.0 (KIP-679), and kafka-python 3's",
    "api_version_auto_timeout_ms": "bootstrap_timeout_ms has the same meaning",
    "bootstrap_servers": "the same address, written out",
    "bootstrap_topics_filter": "without effect: the client requests only the topics in use",
    "client_id": "named after the client and numbered, as Kafka's own clients do",
    "compression_type": "the same, by Kafka's name",
    "consumer_timeout_ms": "the same: None and inf both mean no limit",
    "default_offset_commit_callback": "the same: no callback",
    "enable_idempotence": "Kafka's own since 3.0 (KIP-679), and kafka-python 3's",
    "kafka_client": "without effect: sockets are the native core's",
    "linger_ms": "Kafka's own since 4.0 (KIP-1030): fuller batches, at no cost under load",
    "partition_assignment_strategy": "Kafka's own since 3.0 (KIP-726)",
    "partitioner": "the same hash of keys; records without key go to sticky partitions by load"
    " (KIP-480, KIP-794) in place of random ones",
    "reconnect_backoff_max_ms": "Kafka's own: a broker that is back is found within a second",
    "request_timeout_ms": "Kafka's own, and kafka-python 3's: long polls have connections of"
    " their own here",
    "retries": "the same: as often as delivery_timeout_ms allows",
    "selector": "without effect: sockets are the native core's",
    "session_timeout_ms": "Kafka's own since 3.0 (KIP-735), and kafka-python 3's",
    "sock_chunk_buffer_count": "without effect: sockets are the native core's",
    "sock_chunk_bytes": "without effect: sockets are the native core's",
}

_NAME = "Kafka's name of the code today"
# (error, attribute) -> reason.
ERRORS: Final = {
    ("CorruptRecordError", "retriable"): "Kafka's table: a retry may find the record whole",
    ("CorruptRecordException", "retriable"): "Kafka's table: a retry may find the record whole",
    ("IncompatibleBrokerVersion", "errno"): "an UnsupportedVersionError, as in kafka-python 3",
    ("IncompatibleBrokerVersion", "message"): "an UnsupportedVersionError, as in kafka-python 3",
    ("InvalidReplicationAssignmentError", "message"): _NAME,
    ("InvalidTopicError", "message"): _NAME,
    ("KafkaProtocolError", "retriable"): "as in kafka-python 3",
    ("MessageSizeTooLargeError", "message"): _NAME,
    ("NoBrokersAvailable", "invalid_metadata"): "there is no metadata yet that could be stale",
    ("NoError", "message"): _NAME,
    ("NotLeaderForPartitionError", "message"): _NAME,
    ("TransactionAbortedError", "message"): "as in kafka-python 3",
    ("UnknownError", "message"): _NAME,
    ("UnknownLeaderEpochError", "bases"): "Kafka's table: the broker is behind, not the client",
    ("UnknownLeaderEpochError", "invalid_metadata"): (
        "Kafka's table: the broker is behind, not the client"
    ),
}

# Struct -> reason why fields or defaults differ.
STRUCTS: Final = {
    "BrokerMetadata": "rack may be left out",
    "OffsetAndMetadata": "an offset must be given, the rest need not be",
    "OffsetAndTimestamp": "leader_epoch may be left out",
    "PartitionMetadata": "error may be left out",
    "RetryOptions": "of a producer that kafka-python itself removed in 1.4",
}

# (enum, member) that does not exist, or has another value.
ENUMS: Final = {
    ("ACLOperation", "DESCRIBE_TOKENS"): "2.3 has a number that Kafka does not; as in 3.0",
}
