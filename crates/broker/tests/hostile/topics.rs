//! Frames about topics and their options.

use thalweg_protocol::ApiKey;
use thalweg_protocol::dynamic::Value;

use crate::attacks::{Attack, attack, long, named, one};
use crate::world::{NAMES, PARTITIONS, fields, int, list, text};

pub(crate) fn all() -> Vec<Attack> {
    let mut all = topics();
    all.extend(configs());
    all
}

fn topics() -> Vec<Attack> {
    let metadata = (ApiKey::METADATA, 12);
    let asked = |count, create: bool, name: &dyn Fn(usize) -> Value| {
        fields([
            (
                "Topics",
                list(count, |index| fields([("Name", name(index))])),
            ),
            ("AllowAutoTopicCreation", Value::Bool(create)),
        ])
    };
    let creates = (ApiKey::CREATE_TOPICS, 7);
    let created = |name: Value, partitions: i64| {
        fields([
            ("Name", name),
            ("NumPartitions", Value::Int(partitions)),
            ("ReplicationFactor", Value::Int(-1)),
        ])
    };
    let deletes = (ApiKey::DELETE_TOPICS, 5);
    let extends = (ApiKey::CREATE_PARTITIONS, 3);
    vec![
        attack("Metadata of one topic many times", metadata, move |count| {
            asked(count, false, &|_| text("big"))
        }),
        attack("Metadata that creates topics", metadata, move |count| {
            asked(count, true, &|index| named("a_", index))
        }),
        attack("Metadata of unknown topics", metadata, move |count| {
            asked(count, false, &|index| named("a_", index))
        }),
        attack(
            "DescribeTopicPartitions of one topic many times",
            (ApiKey::DESCRIBE_TOPIC_PARTITIONS, 0),
            |count| {
                fields([
                    ("Topics", list(count, |_| fields([("Name", text("big"))]))),
                    ("ResponsePartitionLimit", int(i32::MAX as usize)),
                ])
            },
        ),
        attack(
            "CreateTopics of one name many times",
            creates,
            move |count| fields([("Topics", list(count, |_| created(text("a"), 1)))]),
        ),
        attack("CreateTopics of many names", creates, move |count| {
            fields([(
                "Topics",
                list(count, |index| created(named("a_", index), -1)),
            )])
        }),
        attack("CreateTopics without partitions", creates, move |count| {
            fields([(
                "Topics",
                list(count, |index| created(named("a_", index), 0)),
            )])
        }),
        attack("CreateTopics of the largest topic", creates, move |_| {
            let topic = created(text("a"), i32::MAX.into());
            fields([("Topics", one(topic))])
        }),
        attack("CreateTopics with assignments", creates, |count| {
            let assignments = list(count, |index| {
                fields([
                    ("PartitionIndex", int(index)),
                    ("BrokerIds", list(1, |_| int(1))),
                ])
            });
            fields([(
                "Topics",
                one(fields([
                    ("Name", text("a")),
                    ("NumPartitions", Value::Int(-1)),
                    ("ReplicationFactor", Value::Int(-1)),
                    ("Assignments", assignments),
                ])),
            )])
        }),
        attack("CreatePartitions of the largest topic", extends, |_| {
            let topic = fields([("Name", text("t0")), ("Count", int(i32::MAX as usize))]);
            fields([("Topics", one(topic)), ("ValidateOnly", Value::Bool(true))])
        }),
        attack(
            "CreatePartitions of one topic many times",
            extends,
            |count| {
                let topic = |_| fields([("Name", text("t0")), ("Count", int(9000))]);
                fields([
                    ("Topics", list(count, topic)),
                    ("ValidateOnly", Value::Bool(true)),
                ])
            },
        ),
        attack("DeleteTopics of few topics", deletes, |count| {
            fields([("TopicNames", list(count, |index| named("t", index % NAMES)))])
        }),
        attack(
            "DescribeLogDirs of one topic many times",
            (ApiKey::DESCRIBE_LOG_DIRS, 4),
            |count| {
                let topic = |_| {
                    fields([
                        ("Topic", text("big")),
                        ("Partitions", list(1, |_| int(PARTITIONS))),
                    ])
                };
                fields([("Topics", list(count, topic))])
            },
        ),
        attack(
            "DescribeLogDirs of many partitions",
            (ApiKey::DESCRIBE_LOG_DIRS, 4),
            |count| {
                let partitions = list(count, |index| int(PARTITIONS + index));
                let topic = fields([("Topic", text("big")), ("Partitions", partitions)]);
                fields([("Topics", one(topic))])
            },
        ),
        attack(
            "ElectLeaders of a long name",
            (ApiKey::ELECT_LEADERS, 2),
            |count| {
                let topic = fields([("Topic", long()), ("Partitions", list(count, int))]);
                fields([("TopicPartitions", one(topic))])
            },
        ),
    ]
}

pub(crate) const TOPIC: usize = 2;
const BROKER: usize = 4;
const LIST_OPTION: &str = "leader.replication.throttled.replicas";

fn configs() -> Vec<Attack> {
    let describes = (ApiKey::DESCRIBE_CONFIGS, 4);
    let alters = (ApiKey::ALTER_CONFIGS, 2);
    let changes = (ApiKey::INCREMENTAL_ALTER_CONFIGS, 1);
    let described = |kind, name| {
        fields([
            ("ResourceType", int(kind)),
            ("ResourceName", name),
            ("ConfigurationKeys", Value::Null),
        ])
    };
    let describe = |resources| {
        fields([
            ("Resources", resources),
            ("IncludeSynonyms", Value::Bool(true)),
        ])
    };
    let altered = |name: Value, configs: Value| {
        fields([
            ("ResourceType", int(TOPIC)),
            ("ResourceName", name),
            ("Configs", configs),
        ])
    };
    let appended = |words: String| {
        fields([
            ("Name", text(LIST_OPTION)),
            ("ConfigOperation", int(2)),
            ("Value", text(&words)),
        ])
    };
    let resources = |all: Value| fields([("Resources", all)]);
    vec![
        attack(
            "DescribeConfigs of a node many times",
            describes,
            move |count| describe(list(count, |_| described(BROKER, text("")))),
        ),
        attack("DescribeConfigs of topics", describes, move |count| {
            describe(list(count, |index| described(TOPIC, named("t", index))))
        }),
        attack(
            "AlterConfigs of one topic many times",
            alters,
            move |count| resources(list(count, |_| altered(text("t0"), list(0, int)))),
        ),
        attack("AlterConfigs of many topics", alters, move |count| {
            resources(list(count, |index| {
                altered(named("t", index), list(0, int))
            }))
        }),
        attack(
            "IncrementalAlterConfigs of many words",
            changes,
            move |count| {
                let configs = list(count, |index| appended(format!("w{index}")));
                resources(one(altered(text("t0"), configs)))
            },
        ),
        attack(
            "IncrementalAlterConfigs of long lists",
            changes,
            move |count| {
                let words: Vec<String> = (0..count).map(|word| word.to_string()).collect();
                let words = words.join(",");
                let lists = words.as_bytes().chunks(32_000).enumerate();
                let lists = lists.map(|(index, words)| {
                    let words = String::from_utf8(words.to_vec()).expect("digits");
                    altered(named("t", index), one(appended(words)))
                });
                resources(Value::Array(lists.collect()))
            },
        ),
    ]
}
