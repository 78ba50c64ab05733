//! Frames with records, and frames about the contents of logs.

use bytes::Bytes;
use thalweg_protocol::ApiKey;
use thalweg_protocol::dynamic::Value;
use thalweg_records::{BatchBuilder, Compression, Compressor, Headers};

use crate::attacks::{Attack, attack, long, one, topic};
use crate::world::{NOW_MS, PARTITIONS, fields, int, list, produce, producer_batch, text};

/// A batch of records whose timestamps are a day in the future.
fn untimely(count: usize) -> Bytes {
    let mut builder = BatchBuilder::new(0);
    for _ in 0..count {
        builder.append(NOW_MS + 86_400_000, None, None, Headers::NONE);
    }
    builder.finish().into()
}

/// A compressed batch of a million such records.
fn compressed_untimely() -> Bytes {
    let mut builder = BatchBuilder::new(0);
    for _ in 0..1_000_000 {
        builder.append(NOW_MS + 86_400_000, None, None, Headers::NONE);
    }
    let finished = builder.finish_compressed(&mut Compressor::default(), Compression::Zstd, None);
    finished.unwrap().into()
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

pub(crate) fn all() -> Vec<Attack> {
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
    let compressed = compressed_untimely();
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
            "Produce of compressed records that are refused",
            of,
            move |_| {
                produce(one(fields([
                    ("Index", int(0)),
                    ("Records", Value::Bytes(compressed.clone())),
                ])))
            },
        )
        .peak(128 << 20),
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
