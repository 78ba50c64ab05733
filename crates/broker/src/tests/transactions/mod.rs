//! Transactions by requests and responses. The codes are those of a real Kafka 4.3, see
//! `tests/integration/transactions/test_transaction_requests.py`.

mod contents;
mod ends;
mod producers;
mod readers;

use thalweg_protocol::ErrorCode;
use thalweg_protocol::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use thalweg_records::ControlRecord;

use super::transactional::*;
use super::*;

const FENCED: Result<Writer, ErrorCode> = Err(ErrorCode::PRODUCER_FENCED);
const INVALID_STATE: Result<Writer, ErrorCode> = Err(ErrorCode::INVALID_TXN_STATE);

fn bench() -> Bench {
    let mut bench = Bench::new(1);
    bench.create("t", 2, &[]);
    bench
}

fn last_stable_offset(bench: &mut Bench, topic: &str) -> i64 {
    let request = ListOffsetsRequest {
        replica_id: -1,
        isolation_level: 1,
        topics: vec![ListOffsetsTopic {
            name: topic.into(),
            partitions: vec![ListOffsetsPartition {
                timestamp: -1,
                ..Default::default()
            }],
        }],
        ..ListOffsetsRequest::default()
    };
    let node = bench.leader(topic, 0);
    let response = bench.ask_node(node, &request, 7);
    response.topics[0].partitions[0].offset
}

/// Returns the control records of partition 0.
fn markers(bench: &mut Bench, topic: &str) -> Vec<(i64, i16, ControlRecord)> {
    let records = bench.fetch(topic, 0, 0).records.unwrap_or_default();
    let mut found = Vec::new();
    for batch in thalweg_records::batches(records) {
        let batch = batch.unwrap();
        batch.validate_crc().unwrap();
        if !batch.header.attributes.is_control() {
            continue;
        }
        assert!(batch.header.attributes.is_transactional());
        assert_eq!(batch.header.base_sequence, -1);
        let mut decompressor = thalweg_records::Decompressor::default();
        let decoded = batch.decode(&mut decompressor, 1 << 20).unwrap();
        let record = decoded.iter().next().unwrap().unwrap();
        let control = ControlRecord::parse(record.key.unwrap(), record.value).unwrap();
        found.push((record.offset, batch.header.producer_epoch, control));
    }
    found
}
