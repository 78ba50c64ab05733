"""Where thalweg.aio is not what aiokafka 0.14 is, each with its reason.

What is not listed here is the same; test_aiokafka.py holds both ways: nothing differs unlisted,
and nothing is listed that does not differ. docs/asyncio.md shows this to users.
"""

from typing import Final

# Methods whose parameters differ.
SIGNATURES: Final = {
    "flush": "takes a timeout, as KafkaProducer's",
    "stop": "takes a timeout, as KafkaProducer's",
}

# Option -> why its default is another one.
DEFAULTS: Final = {
    "acks": "Kafka's own since 3.0 (KIP-679)",
    "bootstrap_servers": "the same address, written out",
    "compression_type": "the same, by Kafka's name",
    "enable_idempotence": "Kafka's own since 3.0 (KIP-679)",
    "linger_ms": "Kafka's own since 4.0 (KIP-1030): fuller batches, at no cost under load",
    "partitioner": "the same hash of keys; records without key go to sticky partitions by load"
    " (KIP-480, KIP-794) in place of random ones",
    "request_timeout_ms": "Kafka's own; how long a send waits is max_block_ms, 60000",
    "sasl_mechanism": "Kafka's own; SASL without a mechanism is refused",
}
