//! Frames about groups, their offsets and transactions, and frames that cannot be large.

use bytes::Bytes;
use thalweg_protocol::ApiKey;
use thalweg_protocol::dynamic::Value;

use crate::attacks::{Attack, attack, long, named, one, topic};
use crate::topics::TOPIC;
use crate::world::{PARTITIONS, PRODUCER_ID, fields, int, list, text};

pub(crate) fn all() -> Vec<Attack> {
    let mut all = offsets();
    all.extend(groups());
    all.extend(transactions());
    all.extend(short());
    all
}

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
                    ("ProducerId", int(PRODUCER_ID)),
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
            let markers = marked(PRODUCER_ID, "__consumer_offsets", list(count, int));
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

fn short() -> Vec<Attack> {
    let of_transaction = || {
        [
            ("TransactionalId", long()),
            ("ProducerId", int(PRODUCER_ID)),
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
