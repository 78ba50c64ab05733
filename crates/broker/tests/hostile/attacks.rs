//! For each API the frames that cost most for their size.

use bytes::Bytes;
use thalweg_protocol::ApiKey;
use thalweg_protocol::dynamic::Value;
use thalweg_records::{BatchBuilder, Compression, Compressor, Headers};

use crate::world::{
    NAMES, NOW_MS, PARTITIONS, fields, int, list, produce, producer_batch, request, text,
};

/// A request that can be made as large as one likes.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) key: ApiKey,
    version: i16,
    make: Box<dyn Fn(usize) -> Value>,
    /// What it may take besides, by a limit of the broker that is no multiple of the frame.
    pub(crate) peak_bytes: usize,
}

impl Attack {
    /// The request with as many elements as fit into the frame.
    pub(crate) fn frame(&self, bytes: usize) -> Bytes {
        let encoded = |count| request(self.key, self.version, &(self.make)(count));
        let few = encoded(100).len();
        let more = encoded(200).len();
        let for_each = (more - few).div_ceil(100);
        match for_each {
            0 => encoded(1000),
            for_each => {
                // Later elements may be larger.
                let count = bytes / for_each;
                let larger = encoded(count).len();
                encoded((count as f64 * bytes as f64 / larger.max(bytes) as f64) as usize)
            }
        }
    }

    fn peak(self, peak_bytes: usize) -> Self {
        Self { peak_bytes, ..self }
    }
}

fn attack(
    name: &'static str,
    (key, version): (ApiKey, i16),
    make: impl Fn(usize) -> Value + 'static,
) -> Attack {
    Attack {
        name,
        key,
        version,
        make: Box::new(make),
        peak_bytes: 0,
    }
}

/// As long as a string can be.
fn long() -> Value {
    text(&"n".repeat(32_000))
}

fn named(prefix: &str, index: usize) -> Value {
    text(&format!("{prefix}{index}"))
}

fn one(value: Value) -> Value {
    Value::Array(vec![value])
}

/// A request whose only array of topics has one topic with these partitions.
fn topic(name: Value, partitions: &'static str, of: Value) -> Value {
    one(fields([("Name", name), (partitions, of)]))
}

pub(crate) fn attacks() -> Vec<Attack> {
    let mut all = records();
    all.extend(topics());
    all.extend(configs());
    all.extend(offsets());
    all.extend(groups());
    all.extend(transactions());
    all.extend(short());
    all
}

// ---------------------------------------------------------------------- records

/// A batch of records that are a day too early.
fn untimely(count: usize) -> Bytes {
    let mut builder = BatchBuilder::new(0);
    for _ in 0..count {
        builder.append(NOW_MS + 86_400_000, None, None, Headers::NONE);
    }
    builder.finish().into()
}

/// A batch of some kilobytes that decompresses to 64 MiB.
fn bomb() -> Bytes {
    let mut builder = BatchBuilder::new(0);
    let value = vec![0; 64 << 20];
    builder.append(NOW_MS, None, Some(&value), Headers::NONE);
    let finished = builder.finish_compressed(&mut Compressor::default(), Compression::Zstd, None);
    finished.unwrap().into()
}

fn fetch(topics: Value) -> Value {
    fields([
        ("ReplicaId", Value::Int(-1)),
        ("MaxWaitMs", int(0)),
        ("MinBytes", int(0)),
        ("MaxBytes", int(i32::MAX as usize)),
        ("IsolationLevel", int(1)),
        ("Topics", topics),
    ])
}

fn fetched(partition: usize) -> Value {
    fields([
        ("Partition", int(partition)),
        ("PartitionMaxBytes", int(i32::MAX as usize)),
    ])
}

fn records() -> Vec<Attack> {
    let of = (ApiKey::PRODUCE, 9);
    let fetches = (ApiKey::FETCH, 12);
    let lists = (ApiKey::LIST_OFFSETS, 8);
    let listed = |partition: usize, timestamp: i64| {
        fields([
            ("PartitionIndex", int(partition)),
            ("CurrentLeaderEpoch", Value::Int(-1)),
            ("Timestamp", Value::Int(timestamp)),
        ])
    };
    let list_offsets = |topics: Value| fields([("ReplicaId", Value::Int(-1)), ("Topics", topics)]);
    let bomb = bomb();
    vec![
        attack("Produce without records", of, |count| {
            produce(list(count, |index| {
                fields([("Index", int(index)), ("Records", Value::Null)])
            }))
        }),
        attack(
            "Produce of records that are refused one by one",
            of,
            |count| {
                let records = untimely(count.max(1));
                produce(one(fields([
                    ("Index", int(0)),
                    ("Records", Value::Bytes(records)),
                ])))
            },
        ),
        attack(
            "Produce of one record for each of many partitions",
            of,
            |count| {
                produce(list(count, |index| {
                    let records = Value::Bytes(producer_batch(-1));
                    fields([("Index", int(index % PARTITIONS)), ("Records", records)])
                }))
            },
        ),
        attack("Produce of many bombs", of, move |count| {
            produce(list(count.min(20), |index| {
                let records = Value::Bytes(bomb.clone());
                fields([("Index", int(index % PARTITIONS)), ("Records", records)])
            }))
        })
        .peak(512 << 20),
        attack("Fetch of one partition many times", fetches, |count| {
            fetch(one(fields([
                ("Topic", text("big")),
                ("Partitions", list(count, |_| fetched(0))),
            ])))
        }),
        attack("Fetch of one topic many times", fetches, |count| {
            fetch(list(count, |_| {
                fields([("Topic", text("big")), ("Partitions", list(1, fetched))])
            }))
        }),
        attack("Fetch of a name that no topic has", fetches, |count| {
            fetch(one(fields([
                ("Topic", long()),
                ("Partitions", list(count, fetched)),
            ])))
        }),
        attack(
            "ListOffsets of one partition many times",
            lists,
            move |count| {
                let of_one = list(count, |_| listed(0, 0));
                list_offsets(topic(text("big"), "Partitions", of_one))
            },
        ),
        attack("ListOffsets of one topic many times", lists, move |count| {
            list_offsets(list(count, |_| {
                fields([
                    ("Name", text("big")),
                    ("Partitions", list(1, |_| listed(0, 0))),
                ])
            }))
        }),
        attack("ListOffsets of a long name", lists, move |count| {
            let partitions = list(count, |index| listed(index, -1));
            list_offsets(topic(long(), "Partitions", partitions))
        }),
        attack(
            "DeleteRecords of a long name",
            (ApiKey::DELETE_RECORDS, 2),
            |count| {
                let partitions = list(count, |index| fields([("PartitionIndex", int(index))]));
                fields([("Topics", topic(long(), "Partitions", partitions))])
            },
        ),
        attack(
            "OffsetForLeaderEpoch of a long name",
            (ApiKey::OFFSET_FOR_LEADER_EPOCH, 4),
            |count| {
                let partitions = list(count, |index| fields([("Partition", int(index))]));
                let topic = fields([("Topic", long()), ("Partitions", partitions)]);
                fields([("Topics", one(topic))])
            },
        ),
        attack(
            "DescribeProducers of one partition many times",
            (ApiKey::DESCRIBE_PRODUCERS, 0),
            |count| {
                let partitions = list(count, |_| int(0));
                fields([("Topics", topic(text("big"), "PartitionIndexes", partitions))])
            },
        ),
    ]
}

// ---------------------------------------------------------------------- topics

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

// ---------------------------------------------------------------------- configs

const TOPIC: usize = 2;
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

// ---------------------------------------------------------------------- committed offsets

fn offsets() -> Vec<Attack> {
    let fetches = (ApiKey::OFFSET_FETCH, 9);
    let fetched = |group: Value, topics: Value| fields([("GroupId", group), ("Topics", topics)]);
    let fetch = |groups: Value| fields([("Groups", groups), ("RequireStable", Value::Bool(true))]);
    let committed = |index: usize| {
        fields([
            ("PartitionIndex", int(index % PARTITIONS)),
            ("CommittedOffset", int(1)),
            ("CommittedMetadata", text("")),
        ])
    };
    vec![
        attack(
            "OffsetCommit by a long name",
            (ApiKey::OFFSET_COMMIT, 9),
            move |count| {
                fields([
                    ("GroupId", long()),
                    ("GenerationIdOrMemberEpoch", Value::Int(-1)),
                    (
                        "Topics",
                        topic(text("big"), "Partitions", list(count, committed)),
                    ),
                ])
            },
        ),
        attack(
            "TxnOffsetCommit by a long name",
            (ApiKey::TXN_OFFSET_COMMIT, 5),
            move |count| {
                fields([
                    ("TransactionalId", text("x0")),
                    ("GroupId", long()),
                    ("ProducerId", int(0)),
                    ("ProducerEpoch", int(0)),
                    ("GenerationId", Value::Int(-1)),
                    (
                        "Topics",
                        topic(text("big"), "Partitions", list(count, committed)),
                    ),
                ])
            },
        ),
        attack(
            "OffsetFetch of all of one group many times",
            fetches,
            move |count| fetch(list(count, |_| fetched(text("g"), Value::Null))),
        ),
        attack(
            "OffsetFetch of one partition many times",
            fetches,
            move |count| {
                let partitions = list(count, |_| int(0));
                let topics = topic(text("big"), "PartitionIndexes", partitions);
                fetch(one(fetched(text("g"), topics)))
            },
        ),
        attack("OffsetFetch by a long name", fetches, move |count| {
            let topics = topic(long(), "PartitionIndexes", list(count, int));
            fetch(one(fetched(long(), topics)))
        }),
        attack(
            "OffsetDelete of many partitions",
            (ApiKey::OFFSET_DELETE, 0),
            |count| {
                let partitions = list(count, |index| fields([("PartitionIndex", int(index))]));
                fields([
                    ("GroupId", text("g")),
                    ("Topics", topic(text("big"), "Partitions", partitions)),
                ])
            },
        ),
        attack(
            "DeleteGroups of many names",
            (ApiKey::DELETE_GROUPS, 2),
            |count| fields([("GroupsNames", list(count, |index| named("g", index)))]),
        ),
    ]
}

// ---------------------------------------------------------------------- groups

fn groups() -> Vec<Attack> {
    let describes = (ApiKey::DESCRIBE_GROUPS, 6);
    let consumers = (ApiKey::CONSUMER_GROUP_DESCRIBE, 1);
    vec![
        attack(
            "JoinGroup with many assignors",
            (ApiKey::JOIN_GROUP, 9),
            |count| {
                let protocol = |index| {
                    fields([
                        ("Name", named("p", index)),
                        ("Metadata", Value::Bytes(Bytes::new())),
                    ])
                };
                fields([("GroupId", text("g")), ("Protocols", list(count, protocol))])
            },
        ),
        attack(
            "SyncGroup with many assignments",
            (ApiKey::SYNC_GROUP, 5),
            |count| {
                let assignment = |index| {
                    let empty = Value::Bytes(Bytes::new());
                    fields([("MemberId", named("m", index)), ("Assignment", empty)])
                };
                fields([
                    ("GroupId", text("g")),
                    ("Assignments", list(count, assignment)),
                ])
            },
        ),
        attack(
            "LeaveGroup of many members",
            (ApiKey::LEAVE_GROUP, 5),
            |count| {
                let member = |index| fields([("MemberId", named("m", index))]);
                fields([("GroupId", text("g")), ("Members", list(count, member))])
            },
        ),
        attack(
            "DescribeGroups of one group many times",
            describes,
            |count| fields([("Groups", list(count, |_| text("g")))]),
        ),
        attack("DescribeGroups of many groups", describes, |count| {
            fields([("Groups", list(count, |index| named("g", index)))])
        }),
        attack(
            "ConsumerGroupDescribe of one group many times",
            consumers,
            |count| fields([("GroupIds", list(count, |_| text("g")))]),
        ),
        attack("ConsumerGroupDescribe of many groups", consumers, |count| {
            fields([("GroupIds", list(count, |index| named("g", index)))])
        }),
        attack(
            "ConsumerGroupHeartbeat of many topics",
            (ApiKey::CONSUMER_GROUP_HEARTBEAT, 1),
            |count| {
                fields([
                    ("GroupId", text("g")),
                    ("MemberId", text("m")),
                    (
                        "SubscribedTopicNames",
                        list(count, |index| named("t", index)),
                    ),
                ])
            },
        ),
        attack(
            "ListGroups by many states",
            (ApiKey::LIST_GROUPS, 5),
            |count| fields([("StatesFilter", list(count, |_| text("")))]),
        ),
        attack(
            "FindCoordinator of empty names",
            (ApiKey::FIND_COORDINATOR, 6),
            |count| fields([("CoordinatorKeys", list(count, |_| text("")))]),
        ),
        attack(
            "FindCoordinator of no kind",
            (ApiKey::FIND_COORDINATOR, 6),
            |count| {
                fields([
                    ("KeyType", int(7)),
                    ("CoordinatorKeys", list(count, |index| named("", index))),
                ])
            },
        ),
    ]
}

// ---------------------------------------------------------------------- transactions

fn transactions() -> Vec<Attack> {
    let adds = (ApiKey::ADD_PARTITIONS_TO_TXN, 5);
    let marks = (ApiKey::WRITE_TXN_MARKERS, 1);
    let lists = (ApiKey::LIST_TRANSACTIONS, 2);
    let marked = |producer_id: usize, name: &str, partitions: Value| {
        fields([
            ("ProducerId", int(producer_id)),
            ("Topics", topic(text(name), "PartitionIndexes", partitions)),
        ])
    };
    vec![
        attack(
            "AddPartitionsToTxn of one partition many times",
            adds,
            |count| {
                let partitions = list(count, |_| int(1));
                let transaction = fields([
                    ("TransactionalId", text("x0")),
                    ("Topics", topic(text("big"), "Partitions", partitions)),
                ]);
                fields([("Transactions", one(transaction))])
            },
        ),
        attack("AddPartitionsToTxn of one id many times", adds, |count| {
            let transaction = |_| {
                let topics = topic(text("big"), "Partitions", list(1, int));
                fields([("TransactionalId", text("x0")), ("Topics", topics)])
            };
            fields([("Transactions", list(count, transaction))])
        }),
        attack(
            "WriteTxnMarkers for one partition many times",
            marks,
            move |count| {
                let markers = marked(7, "big", list(count, |_| int(0)));
                fields([("Markers", one(markers))])
            },
        ),
        attack("WriteTxnMarkers for offsets", marks, move |count| {
            let markers = marked(0, "__consumer_offsets", list(count, int));
            fields([("Markers", one(markers))])
        }),
        attack("WriteTxnMarkers of many producers", marks, move |count| {
            let marker = |index| marked(index, "big", list(1, |_| int(index % PARTITIONS)));
            fields([("Markers", list(count, marker))])
        }),
        attack(
            "DescribeTransactions of one id many times",
            (ApiKey::DESCRIBE_TRANSACTIONS, 0),
            |count| fields([("TransactionalIds", list(count, |_| text("x0")))]),
        ),
        attack("ListTransactions by many producers", lists, |count| {
            fields([(
                "ProducerIdFilters",
                list(count, |index| int(1_000_000 + index)),
            )])
        }),
        attack("ListTransactions by many states", lists, |count| {
            fields([("StateFilters", list(count, |_| text("")))])
        }),
        attack("ListTransactions by a pattern", lists, |_| {
            fields([("TransactionalIdPattern", text(&".*".repeat(500)))])
        }),
    ]
}

// ---------------------------------------------------------------------- requests without arrays

fn short() -> Vec<Attack> {
    let of_transaction = || {
        [
            ("TransactionalId", long()),
            ("ProducerId", int(0)),
            ("ProducerEpoch", int(0)),
        ]
    };
    vec![
        attack("Heartbeat of long names", (ApiKey::HEARTBEAT, 4), |_| {
            fields([
                ("GroupId", long()),
                ("MemberId", long()),
                ("GroupInstanceId", long()),
            ])
        }),
        attack(
            "ApiVersions of long names",
            (ApiKey::API_VERSIONS, 4),
            |_| {
                fields([
                    ("ClientSoftwareName", long()),
                    ("ClientSoftwareVersion", long()),
                ])
            },
        ),
        attack(
            "InitProducerId of a long name",
            (ApiKey::INIT_PRODUCER_ID, 4),
            |_| {
                fields([
                    ("TransactionalId", long()),
                    ("TransactionTimeoutMs", int(i32::MAX as usize)),
                ])
            },
        ),
        attack(
            "AddOffsetsToTxn of long names",
            (ApiKey::ADD_OFFSETS_TO_TXN, 4),
            move |_| {
                let mut body = of_transaction().to_vec();
                body.push(("GroupId", long()));
                Value::Struct(body)
            },
        ),
        attack("EndTxn of a long name", (ApiKey::END_TXN, 5), move |_| {
            Value::Struct(of_transaction().to_vec())
        }),
        attack("DescribeCluster", (ApiKey::DESCRIBE_CLUSTER, 2), |_| {
            fields([])
        }),
        attack(
            "ListPartitionReassignments",
            (ApiKey::LIST_PARTITION_REASSIGNMENTS, 0),
            |count| {
                let topic = fields([("Name", long()), ("PartitionIndexes", list(count, int))]);
                fields([("Topics", one(topic))])
            },
        ),
        attack(
            "ListConfigResources",
            (ApiKey::LIST_CONFIG_RESOURCES, 1),
            |count| fields([("ResourceTypes", list(count, |_| int(TOPIC)))]),
        ),
    ]
}
