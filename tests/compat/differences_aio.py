"""Differences between thalweg.aio and aiokafka 0.14, each with its reason.

Everything that is not listed here is the same. test_aiokafka.py checks both: there are no unlisted
differences, and every listed difference exists. docs/asyncio.md shows them to users.
"""

from typing import Final

# Methods whose parameters differ, by class.
SIGNATURES: Final = {
    "AIOKafkaProducer": {
        "flush": "takes a timeout, as KafkaProducer's",
        "stop": "takes a timeout, as KafkaProducer's",
    },
    "AIOKafkaConsumer": {
        "committed": "may give the whole OffsetAndMetadata, as KafkaConsumer's",
        "stop": "may leave the last commit out, as KafkaConsumer's close",
    },
}

# (module, name) that does not exist.
NAMES: Final = {
    ("", "AIOKafkaClient"): "each client has its own connections, and takes no client object",
}

_OF_BOTH: Final = {
    "bootstrap_servers": "the same address, written out",
    "request_timeout_ms": "Kafka's own",
    "sasl_mechanism": "Kafka's own; SASL without a mechanism is refused",
}

# Option -> reason why its default differs.
DEFAULTS: Final = {
    "AIOKafkaProducer": {
        **_OF_BOTH,
        "acks": "Kafka's own since 3.0 (KIP-679)",
        "compression_type": "the same, by Kafka's name",
        "enable_idempotence": "Kafka's own since 3.0 (KIP-679)",
        "linger_ms": "Kafka's own since 4.0 (KIP-1030): fuller batches, at no cost under load",
        "partitioner": "the same hash of keys; records without key go to sticky partitions by load"
        " (KIP-480, KIP-794) in place of random ones",
        "request_timeout_ms": "Kafka's own; how long a send waits is max_block_ms, 60000",
    },
    "AIOKafkaConsumer": {
        **_OF_BOTH,
        "client_id": "one with a number of its own for each client",
        "client_rack": "the same: none",
        "consumer_timeout_ms": "iteration continues whatever this says, as with aiokafka",
        "max_poll_records": "Kafka's own: 500",
        "partition_assignment_strategy": "Kafka's own since 3.0 (KIP-726)",
        "session_timeout_ms": "Kafka's own since 3.0 (KIP-735)",
    },
}
