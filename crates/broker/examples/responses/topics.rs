//! `CreateTopics`, Metadata, `DeleteTopics`.

use thalweg_protocol::Uuid;
use thalweg_protocol::messages::{create_topics, metadata};

use crate::bodies::{metadata_of, topic};
use crate::client::Client;

pub(crate) fn ask(client: &mut Client) {
    let create = |topics: Vec<create_topics::CreatableTopic>, validate_only| {
        create_topics::CreateTopicsRequest {
            topics,
            timeout_ms: 10_000,
            validate_only,
        }
    };
    client.create("plain", 3, &[]);
    let assigned = |lists: &[(i32, &[i32])]| create_topics::CreatableTopic {
        assignments: lists
            .iter()
            .map(|(index, ids)| create_topics::CreatableReplicaAssignment {
                partition_index: *index,
                broker_ids: ids.to_vec(),
            })
            .collect(),
        ..topic("assigned", -1, -1, &[])
    };
    let cases = [
        ("exists", vec![topic("plain", 1, 1, &[])]),
        (
            "doubled",
            vec![topic("twice", 1, 1, &[]), topic("twice", 1, 1, &[])],
        ),
        (
            "bad name",
            vec![
                topic("a b", 1, 1, &[]),
                topic("", 1, 1, &[]),
                topic("..", 1, 1, &[]),
            ],
        ),
        ("long name", vec![topic(&"x".repeat(250), 1, 1, &[])]),
        (
            "no partitions",
            vec![topic("none", 0, 1, &[]), topic("minus", -2, 1, &[])],
        ),
        (
            "replication",
            vec![topic("r3", 1, 3, &[]), topic("r0", 1, 0, &[])],
        ),
        ("too many", vec![topic("many", 20_000, 1, &[])]),
        (
            "unknown config",
            vec![topic("c", 1, 1, &[("no.such", "1")])],
        ),
        (
            "bad config",
            vec![topic("c", 1, 1, &[("retention.ms", "x")])],
        ),
        (
            "bad config range",
            vec![topic("c", 1, 1, &[("retention.ms", "-2")])],
        ),
        (
            "bad config word",
            vec![topic("c", 1, 1, &[("cleanup.policy", "x")])],
        ),
        ("assigned gap", vec![assigned(&[(1, &[1])])]),
        ("assigned unknown", vec![assigned(&[(0, &[9])])]),
        ("assigned twice", vec![assigned(&[(0, &[1, 1])])]),
        ("assigned empty", vec![assigned(&[(0, &[])])]),
    ];
    for (what, topics) in cases {
        client.ask(&format!("create {what}"), &create(topics, false), 7);
    }
    client.ask(
        "create, validate",
        &create(vec![topic("v", 2, 1, &[])], true),
        7,
    );
    client.ask(
        "create, validate",
        &create(vec![topic("v", 2, 1, &[])], true),
        4,
    );
    client.create("dot.ted", 1, &[]);
    client.ask(
        "create, colliding",
        &create(vec![topic("dot_ted", 1, 1, &[])], false),
        7,
    );
    client.ask_all("metadata", &metadata_of(&["plain"]));
    client.ask_all("metadata, unknown", &metadata_of(&["nope", "a b"]));
    let by_id = |topic_id| metadata::MetadataRequest {
        topics: Some(vec![metadata::MetadataRequestTopic {
            topic_id,
            name: None,
        }]),
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    client.ask(
        "metadata, unknown id",
        &by_id(Uuid::from_u64_pair(1, 2)),
        12,
    );
    client.ask(
        "metadata, unknown id",
        &by_id(Uuid::from_u64_pair(1, 2)),
        10,
    );
    client.ask("metadata, zero id", &by_id(Uuid::ZERO), 12);
    let none = metadata::MetadataRequest {
        topics: Some(vec![]),
        ..Default::default()
    };
    client.ask("metadata, none", &none, 12);
    client.ask("metadata, none", &none, 1);
    let operations = metadata::MetadataRequest {
        include_topic_authorized_operations: true,
        include_cluster_authorized_operations: true,
        ..metadata_of(&["plain"])
    };
    client.ask("metadata, operations", &operations, 8);
}
