//! `DeleteRecords`, configurations, and the other admin calls.

use thalweg_protocol::messages::{
    alter_configs, create_partitions, delete_records, delete_topics, describe_configs,
    describe_topic_partitions, elect_leaders, incremental_alter_configs, list_config_resources,
};
use thalweg_protocol::{Str, Uuid};

use crate::bodies::{plain, produce_to};
use crate::client::Client;
use crate::fetching::{fetch_of, show_fetch};

pub(crate) fn ask(client: &mut Client) {
    let id = client.create("admin", 2, &[("retention.bytes", "12345")]);
    client.quietly(&produce_to("admin", id, 0, &plain(&[5, 6, 7])), 12);
    let delete = |name: &str, partition_index, offset| delete_records::DeleteRecordsRequest {
        topics: vec![delete_records::DeleteRecordsTopic {
            name: name.into(),
            partitions: vec![delete_records::DeleteRecordsPartition {
                partition_index,
                offset,
            }],
        }],
        timeout_ms: 5000,
    };
    client.ask("delete records", &delete("admin", 0, 1), 2);
    client.ask("delete records, less", &delete("admin", 0, 0), 2);
    client.ask("delete records, beyond", &delete("admin", 0, 9), 2);
    client.ask("delete records, all", &delete("admin", 0, -1), 2);
    client.ask("delete records, negative", &delete("admin", 0, -2), 2);
    client.ask("delete records, partition", &delete("admin", 7, 0), 2);
    client.ask("delete records, topic", &delete("nope", 0, 0), 2);
    client.ask("delete records, compacted", &delete("compacted", 0, 0), 2);
    let mut gone = fetch_of("admin", id, 0, 1);
    gone.max_wait_ms = 10;
    show_fetch(client, "fetch, deleted", &gone, 17);

    let describe = |resource_type, name: &str, keys: Option<&[&str]>| {
        describe_configs::DescribeConfigsRequest {
            resources: vec![describe_configs::DescribeConfigsResource {
                resource_type,
                resource_name: name.into(),
                configuration_keys: keys.map(|keys| keys.iter().map(|k| Str::from(*k)).collect()),
            }],
            include_synonyms: true,
            ..Default::default()
        }
    };
    let sorted = |client: &mut Client, what: &str, request, version| {
        if let Some(mut response) =
            client.quietly::<describe_configs::DescribeConfigsRequest>(&request, version)
        {
            for result in &mut response.results {
                result
                    .configs
                    .sort_by(|one, other| one.name.cmp(&other.name));
            }
            client.show(&format!("{what} v{version}"), &response);
        }
    };
    sorted(client, "configs", describe(2, "admin", None), 4);
    sorted(
        client,
        "configs",
        describe(2, "admin", Some(&["retention.ms", "no.such"])),
        1,
    );
    sorted(client, "configs, topic", describe(2, "nope", None), 4);
    sorted(
        client,
        "configs, broker",
        describe(4, "1", Some(&["num.partitions"])),
        4,
    );
    sorted(client, "configs, broker", describe(4, "7", None), 4);
    sorted(client, "configs, type", describe(77, "1", None), 4);
    let alter = |resource_type, resource: &str, changes: &[(&str, i8, Option<&str>)]| {
        incremental_alter_configs::IncrementalAlterConfigsRequest {
            resources: vec![incremental_alter_configs::AlterConfigsResource {
                resource_type,
                resource_name: resource.into(),
                configs: changes
                    .iter()
                    .map(|(name, config_operation, value)| {
                        incremental_alter_configs::AlterableConfig {
                            name: (*name).into(),
                            config_operation: *config_operation,
                            value: value.map(Str::from),
                        }
                    })
                    .collect(),
            }],
            validate_only: false,
        }
    };
    let cases = [
        (
            "set",
            alter(2, "admin", &[("retention.ms", 0, Some("777"))]),
        ),
        (
            "append",
            alter(2, "admin", &[("cleanup.policy", 2, Some("compact"))]),
        ),
        (
            "subtract",
            alter(2, "admin", &[("cleanup.policy", 3, Some("delete"))]),
        ),
        (
            "no list",
            alter(2, "admin", &[("retention.ms", 2, Some("1"))]),
        ),
        ("null", alter(2, "admin", &[("retention.ms", 0, None)])),
        ("unknown", alter(2, "admin", &[("no.such", 0, Some("1"))])),
        ("bad", alter(2, "admin", &[("retention.ms", 0, Some("x"))])),
        (
            "operation",
            alter(2, "admin", &[("retention.ms", 9, Some("1"))]),
        ),
        ("topic", alter(2, "nope", &[("retention.ms", 0, Some("1"))])),
        ("delete", alter(2, "admin", &[("retention.ms", 1, None)])),
    ];
    let keys: &[&str] = &["retention.ms", "cleanup.policy"];
    for (what, request) in cases {
        client.ask(&format!("alter {what}"), &request, 1);
        client.settle();
        sorted(client, "configs", describe(2, "admin", Some(keys)), 4);
    }
    let replace = alter_configs::AlterConfigsRequest {
        resources: vec![alter_configs::AlterConfigsResource {
            resource_type: 2,
            resource_name: "admin".into(),
            configs: vec![alter_configs::AlterableConfig {
                name: "retention.ms".into(),
                value: Some("5".into()),
            }],
        }],
        validate_only: false,
    };
    client.ask("alter, old", &replace, 2);
    client.settle();
    let keys: &[&str] = &["retention.ms", "retention.bytes", "cleanup.policy"];
    sorted(client, "configs", describe(2, "admin", Some(keys)), 4);

    let more = |name: &str, count, lists: Option<Vec<Vec<i32>>>| {
        create_partitions::CreatePartitionsRequest {
            topics: vec![create_partitions::CreatePartitionsTopic {
                name: name.into(),
                count,
                assignments: lists.map(|lists| {
                    lists
                        .into_iter()
                        .map(|broker_ids| create_partitions::CreatePartitionsAssignment {
                            broker_ids,
                        })
                        .collect()
                }),
            }],
            timeout_ms: 5000,
            validate_only: false,
        }
    };
    client.ask("partitions", &more("admin", 3, None), 3);
    client.settle();
    client.ask("partitions, same", &more("admin", 3, None), 3);
    client.ask("partitions, fewer", &more("admin", 1, None), 3);
    client.ask("partitions, zero", &more("admin", 0, None), 3);
    client.ask("partitions, topic", &more("nope", 3, None), 3);
    client.ask(
        "partitions, lists",
        &more("admin", 5, Some(vec![vec![1]])),
        3,
    );
    client.ask(
        "partitions, unknown",
        &more("admin", 4, Some(vec![vec![8]])),
        3,
    );
    let page = |limit, cursor: Option<(&str, i32)>, names: &[&str]| {
        describe_topic_partitions::DescribeTopicPartitionsRequest {
            topics: names
                .iter()
                .map(|name| describe_topic_partitions::TopicRequest {
                    name: (*name).into(),
                })
                .collect(),
            response_partition_limit: limit,
            cursor: cursor.map(
                |(name, partition_index)| describe_topic_partitions::Cursor {
                    topic_name: name.into(),
                    partition_index,
                },
            ),
        }
    };
    let names: &[&str] = &["plain", "admin", "nope"];
    client.ask("describe partitions", &page(2000, None, names), 0);
    client.ask("describe partitions, 2", &page(2, None, names), 0);
    client.ask("describe partitions, 3", &page(3, None, names), 0);
    client.ask(
        "describe partitions, cursor",
        &page(2, Some(("admin", 2)), names),
        0,
    );
    client.ask(
        "describe partitions, last",
        &page(2, Some(("plain", 2)), names),
        0,
    );
    let elect = |name: &str, election_type| elect_leaders::ElectLeadersRequest {
        election_type,
        topic_partitions: Some(vec![elect_leaders::TopicPartitions {
            topic: name.into(),
            partitions: vec![0],
        }]),
        timeout_ms: 5000,
    };
    client.ask("elect", &elect("admin", 0), 2);
    client.ask("elect, unclean", &elect("admin", 1), 2);
    client.ask("elect, topic", &elect("nope", 0), 2);
    client.ask(
        "config resources",
        &list_config_resources::ListConfigResourcesRequest::default(),
        0,
    );

    let drop = |names: &[&str]| delete_topics::DeleteTopicsRequest {
        topic_names: names.iter().map(|name| Str::from(*name)).collect(),
        timeout_ms: 5000,
        ..Default::default()
    };
    client.ask("delete", &drop(&["admin", "nope"]), 5);
    let drop = |states: Vec<(Option<&str>, Uuid)>| delete_topics::DeleteTopicsRequest {
        topics: states
            .into_iter()
            .map(|(name, topic_id)| delete_topics::DeleteTopicState {
                name: name.map(Str::from),
                topic_id,
            })
            .collect(),
        timeout_ms: 5000,
        ..Default::default()
    };
    client.ask(
        "delete again",
        &drop(vec![(Some("admin"), Uuid::ZERO), (None, id)]),
        6,
    );
    client.ask("delete both", &drop(vec![(Some("plain"), id)]), 6);
    client.ask("delete neither", &drop(vec![(None, Uuid::ZERO)]), 6);
    let new = client.create("admin", 1, &[]);
    println!("another id: {}\n", new != id);
    let mut gone = fetch_of("admin", id, 0, 0);
    gone.max_wait_ms = 10;
    show_fetch(client, "fetch, old id", &gone, 17);
}
