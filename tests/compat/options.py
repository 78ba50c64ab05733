"""A value for every option of kafka-python and aiokafka, as an application might set it.

No value is the option's default, if another value works on a plain broker. `COMPANIONS` has the
options that an option needs.
"""

import selectors
import ssl
from collections.abc import Callable
from typing import Any, Final

VALUES: Final[dict[str, Any]] = {
    "acks": "all",
    "allow_auto_create_topics": False,
    "api_version": (2, 6),
    "api_version_auto_timeout_ms": 5000,
    "auto_commit_interval_ms": 1000,
    "auto_offset_reset": "earliest",
    "batch_size": 65536,
    "bootstrap_timeout_ms": 10000,
    "bootstrap_topics_filter": {"t"},
    "check_crcs": False,
    "client_dns_lookup": "resolve_canonical_bootstrap_servers_only",
    "client_id": "an-application",
    "client_rack": "a",
    "compression_type": "gzip",
    "connections_max_idle_ms": 60000,
    "consumer_timeout_ms": 1000,
    "default_offset_commit_callback": lambda offsets, response: None,
    "delivery_timeout_ms": 60000,
    "enable_auto_commit": None,
    "enable_idempotence": True,
    "enable_incremental_fetch_sessions": False,
    "exclude_internal_topics": False,
    "fetch_max_bytes": 1048576,
    "fetch_max_wait_ms": 100,
    "fetch_min_bytes": 100,
    "group_id": "g",
    "group_instance_id": "member-1",
    "heartbeat_interval_ms": 1000,
    "isolation_level": "read_committed",
    "kafka_client": object,
    "key_deserializer": bytes.decode,
    "key_serializer": str.encode,
    "linger_ms": 10,
    "max_batch_size": 65536,
    "max_block_ms": 1000,
    "max_in_flight_requests_per_connection": 1,
    "max_partition_fetch_bytes": 65536,
    "max_poll_interval_ms": 60000,
    "max_poll_records": 10,
    "max_request_size": 65536,
    "metadata_max_age_ms": 60000,
    "metric_group_prefix": "application",
    "metric_reporters": [],
    "metrics_enabled": False,
    "metrics_num_samples": 3,
    "metrics_sample_window_ms": 10000,
    "partition_assignment_strategy": ["roundrobin"],
    "partitioner": lambda key, every, available: every[0],
    "proxy_url": "socks5://localhost:1080",
    "rebalance_timeout_ms": 20000,
    "receive_buffer_bytes": 65536,
    "receive_message_max_bytes": 50_000_000,
    "reconnect_backoff_max_ms": 500,
    "reconnect_backoff_ms": 100,
    "request_timeout_ms": 40000,
    "retries": 3,
    "retry_backoff_ms": 200,
    "sasl_kerberos_domain_name": "example.com",
    "sasl_kerberos_name": "kafka",
    "sasl_kerberos_service_name": "brokers",
    "sasl_mechanism": "PLAIN",
    "sasl_oauth_token_provider": lambda config: "token",
    "sasl_plain_password": "secret",
    "sasl_plain_username": "user",
    "security_protocol": "PLAINTEXT",
    "selector": selectors.SelectSelector,
    "send_buffer_bytes": 65536,
    "session_timeout_ms": 10000,
    "sock_chunk_buffer_count": 100,
    "sock_chunk_bytes": 65536,
    "socket_options": [(6, 1, 1)],
    "socks5_proxy": "socks5://localhost:1080",
    "ssl_cafile": "ca.pem",
    "ssl_certfile": "certificate.pem",
    "ssl_check_hostname": False,
    "ssl_ciphers": "ECDHE-RSA-AES256-GCM-SHA384",
    "ssl_context": ssl.create_default_context(),
    "ssl_crlfile": "revoked.pem",
    "ssl_keyfile": "key.pem",
    "ssl_password": "secret",
    "transaction_timeout_ms": 30000,
    "transactional_id": "a-transfer",
    "value_deserializer": bytes.decode,
    "value_serializer": str.encode,
}
COMPANIONS: Final[dict[str, dict[str, Any]]] = {
    "group_instance_id": {"group_id": "g"},
    "ssl_keyfile": {"ssl_certfile": "certificate.pem"},
}

# Options that a constructor refuses, each with its reason. The tests check that exactly these are.
REFUSED: Final = {
    "proxy_url": "the client does not support proxies yet. Remove the option",
    "socks5_proxy": "the client does not support proxies yet. Remove the option",
}


def refused_by(make: Callable[..., object], names: set[str]) -> set[str]:
    """Returns the options that a constructor refuses, each given alone."""
    found = set()
    for name in sorted(names - {"bootstrap_servers"}):
        try:
            make(**{name: VALUES[name]}, **COMPANIONS.get(name, {}))
        except ValueError as error:
            if f" {name} is refused: " not in str(error):
                raise
            found.add(name)
    return found
