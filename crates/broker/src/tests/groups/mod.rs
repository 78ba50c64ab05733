//! Consumer groups. Here: where they are, and what they commit without a coordinator outside of the
//! crate. The other files have one that is controlled by hand ([`grouped`]).

mod grouped;
mod members;
mod offsets;
mod requests;
mod rights;
mod sessions;

use thalweg_protocol::ErrorCode;
use thalweg_protocol::messages::describe_groups::DescribeGroupsRequest;
use thalweg_protocol::messages::find_coordinator::FindCoordinatorRequest;
use thalweg_protocol::messages::list_groups::ListGroupsRequest;
use thalweg_protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use thalweg_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};

use super::*;

pub(super) fn coordinator(bench: &mut Bench, group: &str) -> i32 {
    let request = FindCoordinatorRequest {
        coordinator_keys: vec![group.into()],
        ..FindCoordinatorRequest::default()
    };
    let found = bench.ask(&request, 4).coordinators.remove(0);
    assert_eq!((found.error_code, found.host.as_str()), (0, "broker"));
    assert_eq!(found.port, 9091 + found.node_id);
    found.node_id
}

pub(super) fn commit(
    group: &str,
    topic: &str,
    partition_index: i32,
    offset: i64,
) -> OffsetCommitRequest {
    OffsetCommitRequest {
        group_id: group.into(),
        topics: vec![OffsetCommitRequestTopic {
            name: topic.into(),
            partitions: vec![OffsetCommitRequestPartition {
                partition_index,
                committed_offset: offset,
                committed_leader_epoch: 3,
                committed_metadata: Some("note".into()),
            }],
            ..OffsetCommitRequestTopic::default()
        }],
        ..OffsetCommitRequest::default()
    }
}

pub(super) fn commit_code(
    bench: &mut Bench,
    node: i32,
    request: &OffsetCommitRequest,
) -> ErrorCode {
    let response = bench.ask_node(node, request, 8);
    ErrorCode(response.topics[0].partitions[0].error_code)
}

#[test]
fn groups_are_spread_over_nodes_and_move_when_theirs_stops() {
    let mut bench = Bench::new(3);
    let names: Vec<String> = (0..30).map(|index| format!("group-{index}")).collect();
    let before: Vec<i32> = names
        .iter()
        .map(|name| coordinator(&mut bench, name))
        .collect();
    for node in 1..=3 {
        assert!(before.contains(&node));
    }
    bench.core.stop_node(2, bench.now).unwrap();
    for (name, old) in names.iter().zip(before) {
        let new = coordinator(&mut bench, name);
        assert_ne!(new, 2);
        assert!(old == 2 || old == new);
    }
}

#[test]
fn what_a_group_committed_is_found_again_in_every_version() {
    let mut bench = Bench::new(1);
    let id = bench.create("t", 2, &[]);
    assert_eq!(
        commit_code(&mut bench, 1, &commit("g", "t", 0, 55)),
        ErrorCode::NONE
    );
    for version in 1..=7 {
        let request = OffsetFetchRequest {
            group_id: "g".into(),
            topics: Some(vec![OffsetFetchRequestTopic {
                name: "t".into(),
                partition_indexes: vec![0, 1],
            }]),
            ..OffsetFetchRequest::default()
        };
        let response = bench.ask(&request, version);
        let partitions = &response.topics[0].partitions;
        assert_eq!(
            [
                partitions[0].committed_offset,
                partitions[1].committed_offset
            ],
            [55, -1]
        );
        assert_eq!(partitions[0].metadata.as_deref(), Some("note"));
    }
    for version in 8..=10 {
        let by_id = version >= 10;
        let request = OffsetFetchRequest {
            groups: vec![OffsetFetchRequestGroup {
                group_id: "g".into(),
                topics: Some(vec![OffsetFetchRequestTopics {
                    name: if by_id { "".into() } else { "t".into() },
                    topic_id: if by_id { id } else { Uuid::ZERO },
                    partition_indexes: vec![0, 1],
                }]),
                ..OffsetFetchRequestGroup::default()
            }],
            ..OffsetFetchRequest::default()
        };
        let response = bench.ask(&request, version);
        let partitions = &response.groups[0].topics[0].partitions;
        assert_eq!(
            [
                partitions[0].committed_offset,
                partitions[1].committed_offset
            ],
            [55, -1]
        );
        assert_eq!(partitions[0].committed_leader_epoch, 3);
    }
}

#[test]
fn commits_of_strangers_and_to_the_wrong_node_are_refused() {
    let mut bench = Bench::new(2);
    bench.create("t", 1, &[]);
    let node = coordinator(&mut bench, "g");
    let mut request = commit("g", "t", 0, 1);
    let other = 3 - node;
    assert_eq!(
        commit_code(&mut bench, other, &request),
        ErrorCode::NOT_COORDINATOR
    );
    assert_eq!(commit_code(&mut bench, node, &request), ErrorCode::NONE);
    request.generation_id_or_member_epoch = 4;
    request.member_id = "m".into();
    assert_eq!(
        commit_code(&mut bench, node, &request),
        ErrorCode::UNKNOWN_MEMBER_ID
    );
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    assert_eq!(
        commit_code(&mut bench, node, &commit("g", "t", 1, 1)),
        unknown
    );
    assert_eq!(
        commit_code(&mut bench, node, &commit("g", "nope", 0, 1)),
        unknown
    );
    let mut long = commit("g", "t", 0, 1);
    long.topics[0].partitions[0].committed_metadata = Some("x".repeat(4097).into());
    assert_eq!(
        commit_code(&mut bench, node, &long),
        ErrorCode::OFFSET_METADATA_TOO_LARGE
    );
}

#[test]
fn groups_are_listed_by_their_coordinator_and_described_as_empty() {
    let mut bench = Bench::new(2);
    bench.create("t", 1, &[]);
    let node = coordinator(&mut bench, "g");
    bench.ask_node(node, &commit("g", "t", 0, 1), 8);
    let mut list = |node| {
        bench
            .ask_node(node, &ListGroupsRequest::default(), 5)
            .groups
    };
    let groups = list(node);
    assert_eq!(groups.len(), 1);
    assert_eq!(
        (&*groups[0].group_id, &*groups[0].group_state),
        ("g", "Empty")
    );
    assert!(list(3 - node).is_empty());
    let describe = DescribeGroupsRequest {
        groups: vec!["g".into()],
        ..Default::default()
    };
    let described = bench.ask_node(node, &describe, 5).groups.remove(0);
    assert_eq!(
        (described.error_code, &*described.group_state),
        (0, "Empty")
    );
    let elsewhere = bench.ask_node(3 - node, &describe, 5).groups.remove(0);
    assert_eq!(ErrorCode(elsewhere.error_code), ErrorCode::NOT_COORDINATOR);
}

#[test]
fn offsets_of_a_deleted_topic_are_forgotten() {
    let mut bench = Bench::new(1);
    let id = bench.create("t", 1, &[]);
    bench.ask(&commit("g", "t", 0, 1), 8);
    assert!(bench.core.delete_topic(id));
    assert!(
        bench
            .ask(&ListGroupsRequest::default(), 5)
            .groups
            .is_empty()
    );
}
