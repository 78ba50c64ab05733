use thalweg_protocol::ErrorCode;
use thalweg_protocol::messages::delete_records::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use thalweg_protocol::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsTopic,
};
use thalweg_protocol::messages::offset_for_leader_epoch::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use thalweg_records::{Compression, Compressor};

use super::*;

fn list(bench: &mut Bench, topic: &str, timestamp: i64) -> ListOffsetsPartitionResponse {
    let request = ListOffsetsRequest {
        replica_id: -1,
        topics: vec![ListOffsetsTopic {
            name: topic.into(),
            partitions: vec![ListOffsetsPartition {
                timestamp,
                ..Default::default()
            }],
        }],
        ..ListOffsetsRequest::default()
    };
    let mut response = bench.ask(&request, 9);
    response.topics.remove(0).partitions.remove(0)
}

#[test]
fn offsets_are_found_by_time_inside_of_compressed_batches_too() {
    let mut bench = Bench::new(1);
    bench.create("t", 1, &[]);
    let mut compressor = Compressor::default();
    for (codec, timestamps) in [
        (Compression::None, [100, 300]),
        (Compression::Zstd, [200, 400]),
        (Compression::Lz4, [400, 250]),
    ] {
        let mut builder = BatchBuilder::new(0);
        for timestamp in timestamps {
            builder.append(timestamp, None, Some(b"value"), Headers::NONE);
        }
        let records = builder
            .finish_compressed(&mut compressor, codec, None)
            .unwrap();
        assert_eq!(bench.produce("t", 0, records).error_code, 0);
    }
    let mut find = |timestamp| {
        let found = list(&mut bench, "t", timestamp);
        (found.offset, found.timestamp)
    };
    assert_eq!(find(0), (0, 100));
    assert_eq!(find(101), (1, 300));
    assert_eq!(find(301), (3, 400));
    assert_eq!(find(401), (-1, -1));
    assert_eq!(find(-1), (6, -1));
    assert_eq!(find(-2), (0, -1));
    assert_eq!(find(-3), (3, 400));
}

#[test]
fn the_greatest_timestamp_is_that_of_a_record_that_is_not_deleted() {
    let mut bench = Bench::new(1);
    bench.create("t", 1, &[]);
    for timestamps in [[900, 100], [800, 300], [200, 300]] {
        let records = batch(&timestamps);
        assert_eq!(bench.produce("t", 0, records).error_code, 0);
    }
    let mut greatest_from = |start| {
        delete_before(&mut bench, "t", start);
        let found = list(&mut bench, "t", -3);
        (found.offset, found.timestamp)
    };
    assert_eq!(greatest_from(0), (0, 900));
    assert_eq!(greatest_from(1), (2, 800));
    assert_eq!(greatest_from(3), (3, 300));
    assert_eq!(greatest_from(4), (5, 300));
    assert_eq!(greatest_from(6), (-1, -1));
}

fn delete_before(bench: &mut Bench, topic: &str, offset: i64) {
    let request = DeleteRecordsRequest {
        topics: vec![DeleteRecordsTopic {
            name: topic.into(),
            partitions: vec![DeleteRecordsPartition {
                partition_index: 0,
                offset,
            }],
        }],
        timeout_ms: 1000,
    };
    let response = bench.ask(&request, 2);
    assert_eq!(response.topics[0].partitions[0].error_code, 0);
}

#[test]
fn an_empty_log_has_ends_but_no_times() {
    let mut bench = Bench::new(1);
    bench.create("t", 1, &[]);
    let mut offset = |timestamp| list(&mut bench, "t", timestamp).offset;
    assert_eq!(
        [offset(-1), offset(-2), offset(-3), offset(0)],
        [0, 0, -1, -1]
    );
    let code = list(&mut bench, "nope", -1).error_code;
    assert_eq!(ErrorCode(code), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
}

#[test]
fn found_offsets_carry_the_epoch_that_they_were_written_in() {
    let mut bench = Bench::new(2);
    bench.create("t", 1, &[]);
    bench.produce("t", 0, batch(&[100]));
    bench.core.topology.move_leader("t", 0, 2).unwrap();
    bench.produce("t", 0, batch(&[200]));
    bench.core.topology.move_leader("t", 0, 1).unwrap();
    let mut epoch = |timestamp| list(&mut bench, "t", timestamp).leader_epoch;
    assert_eq!([epoch(100), epoch(200), epoch(-2), epoch(-1)], [0, 1, 0, 2]);
}

#[test]
fn epochs_end_where_the_next_began() {
    let mut bench = Bench::new(2);
    bench.create("t", 1, &[]);
    bench.produce("t", 0, batch(&[100, 100]));
    bench.core.topology.move_leader("t", 0, 2).unwrap();
    bench.produce("t", 0, batch(&[200]));
    let mut ask = |leader_epoch, current_leader_epoch| {
        let request = OffsetForLeaderEpochRequest {
            replica_id: -1,
            topics: vec![OffsetForLeaderTopic {
                topic: "t".into(),
                partitions: vec![OffsetForLeaderPartition {
                    partition: 0,
                    current_leader_epoch,
                    leader_epoch,
                }],
            }],
        };
        let response = bench.ask_node(2, &request, 4);
        let partition = &response.topics[0].partitions[0];
        (
            ErrorCode(partition.error_code),
            partition.leader_epoch,
            partition.end_offset,
        )
    };
    assert_eq!(ask(0, -1), (ErrorCode::NONE, 0, 2));
    assert_eq!(ask(1, 1), (ErrorCode::NONE, 1, 3));
    assert_eq!(ask(2, -1), (ErrorCode::NONE, -1, -1));
    assert_eq!(ask(0, 0), (ErrorCode::FENCED_LEADER_EPOCH, -1, -1));
}
