//! `FindCoordinator`, committed offsets, and groups.

use std::time::Duration;

use thalweg_protocol::messages::{
    delete_groups, describe_groups, find_coordinator, list_groups, offset_commit, offset_delete,
    offset_fetch,
};
use thalweg_protocol::{Str, Uuid};

use crate::client::Client;

pub(crate) fn ask(client: &mut Client) {
    let id = client.create("grouped", 2, &[]);
    let find = |keys: &[&str], key_type| find_coordinator::FindCoordinatorRequest {
        key_type,
        coordinator_keys: keys.iter().map(|key| Str::from(*key)).collect(),
        ..Default::default()
    };
    // The first request makes a real broker create __consumer_offsets.
    for _ in 0..1200 {
        let found = client.quietly(&find(&["g"], 0), 4).expect("responds");
        if found.coordinators[0].error_code == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    client.ask("find coordinator", &find(&["g", "h"], 0), 6);
    client.ask("find coordinator, type 9", &find(&["g"], 9), 6);
    client.ask("find coordinator, empty", &find(&[""], 0), 6);
    let old = find_coordinator::FindCoordinatorRequest {
        key: "g".into(),
        ..Default::default()
    };
    client.ask("find coordinator", &old, 3);
    client.ask("find coordinator", &old, 0);
    let commit = |group: &str, generation, member: &str, name: &str, topic_id, partition_index| {
        offset_commit::OffsetCommitRequest {
            group_id: group.into(),
            generation_id_or_member_epoch: generation,
            member_id: member.into(),
            topics: vec![offset_commit::OffsetCommitRequestTopic {
                name: name.into(),
                topic_id,
                partitions: vec![offset_commit::OffsetCommitRequestPartition {
                    partition_index,
                    committed_offset: 5,
                    committed_leader_epoch: 0,
                    committed_metadata: Some("m".into()),
                }],
            }],
            ..Default::default()
        }
    };
    let fetch_old = |group: &str, name: &str| offset_fetch::OffsetFetchRequest {
        group_id: group.into(),
        topics: Some(vec![offset_fetch::OffsetFetchRequestTopic {
            name: name.into(),
            partition_indexes: vec![0, 1],
        }]),
        ..Default::default()
    };
    // The coordinator may still be loading for a moment.
    for _ in 0..1200 {
        let found = client
            .quietly(&fetch_old("g", "grouped"), 5)
            .expect("responds");
        if found.error_code == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    for version in 2..=10 {
        client.ask("commit", &commit("g", -1, "", "grouped", id, 0), version);
    }
    client.ask(
        "commit, generation",
        &commit("g", 3, "m", "grouped", id, 0),
        9,
    );
    client.ask(
        "commit, generation",
        &commit("new", 3, "m", "grouped", id, 0),
        9,
    );
    client.ask(
        "commit, generation",
        &commit("new", 3, "m", "grouped", id, 0),
        8,
    );
    client.ask(
        "commit, generation",
        &commit("g", 3, "m", "grouped", id, 0),
        8,
    );
    client.ask("commit, member", &commit("g", -1, "m", "grouped", id, 0), 9);
    client.ask(
        "commit, partition",
        &commit("g", -1, "", "grouped", id, 7),
        9,
    );
    client.ask("commit, topic", &commit("g", -1, "", "nope", id, 0), 9);
    client.ask(
        "commit, id",
        &commit("g", -1, "", "", Uuid::from_u64_pair(1, 2), 0),
        10,
    );
    client.ask("commit, no group", &commit("", -1, "", "grouped", id, 0), 9);
    let mut long = commit("g", -1, "", "grouped", id, 0);
    long.topics[0].partitions[0].committed_metadata = Some("x".repeat(5000).into());
    client.ask("commit, long", &long, 9);
    for version in 1..=7 {
        client.ask("offsets", &fetch_old("g", "grouped"), version);
    }
    client.ask("offsets, other group", &fetch_old("other", "grouped"), 7);
    client.ask("offsets, other topic", &fetch_old("g", "nope"), 7);
    let all = offset_fetch::OffsetFetchRequest {
        topics: None,
        ..fetch_old("g", "x")
    };
    client.ask("offsets, all", &all, 7);
    let group = |name: &str, topic_id| offset_fetch::OffsetFetchRequest {
        groups: vec![offset_fetch::OffsetFetchRequestGroup {
            group_id: "g".into(),
            member_epoch: -1,
            topics: Some(vec![offset_fetch::OffsetFetchRequestTopics {
                name: name.into(),
                topic_id,
                partition_indexes: vec![0, 1],
            }]),
            ..Default::default()
        }],
        ..Default::default()
    };
    for version in 8..=10 {
        client.ask("offsets", &group("grouped", id), version);
    }
    client.ask("offsets, id", &group("", Uuid::from_u64_pair(1, 2)), 10);
    let mut all = group("", Uuid::ZERO);
    all.groups[0].topics = None;
    client.ask("offsets, all", &all, 9);
    client.ask("offsets, all", &all, 10);
    let list = list_groups::ListGroupsRequest::default();
    client.ask_all("list groups", &list);
    let states = |state: &str| list_groups::ListGroupsRequest {
        states_filter: vec![state.into()],
        ..Default::default()
    };
    client.ask("list groups", &states("Stable"), 5);
    client.ask("list groups", &states("empty"), 5);
    let types = |name: &str| list_groups::ListGroupsRequest {
        types_filter: vec![name.into()],
        ..Default::default()
    };
    client.ask("list groups", &types("consumer"), 5);
    client.ask("list groups", &types("classic"), 5);
    let describe = describe_groups::DescribeGroupsRequest {
        groups: vec!["g".into(), "nope".into()],
        include_authorized_operations: true,
    };
    client.ask("describe groups", &describe, 5);
    client.ask("describe groups", &describe, 6);
    let delete = |group: &str, name: &str, partition_index| offset_delete::OffsetDeleteRequest {
        group_id: group.into(),
        topics: vec![offset_delete::OffsetDeleteRequestTopic {
            name: name.into(),
            partitions: vec![offset_delete::OffsetDeleteRequestPartition { partition_index }],
        }],
    };
    client.ask("offset delete", &delete("g", "grouped", 9), 0);
    client.ask("offset delete", &delete("nope", "grouped", 0), 0);
    client.ask("offset delete", &delete("g", "grouped", 0), 0);
    client.quietly(&commit("g2", -1, "", "grouped", id, 1), 9);
    let delete = delete_groups::DeleteGroupsRequest {
        groups_names: vec!["g2".into(), "nope".into()],
    };
    client.ask("delete groups", &delete, 2);
}
