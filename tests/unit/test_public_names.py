"""Every public class has exactly these public names.

A new name must be added here. A name that is part of the machinery begins with an underscore.
"""

import inspect
from typing import Any

import pytest

import thalweg
import thalweg.aio
import thalweg.broker

NAMES = {
    "AsyncConsumerRebalanceListener": """
        on_partitions_assigned on_partitions_lost on_partitions_revoked
    """,
    "BatchMetadata": "count offsets partitions",
    "ConsumerGroupMetadata": "generation_id group_id group_instance_id member_id state",
    "ConsumerInterceptor": "close configure on_commit on_consume",
    "ConsumerRebalanceListener": """
        on_partitions_assigned on_partitions_lost on_partitions_revoked
    """,
    "ConsumerRecord": """
        checksum count headers index key leader_epoch offset partition serialized_header_size
        serialized_key_size serialized_value_size timestamp timestamp_type topic value
    """,
    "DefaultSerializer": "close deserialize serialize",
    "Deserializer": "close deserialize",
    "EmbeddedBroker": """
        add_user allow bootstrap_servers ca_pem client_certificate client_config close
        create_topic delete_topic deny expire_sessions host leader move_coordinator move_leader
        nodes ports remove_user requests revoke_certificate running set_jwks start start_node
        stop_node token topics
    """,
    "FutureBatchMetadata": """
        add_both add_callback add_errback exception failed get is_done retriable succeeded value
    """,
    "FutureRecordMetadata": """
        add_both add_callback add_errback exception failed get is_done retriable succeeded value
    """,
    "IgnoredOptionWarning": "",
    "InsecureConnectionWarning": "",
    "IsolationLevel": "READ_COMMITTED READ_UNCOMMITTED",
    "JsonSerializer": "close deserialize serialize",
    "KafkaAdminClient": """
        DEFAULT_CONFIG abort_transaction alter_client_quotas alter_configs alter_group_offsets
        alter_partition_reassignments alter_replica_log_dirs alter_user_scram_credentials
        api_versions bootstrap_connected close closed create_acls create_delegation_token
        create_partitions create_topics delete_acls delete_consumer_groups delete_group_offsets
        delete_groups delete_records delete_topics describe_acls describe_client_quotas
        describe_cluster describe_configs describe_consumer_groups describe_delegation_tokens
        describe_features describe_groups describe_log_dirs describe_metadata_quorum
        describe_producers describe_topic_partitions describe_topics describe_transactions
        describe_user_scram_credentials elect_leaders end_transaction expire_delegation_token
        find_hanging_transactions from_config get_broker_version_data list_config_resources
        list_consumer_group_offsets list_consumer_groups list_group_offsets list_groups
        list_partition_offsets list_partition_reassignments list_topics list_transactions
        perform_leader_election remove_group_members renew_delegation_token reset_configs
        reset_group_offsets set_sasl_credentials update_features wait_for_topics
    """,
    "KafkaConsumer": """
        DEFAULT_CONFIG allow_rebalance assign assignment beginning_offsets bootstrap
        bootstrap_connected close closed commit commit_async commit_marked committed end_offsets
        from_config group_metadata highwater lag last_poll_timestamp last_stable_offset mark
        mark_through metrics offsets_for_times partitions_for_topic pause paused poll poll_arrow
        position resume seek seek_to_beginning seek_to_committed seek_to_end
        set_sasl_credentials subscribe subscription topics unsubscribe wakeup
    """,
    "KafkaProducer": """
        DEFAULT_CONFIG abort_transaction begin_transaction bootstrap_connected close closed
        commit_transaction flush from_config init_transactions max_usable_produce_magic metrics
        partitions_for prepare_transaction send send_arrow send_many send_offsets_to_transaction
        set_sasl_credentials transaction
    """,
    "OffsetAndMetadata": "leader_epoch metadata offset",
    "OffsetAndTimestamp": "leader_epoch offset timestamp",
    "OffsetSpec": "EARLIEST EARLIEST_LOCAL LATEST LATEST_TIERED MAX_TIMESTAMP",
    "PreparedTransaction": "producer_epoch producer_id transactional_id",
    "ProducerInterceptor": "close configure on_acknowledgement on_send",
    "ProducerRecord": "headers key partition timestamp_ms topic value",
    "RecordMetadata": """
        checksum offset partition serialized_header_size serialized_key_size
        serialized_value_size timestamp topic topic_partition
    """,
    "RecordTable": "column_names nbytes num_rows to_pandas to_polars to_pyarrow",
    "Secret": "reveal",
    "Serializer": "close serialize",
    "SubscriptionPattern": "",
    "TopicPartition": "partition topic",
    "TopicPartitionReplica": "broker_id partition topic",
    "AIOKafkaConsumer": """
        allow_rebalance assign assignment beginning_offsets closed commit commit_marked
        committed end_offsets from_config getmany getone group_metadata highwater lag
        last_poll_timestamp last_stable_offset mark mark_through metrics offsets_for_times
        partitions_for_topic pause paused poll_arrow position resume seek seek_to_beginning
        seek_to_committed seek_to_end set_sasl_credentials start stop subscribe subscription
        topics unsubscribe
    """,
    "AIOKafkaProducer": """
        abort_transaction begin_transaction closed commit_transaction create_batch flush
        from_config metrics partitions_for prepare_transaction send send_and_wait send_arrow
        send_batch send_many send_offsets_to_transaction set_sasl_credentials start stop transaction
    """,
    "BatchBuilder": "append close closed record_count size",
    "ConsumerStoppedError": """
        description errno invalid_metadata message possibly_written retriable
    """,
    "IllegalOperation": """
        description errno invalid_metadata message possibly_written retriable
    """,
    "RecordFuture": """
        add_done_callback cancel cancelled done exception get_loop remove_done_callback result
    """,
    "Fault": "hits remove",
    "FaultRule": "apply_then_disconnect then_delay then_disconnect then_fail then_silence",
    "Faults": "bad_server_signature clear close_in_handshake on scram_iterations tls_version",
}
MODULES = (thalweg, thalweg.aio, thalweg.broker)


def classes() -> dict[str, type]:
    found = {name: getattr(module, name) for module in MODULES for name in module.__all__}
    return {name: each for name, each in found.items() if inspect.isclass(each)}


def public(cls: Any) -> list[str]:
    """Lists the public names of a class, without those of `tuple`, `int` and Exception."""
    built_in = {name for base in cls.__mro__ if base.__module__ == "builtins" for name in dir(base)}
    return sorted(each for each in dir(cls) if not each.startswith("_") and each not in built_in)


def test_every_public_class_is_listed() -> None:
    assert sorted(classes()) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_class_has_exactly_these_public_names(name: str) -> None:
    assert public(classes()[name]) == sorted(NAMES[name].split())
