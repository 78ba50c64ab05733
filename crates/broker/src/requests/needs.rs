//! What a client needs for each API: the table of operations that ACLs must allow.
//!
//! ```text
//! API ─▶ Needs ─▶ Context::refusal_for(topic), check_coordinator(group), check_transactional(id)
//! ```
//! The places where a handler reports the error of a fault are those where it reports that an
//! operation is not allowed. Handlers check themselves what depends on the request: creating
//! topics, the coordinator's lookup, producer IDs, and configurations of brokers. The table is that
//! of Kafka's `KafkaApis` and `ControllerApis`.

use thalweg_protocol::ApiKey;
use thalweg_security::acl::Operation;

/// The operation on each topic, group and transactional ID of a request, and on the cluster.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Needs {
    pub(crate) topic: Option<Operation>,
    pub(crate) group: Option<Operation>,
    pub(crate) transactional_id: Option<Operation>,
    pub(crate) cluster: Option<Operation>,
}

impl Needs {
    fn topic(operation: Operation) -> Self {
        Self {
            topic: Some(operation),
            ..Self::default()
        }
    }

    fn group(operation: Operation) -> Self {
        Self {
            group: Some(operation),
            ..Self::default()
        }
    }

    fn transactional_id(operation: Operation) -> Self {
        Self {
            transactional_id: Some(operation),
            ..Self::default()
        }
    }

    fn cluster(operation: Operation) -> Self {
        Self {
            cluster: Some(operation),
            ..Self::default()
        }
    }

    fn and_topic(self, operation: Operation) -> Self {
        Self {
            topic: Some(operation),
            ..self
        }
    }

    fn and_group(self, operation: Operation) -> Self {
        Self {
            group: Some(operation),
            ..self
        }
    }
}

pub(crate) fn needs(key: ApiKey) -> Needs {
    use Operation::{
        Alter, AlterConfigs, ClusterAction, Delete, Describe, DescribeConfigs, Read, Write,
    };
    match key {
        ApiKey::FETCH | ApiKey::DESCRIBE_PRODUCERS => Needs::topic(Read),
        ApiKey::LIST_OFFSETS
        | ApiKey::METADATA
        | ApiKey::OFFSET_FOR_LEADER_EPOCH
        | ApiKey::DESCRIBE_TOPIC_PARTITIONS => Needs::topic(Describe),
        ApiKey::DELETE_TOPICS | ApiKey::DELETE_RECORDS => Needs::topic(Delete),
        ApiKey::CREATE_PARTITIONS => Needs::topic(Alter),
        ApiKey::DESCRIBE_CONFIGS => Needs::topic(DescribeConfigs),
        ApiKey::ALTER_CONFIGS | ApiKey::INCREMENTAL_ALTER_CONFIGS => Needs::topic(AlterConfigs),
        ApiKey::JOIN_GROUP | ApiKey::SYNC_GROUP | ApiKey::HEARTBEAT | ApiKey::LEAVE_GROUP => {
            Needs::group(Read)
        }
        ApiKey::CONSUMER_GROUP_HEARTBEAT => Needs::group(Read).and_topic(Describe),
        ApiKey::OFFSET_COMMIT => Needs::group(Read).and_topic(Read),
        ApiKey::OFFSET_FETCH => Needs::group(Describe).and_topic(Describe),
        ApiKey::DESCRIBE_GROUPS | ApiKey::CONSUMER_GROUP_DESCRIBE | ApiKey::LIST_GROUPS => {
            Needs::group(Describe)
        }
        ApiKey::DELETE_GROUPS => Needs::group(Delete),
        ApiKey::OFFSET_DELETE => Needs::group(Delete).and_topic(Read),
        ApiKey::INIT_PRODUCER_ID | ApiKey::END_TXN => Needs::transactional_id(Write),
        ApiKey::PRODUCE | ApiKey::ADD_PARTITIONS_TO_TXN => {
            Needs::transactional_id(Write).and_topic(Write)
        }
        ApiKey::ADD_OFFSETS_TO_TXN => Needs::transactional_id(Write).and_group(Read),
        ApiKey::TXN_OFFSET_COMMIT => Needs::transactional_id(Write)
            .and_group(Read)
            .and_topic(Read),
        ApiKey::DESCRIBE_TRANSACTIONS | ApiKey::LIST_TRANSACTIONS => {
            Needs::transactional_id(Describe).and_topic(Describe)
        }
        ApiKey::WRITE_TXN_MARKERS => Needs::cluster(ClusterAction),
        ApiKey::LIST_CONFIG_RESOURCES | ApiKey::DESCRIBE_CLIENT_QUOTAS => {
            Needs::cluster(DescribeConfigs)
        }
        ApiKey::ALTER_CLIENT_QUOTAS => Needs::cluster(AlterConfigs),
        ApiKey::DESCRIBE_LOG_DIRS
        | ApiKey::LIST_PARTITION_REASSIGNMENTS
        | ApiKey::DESCRIBE_USER_SCRAM_CREDENTIALS
        | ApiKey::DESCRIBE_ACLS => Needs::cluster(Describe),
        ApiKey::ELECT_LEADERS
        | ApiKey::ALTER_USER_SCRAM_CREDENTIALS
        | ApiKey::CREATE_ACLS
        | ApiKey::DELETE_ACLS => Needs::cluster(Alter),
        _ => Needs::default(),
    }
}
