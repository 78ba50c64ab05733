//! ACLs: which requests a user may send, and how the others are refused.

use thalweg_protocol::messages::add_offsets_to_txn::AddOffsetsToTxnRequest;
use thalweg_protocol::messages::create_acls::{AclCreation, CreateAclsRequest};
use thalweg_protocol::messages::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsTopic,
};
use thalweg_protocol::messages::create_topics::{CreatableTopic, CreateTopicsRequest};
use thalweg_protocol::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use thalweg_protocol::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource,
};
use thalweg_protocol::messages::describe_log_dirs::DescribeLogDirsRequest;
use thalweg_protocol::messages::describe_user_scram_credentials::DescribeUserScramCredentialsRequest;
use thalweg_protocol::messages::elect_leaders::ElectLeadersRequest;
use thalweg_protocol::messages::end_txn::EndTxnRequest;
use thalweg_protocol::messages::find_coordinator::FindCoordinatorRequest;
use thalweg_protocol::messages::init_producer_id::InitProducerIdRequest;
use thalweg_protocol::messages::list_config_resources::ListConfigResourcesRequest;
use thalweg_protocol::messages::list_groups::ListGroupsRequest;
use thalweg_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use thalweg_protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use thalweg_protocol::messages::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup};

use super::*;

const AUTHORIZER: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
pub(super) const TOPIC: i8 = 2;
const GROUP: i8 = 3;
pub(super) const CLUSTER: i8 = 4;
const TRANSACTIONAL_ID: i8 = 5;
pub(super) const READ: i8 = 3;
pub(super) const WRITE: i8 = 4;
const CREATE: i8 = 5;
const DELETE: i8 = 6;
const ALTER: i8 = 7;
const DESCRIBE: i8 = 8;
const DESCRIBE_CONFIGS: i8 = 10;
const IDEMPOTENT_WRITE: i8 = 12;

/// A broker with an authorizer and two topics.
pub(super) struct World(pub(super) Bench);

impl World {
    pub(super) fn new() -> Self {
        let options = [
            ("authorizer.class.name", AUTHORIZER),
            ("super.users", "User:admin"),
        ];
        let mut bench = Bench::with_options(1, &options);
        bench.create("t", 1, &[]);
        bench.create("u", 1, &[]);
        Self(bench)
    }

    fn outcome<R: Request>(&mut self, user: &str, request: &R, version: i16) -> Outcome {
        let mut connection = self.0.core.connect(1, "/127.0.0.1".to_owned());
        connection.identify(user);
        let frame = frame::encode_request(request, version, 7, Some("test")).unwrap();
        self.0
            .handle_on(&mut connection, Bytes::from(frame).slice(4..))
    }

    pub(super) fn ask<R: Request>(&mut self, user: &str, request: &R, version: i16) -> R::Response {
        decode::<R>(self.outcome(user, request, version), version)
    }

    /// Lets alice do something.
    pub(super) fn allow(&mut self, resource_type: i8, name: &str, operation: i8) {
        let creation = AclCreation {
            resource_type,
            resource_name: name.into(),
            resource_pattern_type: 3,
            principal: "User:alice".into(),
            host: "*".into(),
            operation,
            permission_type: 3,
        };
        let creations = vec![creation];
        let response = self.ask("admin", &CreateAclsRequest { creations }, 3);
        assert_eq!(response.results[0].error_code, 0);
    }

    /// Asserts that alice gets the first code without the rules, and the second one with them.
    fn becomes(
        rules: &[(i8, &str, i8)],
        (without, with): (ErrorCode, ErrorCode),
        mut ask: impl FnMut(&mut Self) -> i16,
    ) {
        let mut world = Self::new();
        for (index, (kind, name, operation)) in rules.iter().enumerate() {
            assert_eq!(
                ErrorCode(ask(&mut world)),
                without,
                "with {index} rules of {rules:?}"
            );
            world.allow(*kind, name, *operation);
        }
        assert_eq!(ErrorCode(ask(&mut world)), with, "{rules:?}");
    }
}

const TOPIC_DENIED: ErrorCode = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
const GROUP_DENIED: ErrorCode = ErrorCode::GROUP_AUTHORIZATION_FAILED;
pub(super) const CLUSTER_DENIED: ErrorCode = ErrorCode::CLUSTER_AUTHORIZATION_FAILED;
const ID_DENIED: ErrorCode = ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
pub(super) const NONE: ErrorCode = ErrorCode::NONE;

#[test]
fn writing_and_reading_need_rights_on_the_topic() {
    World::becomes(&[(TOPIC, "t", WRITE)], (TOPIC_DENIED, NONE), |world| {
        let response = world.ask("alice", &produce_request("t", 0, batch(&[NOW_MS])), 12);
        response.responses[0].partition_responses[0].error_code
    });
    World::becomes(&[(TOPIC, "t", READ)], (TOPIC_DENIED, NONE), |world| {
        let response = world.ask("alice", &fetch_request("t", &[(0, 0)]), 12);
        response.responses[0].partitions[0].error_code
    });
}

#[test]
fn a_denied_topic_costs_the_others_nothing() {
    let mut world = World::new();
    world.allow(TOPIC, "u", WRITE);
    let mut request = produce_request("t", 0, batch(&[NOW_MS]));
    request
        .topic_data
        .extend(produce_request("u", 0, batch(&[NOW_MS])).topic_data);
    let response = world.ask("alice", &request, 12);
    let codes: Vec<i16> = response
        .responses
        .iter()
        .map(|topic| topic.partition_responses[0].error_code)
        .collect();
    assert_eq!(codes, [TOPIC_DENIED.0, 0]);
    assert_eq!(
        world
            .ask("admin", &fetch_request("t", &[(0, 0)]), 12)
            .responses[0]
            .partitions[0]
            .high_watermark,
        0
    );
}

#[test]
fn an_unknown_topic_looks_like_one_that_is_denied() {
    let mut world = World::new();
    let response = world.ask("alice", &produce_request("nope", 0, batch(&[NOW_MS])), 12);
    assert_eq!(
        response.responses[0].partition_responses[0].error_code,
        TOPIC_DENIED.0
    );
    let response = world.ask("alice", &fetch_request("nope", &[(0, 0)]), 12);
    assert_eq!(
        response.responses[0].partitions[0].error_code,
        TOPIC_DENIED.0
    );
    let response = world.ask("alice", &delete("nope"), 6);
    assert_eq!(response.responses[0].error_code, TOPIC_DENIED.0);
    let response = world.ask("alice", &commit("nope"), 9);
    assert_eq!(response.topics[0].partitions[0].error_code, GROUP_DENIED.0);
    world.allow(GROUP, "g", READ);
    let response = world.ask("alice", &commit("nope"), 9);
    assert_eq!(response.topics[0].partitions[0].error_code, TOPIC_DENIED.0);
}

fn metadata(names: Option<&[&str]>) -> MetadataRequest {
    let topic = |name: &&str| MetadataRequestTopic {
        name: Some((*name).into()),
        ..MetadataRequestTopic::default()
    };
    MetadataRequest {
        topics: names.map(|names| names.iter().map(topic).collect()),
        allow_auto_topic_creation: true,
        include_topic_authorized_operations: true,
        ..MetadataRequest::default()
    }
}

#[test]
fn no_other_api_shows_the_names_of_topics() {
    let mut world = World::new();
    let id = world.ask("admin", &metadata(Some(&["t"])), 12).topics[0].topic_id;
    let mut by_id = metadata(Some(&["x"]));
    if let Some(topics) = &mut by_id.topics {
        topics[0].topic_id = id;
    }
    let response = world.ask("alice", &by_id, 12);
    assert_eq!(response.topics[0].error_code, TOPIC_DENIED.0);
    assert_eq!(response.topics[0].name, None);
    let everything = ListConfigResourcesRequest::default();
    let response = world.ask("alice", &everything, 1);
    assert_eq!(response.error_code, CLUSTER_DENIED.0);
    assert!(response.config_resources.is_empty());
    let all = ElectLeadersRequest {
        topic_partitions: None,
        ..ElectLeadersRequest::default()
    };
    let response = world.ask("alice", &all, 2);
    assert_eq!(response.error_code, CLUSTER_DENIED.0);
    assert!(response.replica_election_results.is_empty());
}

#[test]
fn a_new_topic_shows_its_options_only_to_those_who_may_see_them() {
    let mut world = World::new();
    world.allow(TOPIC, "new", CREATE);
    let create = |name: &str| CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: name.into(),
            num_partitions: 1,
            replication_factor: 1,
            ..CreatableTopic::default()
        }],
        validate_only: true,
        ..CreateTopicsRequest::default()
    };
    let result = &world.ask("alice", &create("new"), 7).topics[0];
    assert_eq!(
        (result.error_code, result.topic_config_error_code),
        (0, TOPIC_DENIED.0)
    );
    assert_eq!(result.configs, None);
    world.allow(TOPIC, "new", DESCRIBE_CONFIGS);
    let result = &world.ask("alice", &create("new"), 7).topics[0];
    assert_eq!(result.topic_config_error_code, 0);
    assert!(
        result
            .configs
            .as_ref()
            .is_some_and(|configs| !configs.is_empty())
    );
}

#[test]
fn metadata_shows_only_what_may_be_described() {
    let mut world = World::new();
    assert!(world.ask("alice", &metadata(None), 12).topics.is_empty());
    let response = world.ask("alice", &metadata(Some(&["t", "nope"])), 12);
    let codes: Vec<i16> = response
        .topics
        .iter()
        .map(|topic| topic.error_code)
        .collect();
    assert_eq!(codes, [TOPIC_DENIED.0; 2]);
    assert!(response.topics.iter().all(|topic| topic.topic_id.is_zero()));
    world.allow(TOPIC, "t", READ);
    let response = world.ask("alice", &metadata(None), 12);
    let names: Vec<_> = response
        .topics
        .iter()
        .map(|topic| topic.name.as_deref())
        .collect();
    assert_eq!(names, [Some("t")]);
    // READ implies DESCRIBE.
    let bits = (1 << READ) | (1 << DESCRIBE);
    assert_eq!(response.topics[0].topic_authorized_operations, bits);
    assert_eq!(world.ask("admin", &metadata(None), 12).topics.len(), 2);
}

#[test]
fn a_missing_topic_is_created_only_for_those_who_may_create_it() {
    let mut world = World::new();
    world.allow(TOPIC, "new", DESCRIBE);
    let code =
        |world: &mut World| world.ask("alice", &metadata(Some(&["new"])), 12).topics[0].error_code;
    assert_eq!(code(&mut world), TOPIC_DENIED.0);
    world.allow(TOPIC, "new", CREATE);
    assert_eq!(code(&mut world), 0);
}

fn delete(name: &str) -> DeleteTopicsRequest {
    DeleteTopicsRequest {
        topics: vec![DeleteTopicState {
            name: Some(name.into()),
            topic_id: Uuid::ZERO,
        }],
        ..DeleteTopicsRequest::default()
    }
}

fn commit(topic: &str) -> OffsetCommitRequest {
    OffsetCommitRequest {
        group_id: "g".into(),
        topics: vec![OffsetCommitRequestTopic {
            name: topic.into(),
            partitions: vec![OffsetCommitRequestPartition::default()],
            ..OffsetCommitRequestTopic::default()
        }],
        ..OffsetCommitRequest::default()
    }
}

#[test]
fn administrators_need_rights_on_topics_or_the_cluster() {
    let create = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: "new".into(),
            num_partitions: 1,
            replication_factor: 1,
            ..CreatableTopic::default()
        }],
        validate_only: true,
        ..CreateTopicsRequest::default()
    };
    for right in [(TOPIC, "new", CREATE), (CLUSTER, "kafka-cluster", CREATE)] {
        World::becomes(&[right], (TOPIC_DENIED, NONE), |world| {
            world.ask("alice", &create, 7).topics[0].error_code
        });
    }
    for right in [(TOPIC, "t", DELETE), (CLUSTER, "kafka-cluster", DELETE)] {
        World::becomes(&[right], (TOPIC_DENIED, NONE), |world| {
            world.ask("alice", &delete("t"), 6).responses[0].error_code
        });
    }
    let grow = CreatePartitionsRequest {
        topics: vec![CreatePartitionsTopic {
            name: "t".into(),
            count: 2,
            assignments: None,
        }],
        validate_only: true,
        ..CreatePartitionsRequest::default()
    };
    World::becomes(&[(TOPIC, "t", ALTER)], (TOPIC_DENIED, NONE), |world| {
        world.ask("alice", &grow, 3).results[0].error_code
    });
    for (resource_type, name, right, denied) in [
        (2, "t", (TOPIC, "t", DESCRIBE_CONFIGS), TOPIC_DENIED),
        (
            4,
            "1",
            (CLUSTER, "kafka-cluster", DESCRIBE_CONFIGS),
            CLUSTER_DENIED,
        ),
    ] {
        let configs = DescribeConfigsRequest {
            resources: vec![DescribeConfigsResource {
                resource_type,
                resource_name: name.into(),
                configuration_keys: None,
            }],
            ..DescribeConfigsRequest::default()
        };
        World::becomes(&[right], (denied, NONE), |world| {
            world.ask("alice", &configs, 4).results[0].error_code
        });
    }
    let cluster = [(CLUSTER, "kafka-cluster", DESCRIBE)];
    World::becomes(&cluster, (CLUSTER_DENIED, NONE), |world| {
        world
            .ask("alice", &DescribeLogDirsRequest::default(), 4)
            .error_code
    });
    World::becomes(&cluster, (CLUSTER_DENIED, NONE), |world| {
        let request = DescribeUserScramCredentialsRequest::default();
        world.ask("alice", &request, 0).error_code
    });
}

#[test]
fn groups_need_rights_on_the_group_and_the_topics() {
    let rights = [(GROUP, "g", READ)];
    World::becomes(&rights, (GROUP_DENIED, TOPIC_DENIED), |world| {
        world.ask("alice", &commit("t"), 9).topics[0].partitions[0].error_code
    });
    let mut world = World::new();
    world.allow(GROUP, "g", READ);
    world.allow(TOPIC, "t", READ);
    let response = world.ask("alice", &commit("t"), 9);
    assert_eq!(response.topics[0].partitions[0].error_code, 0);
    world.ask("admin", &commit("u"), 9);
    // Without a list of topics, those that the user may not describe are left out.
    let group = OffsetFetchRequestGroup {
        group_id: "g".into(),
        topics: None,
        ..OffsetFetchRequestGroup::default()
    };
    let fetch = OffsetFetchRequest {
        groups: vec![group],
        ..OffsetFetchRequest::default()
    };
    let topics = |world: &mut World, user: &str| world.ask(user, &fetch, 8).groups[0].topics.len();
    assert_eq!(
        (topics(&mut world, "alice"), topics(&mut world, "admin")),
        (1, 2)
    );
    assert_eq!(
        world.ask("bob", &fetch, 8).groups[0].error_code,
        GROUP_DENIED.0
    );
    let listed = |world: &mut World, user: &str| {
        world
            .ask(user, &ListGroupsRequest::default(), 4)
            .groups
            .len()
    };
    let seen = ["alice", "bob", "admin"].map(|user| listed(&mut world, user));
    assert_eq!(seen, [1, 0, 1]);
}

#[test]
fn coordinators_are_found_by_those_who_may_describe_what_they_coordinate() {
    for (key_type, kind, denied) in [(0, GROUP, GROUP_DENIED), (1, TRANSACTIONAL_ID, ID_DENIED)] {
        let request = FindCoordinatorRequest {
            key_type,
            coordinator_keys: vec!["g".into()],
            ..FindCoordinatorRequest::default()
        };
        World::becomes(&[(kind, "g", DESCRIBE)], (denied, NONE), |world| {
            world.ask("alice", &request, 4).coordinators[0].error_code
        });
    }
}

#[test]
fn producers_need_rights_for_idempotence_and_transactions() {
    let idempotent = InitProducerIdRequest {
        transactional_id: None,
        producer_id: -1,
        producer_epoch: -1,
        ..InitProducerIdRequest::default()
    };
    for right in [
        (TOPIC, "any", WRITE),
        (CLUSTER, "kafka-cluster", IDEMPOTENT_WRITE),
    ] {
        World::becomes(&[right], (CLUSTER_DENIED, NONE), |world| {
            world.ask("alice", &idempotent, 4).error_code
        });
    }
    let transactional = InitProducerIdRequest {
        transactional_id: Some("id".into()),
        transaction_timeout_ms: 1000,
        ..idempotent
    };
    let write = (TRANSACTIONAL_ID, "id", WRITE);
    World::becomes(&[write], (ID_DENIED, NONE), |world| {
        world.ask("alice", &transactional, 4).error_code
    });
    let end = EndTxnRequest {
        transactional_id: "id".into(),
        ..EndTxnRequest::default()
    };
    World::becomes(
        &[write],
        (ID_DENIED, ErrorCode::INVALID_PRODUCER_ID_MAPPING),
        |world| world.ask("alice", &end, 4).error_code,
    );
    let offsets = AddOffsetsToTxnRequest {
        transactional_id: "id".into(),
        group_id: "g".into(),
        ..AddOffsetsToTxnRequest::default()
    };
    World::becomes(&[write], (ID_DENIED, GROUP_DENIED), |world| {
        world.ask("alice", &offsets, 4).error_code
    });
    let mut world = World::new();
    world.allow(TOPIC, "t", WRITE);
    let mut request = produce_request("t", 0, batch(&[NOW_MS]));
    request.transactional_id = Some("id".into());
    let response = world.ask("alice", &request, 12);
    assert_eq!(
        response.responses[0].partition_responses[0].error_code,
        ID_DENIED.0
    );
}
