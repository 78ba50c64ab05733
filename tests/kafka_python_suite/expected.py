"""The tests of kafka-python's suite that do not pass, by name, each with the reason.

A test that is listed and passes fails the run, as does one that is not listed and fails.
"""

from __future__ import annotations

_CONSUMER = "test_consumer_integration"
_SASL = "test_sasl_integration"
_SSL = "test_ssl_integration.TestSSLConnection"

_REQUESTS = "internal: sends requests by kafka-python's KafkaNetClient"

# Skipped with both clients.
SKIPPED = {
    f"{_CONSUMER}.test_kafka_consumer_offsets_for_time_old": "about brokers before 0.10.1",
}

KAFKA_PYTHON_FAILS: dict[str, str] = {}

THALWEG_FAILS = {
    f"{_CONSUMER}.test_kafka_consumer_unsupported_encoding": (
        "internal: takes kafka.codec's gzip away; thalweg's codecs are native and always there"
    ),
    f"{_CONSUMER}.test_heartbeat_thread": (
        "internal: reads the times that kafka-python's heartbeat thread keeps"
    ),
    **{
        f"{_SASL}.test_client[{mechanism}]": _REQUESTS
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    },
    f"{_SSL}.test_legacy_kafka_client_ssl": _REQUESTS,
}
