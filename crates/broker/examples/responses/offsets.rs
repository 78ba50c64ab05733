//! `ListOffsets` and `OffsetForLeaderEpoch`.

use thalweg_protocol::messages::{list_offsets, offset_for_leader_epoch};
use thalweg_records::{BatchBuilder, Compression, Compressor, Headers};

use crate::bodies::produce_to;
use crate::client::Client;

pub(crate) fn ask(client: &mut Client) {
    let id = client.create("offsets", 1, &[]);
    let mut compressor = Compressor::default();
    for (index, timestamps) in [[100, 300], [200, 400], [400, 250], [50, 60]]
        .iter()
        .enumerate()
    {
        let mut builder = BatchBuilder::new(0);
        for timestamp in timestamps {
            builder.append(*timestamp, None, Some(b"value"), Headers::NONE);
        }
        let codec = if index % 2 == 0 {
            Compression::None
        } else {
            Compression::Lz4
        };
        let records = builder
            .finish_compressed(&mut compressor, codec, None)
            .expect("compresses");
        client.quietly(&produce_to("offsets", id, 0, &records), 12);
    }
    let list = |name: &str, partition_index, timestamp, current_leader_epoch| {
        list_offsets::ListOffsetsRequest {
            replica_id: -1,
            topics: vec![list_offsets::ListOffsetsTopic {
                name: name.into(),
                partitions: vec![list_offsets::ListOffsetsPartition {
                    partition_index,
                    timestamp,
                    current_leader_epoch,
                }],
            }],
            ..Default::default()
        }
    };
    for timestamp in [
        -1, -2, -3, -4, -5, -6, -7, 0, 100, 101, 250, 300, 301, 400, 401,
    ] {
        let what = format!("list offsets {timestamp}");
        client.ask(&what, &list("offsets", 0, timestamp, -1), 11);
    }
    for timestamp in [-3, -4, -5, -6] {
        client.ask(
            &format!("list offsets {timestamp}"),
            &list("offsets", 0, timestamp, -1),
            5,
        );
    }
    client.ask_all("list offsets", &list("offsets", 0, -1, -1));
    client.ask("list offsets, epoch 5", &list("offsets", 0, -1, 5), 11);
    client.ask("list offsets, partition", &list("offsets", 7, -1, -1), 11);
    client.ask("list offsets, topic", &list("nope", 0, -1, -1), 11);
    let committed = list_offsets::ListOffsetsRequest {
        isolation_level: 1,
        ..list("offsets", 0, -1, -1)
    };
    client.ask("list offsets, committed", &committed, 11);
    let mut doubled = list("offsets", 0, -1, -1);
    let again = doubled.topics[0].partitions[0].clone();
    doubled.topics[0].partitions.push(again);
    client.ask("list offsets, doubled", &doubled, 11);
    client.create("empty", 1, &[]);
    for timestamp in [-1, -2, -3, 0] {
        client.ask(
            &format!("list offsets, empty {timestamp}"),
            &list("empty", 0, timestamp, -1),
            9,
        );
    }
    let epoch = |name: &str, leader_epoch, current_leader_epoch| {
        offset_for_leader_epoch::OffsetForLeaderEpochRequest {
            replica_id: -1,
            topics: vec![offset_for_leader_epoch::OffsetForLeaderTopic {
                topic: name.into(),
                partitions: vec![offset_for_leader_epoch::OffsetForLeaderPartition {
                    partition: 0,
                    current_leader_epoch,
                    leader_epoch,
                }],
            }],
        }
    };
    for (leader_epoch, current) in [(0, -1), (0, 0), (1, -1), (-1, -1), (0, 1)] {
        let what = format!("epoch {leader_epoch}, current {current}");
        client.ask(&what, &epoch("offsets", leader_epoch, current), 4);
    }
    client.ask("epoch, topic", &epoch("nope", 0, -1), 4);
    client.ask("epoch, empty", &epoch("empty", 0, -1), 4);
    client.ask_all("epoch", &epoch("offsets", 0, -1));
}
