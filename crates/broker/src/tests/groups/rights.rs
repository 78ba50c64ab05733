//! ACLs of topics in requests about groups: nothing tells which topics there are, or what is in a
//! group's hands, to a client that may not see the topics.

use thalweg_protocol::messages::consumer_group_describe::{
    self, Assignment, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, Member,
    TopicPartitions,
};
use thalweg_protocol::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;
use thalweg_protocol::messages::create_acls::{AclCreation, CreateAclsRequest};
use thalweg_protocol::messages::describe_groups::{
    self, DescribeGroupsRequest, DescribeGroupsResponse,
};
use thalweg_protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use thalweg_protocol::{ErrorCode, Str};

use super::grouped::*;
use super::*;

const AUTHORIZER: [(&str, &str); 2] = [
    (
        "authorizer.class.name",
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    ),
    ("super.users", "User:admin"),
];
const TOPIC: i8 = 2;
const GROUP: i8 = 3;
const READ: i8 = 3;
const DESCRIBE: i8 = 8;
const DENIED: ErrorCode = ErrorCode::TOPIC_AUTHORIZATION_FAILED;

struct World(Bench);

impl World {
    fn new() -> Self {
        let mut bench = served_by(1, &AUTHORIZER);
        bench.create("t", 2, &[]);
        bench.all_events();
        Self(bench)
    }

    fn send<R: Request>(&mut self, user: &str, request: &R, version: i16) -> Outcome {
        let mut connection = self.0.core.connect(1, "/127.0.0.1".to_owned());
        connection.identify(user);
        let frame = frame::encode_request(request, version, 7, Some("test")).unwrap();
        self.0
            .handle_on(&mut connection, Bytes::from(frame).slice(4..))
    }

    fn ask<R: Request>(&mut self, request: &R, version: i16) -> R::Response {
        decode::<R>(self.send("alice", request, version), version)
    }

    fn allow(&mut self, resource_type: i8, name: &str, operation: i8) {
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
        let outcome = self.send("admin", &CreateAclsRequest { creations }, 3);
        let response = decode::<CreateAclsRequest>(outcome, 3);
        assert_eq!(response.results[0].error_code, 0);
    }

    /// Returns the response of the coordinator, as it reaches the client.
    fn described<R: Request>(
        &mut self,
        request: &R,
        response: &R::Response,
        version: i16,
    ) -> R::Response {
        let mut waiting = wait(self.send("alice", request, version));
        let handed = self.0.request();
        self.0.respond(&handed, response);
        decode::<R>(self.0.poll(&mut waiting).unwrap(), version)
    }
}

#[test]
fn a_member_must_be_allowed_to_describe_the_topics_that_it_names() {
    let mut world = World::new();
    let heartbeat = |names: &[&str]| ConsumerGroupHeartbeatRequest {
        group_id: "g".into(),
        member_id: "m".into(),
        rebalance_timeout_ms: 1000,
        subscribed_topic_names: Some(names.iter().map(|name| (*name).into()).collect()),
        topic_partitions: Some(Vec::new()),
        ..ConsumerGroupHeartbeatRequest::default()
    };
    let code =
        |world: &mut World, names: &[&str]| ErrorCode(world.ask(&heartbeat(names), 1).error_code);
    let group_denied = ErrorCode::GROUP_AUTHORIZATION_FAILED;
    assert_eq!(code(&mut world, &["t"]), group_denied);
    world.allow(GROUP, "g", READ);
    // Whether the topic exists does not matter.
    assert_eq!(code(&mut world, &["t"]), DENIED);
    assert_eq!(code(&mut world, &["missing"]), DENIED);
    world.allow(TOPIC, "t", DESCRIBE);
    assert_eq!(code(&mut world, &["t", "missing"]), DENIED);
    wait(world.send("alice", &heartbeat(&["t"]), 1));
}

#[test]
fn a_description_has_the_rights_of_who_asks() {
    let mut world = World::new();
    world.allow(GROUP, "g", READ);
    let request = DescribeGroupsRequest {
        groups: vec!["g".into()],
        include_authorized_operations: true,
    };
    let group = describe_groups::DescribedGroup {
        group_id: "g".into(),
        group_state: "Stable".into(),
        ..describe_groups::DescribedGroup::default()
    };
    let groups = vec![group];
    let drafted = DescribeGroupsResponse {
        groups,
        ..DescribeGroupsResponse::default()
    };
    let response = world.described(&request, &drafted, 6);
    assert_eq!(
        response.groups[0].authorized_operations,
        1 << READ | 1 << DESCRIBE
    );

    let request = ConsumerGroupDescribeRequest {
        group_ids: vec!["g".into()],
        include_authorized_operations: true,
    };
    let response = world.described(&request, &consumer_group("t"), 1);
    let hidden = &response.groups[0];
    assert_eq!(ErrorCode(hidden.error_code), DENIED);
    assert_eq!(
        hidden.error_message.as_deref(),
        Some("The group has described topic(s) that the client is not authorized to describe.")
    );
    assert!(hidden.members.is_empty());
    assert_eq!(hidden.authorized_operations, i32::MIN);
    world.allow(TOPIC, "t", DESCRIBE);
    let response = world.described(&request, &consumer_group("t"), 1);
    assert_eq!(response.groups[0].error_code, 0);
    assert_eq!(response.groups[0].members.len(), 1);
    assert_eq!(
        response.groups[0].authorized_operations,
        1 << READ | 1 << DESCRIBE
    );
    let response = world.described(&request, &consumer_group("missing"), 1);
    assert_eq!(ErrorCode(response.groups[0].error_code), DENIED);
}

/// A group whose only member will get a partition of the topic.
fn consumer_group(topic: &str) -> ConsumerGroupDescribeResponse {
    let topic_partitions = vec![TopicPartitions {
        topic_name: topic.into(),
        partitions: vec![0],
        ..TopicPartitions::default()
    }];
    let member = Member {
        member_id: "m".into(),
        target_assignment: Assignment { topic_partitions },
        ..Member::default()
    };
    let group = consumer_group_describe::DescribedGroup {
        group_id: "g".into(),
        members: vec![member],
        ..consumer_group_describe::DescribedGroup::default()
    };
    let groups = vec![group];
    ConsumerGroupDescribeResponse {
        groups,
        ..ConsumerGroupDescribeResponse::default()
    }
}

#[test]
fn a_commit_does_not_tell_which_topics_and_partitions_exist() {
    let mut world = World::new();
    world.allow(GROUP, "g", READ);
    let id = world.0.core.topology.topic("t").unwrap().id;
    let commit = |name: &str, partition_index, epoch| OffsetCommitRequest {
        group_id: "g".into(),
        member_id: if epoch < 0 { "".into() } else { "m".into() },
        generation_id_or_member_epoch: epoch,
        topics: vec![OffsetCommitRequestTopic {
            name: name.into(),
            topic_id: id,
            partitions: vec![OffsetCommitRequestPartition {
                partition_index,
                ..OffsetCommitRequestPartition::default()
            }],
        }],
        ..OffsetCommitRequest::default()
    };
    let code = |world: &mut World, name: &str, partition, epoch, version| {
        let response = world.ask(&commit(name, partition, epoch), version);
        ErrorCode(response.topics[0].partitions[0].error_code)
    };
    // The epoch is that of a member that does not exist, or of no member.
    for epoch in [7, -1] {
        for version in [9, 10] {
            for (name, partition) in [("t", 0), ("t", 9), ("missing", 0)] {
                let name = if version == 9 {
                    Str::from(name)
                } else {
                    Str::default()
                };
                let found = code(&mut world, &name, partition, epoch, version);
                assert_eq!(found, DENIED, "{name} {partition} {epoch} v{version}");
            }
        }
    }
    world.allow(TOPIC, "t", READ);
    assert_eq!(code(&mut world, "t", 0, -1, 9), ErrorCode::NONE);
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    assert_eq!(code(&mut world, "t", 9, 7, 9), unknown);
    assert_eq!(code(&mut world, "missing", 0, -1, 9), DENIED);
    assert_eq!(code(&mut world, "t", 0, 7, 9), ErrorCode::UNKNOWN_MEMBER_ID);
}
