//! Bugs that other clients had, with one test each. The comments name where they were found.

use bytes::Bytes;
use thalweg_records::control::{EndTransactionMarker, end_transaction_batch};
use thalweg_records::{
    Attributes, BatchBuilder, BatchHeader, ControlRecord, DecodedBatch, Decompressor, RawBatch,
    RecordFields, batches,
};

fn raw(wire: Vec<u8>) -> Vec<RawBatch> {
    batches(Bytes::from(wire))
        .map(|raw| raw.expect("a sound batch"))
        .collect()
}

fn decode(raw: &RawBatch) -> DecodedBatch {
    raw.decode(&mut Decompressor::new(), 1 << 20)
        .expect("sound records")
}

fn plain(base_offset: i64, records: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new(base_offset);
    for _ in 0..records {
        builder.append(0, None, Some(b"value"), &[][..]);
    }
    builder.finish()
}

/// kafka-python #1571, kafkajs #562, kafka-go #813, brod #263: consumers that continued from the
/// last record's offset got stuck at a batch that compaction emptied or shortened.
/// Scenario 38, bug 9.
#[test]
fn position_moves_over_compacted_and_empty_batches() {
    let mut cut = BatchBuilder::new(100);
    cut.append_fields(&RecordFields {
        offset_delta: 3,
        ..RecordFields::default()
    });
    cut.header_mut().last_offset_delta = 49;
    let mut empty = BatchHeader {
        base_offset: 150,
        last_offset_delta: 849,
        ..BatchHeader::default()
    };
    let wire = [cut.finish(), empty.finish([]).to_vec(), plain(1000, 1)].concat();
    let mut position = 100;
    let mut offsets = Vec::new();
    for raw in raw(wire) {
        let batch = decode(&raw);
        offsets.extend(batch.iter().map(|record| record.expect("sound").offset));
        assert_eq!(raw.next_offset(), batch.next_offset());
        assert!(batch.next_offset() > position, "it moves with every batch");
        position = batch.next_offset();
    }
    assert_eq!((offsets, position), (vec![103, 1000], 1001));
}

/// librdkafka 1.7.0: an abort marker without data hid what was committed after it. The type of a
/// marker must be recognized whatever its value is. Bug 10.
#[test]
fn a_marker_without_a_value_is_still_that_marker() {
    for (commit, type_id) in [(false, 0), (true, 1)] {
        let marker = EndTransactionMarker {
            commit,
            coordinator_epoch: 9,
            producer_id: 7,
            producer_epoch: 1,
            timestamp: 5,
        };
        let batch = decode(&raw(end_transaction_batch(&marker, 30, 2))[0]);
        assert!(batch.is_control() && batch.is_transactional());
        assert_eq!(batch.header.partition_leader_epoch, 2);
        let expected = if commit {
            ControlRecord::Commit {
                coordinator_epoch: 9,
            }
        } else {
            ControlRecord::Abort {
                coordinator_epoch: 9,
            }
        };
        assert_eq!(batch.control_record(), Some(expected));

        let mut builder = BatchBuilder::with_header(BatchHeader {
            attributes: Attributes::default()
                .with_control(true)
                .with_transactional(true),
            ..BatchHeader::default()
        });
        let key = [0, 0, 0, type_id];
        builder.append_fields(&RecordFields {
            key: Some(&key),
            ..RecordFields::default()
        });
        let bare = decode(&raw(builder.finish())[0])
            .control_record()
            .expect("a marker");
        assert_eq!(bare.type_id(), expected.type_id());
    }
    assert_eq!(
        decode(&raw(plain(0, 1))[0]).control_record(),
        None,
        "a data record is not a marker"
    );
}

/// sarama #1026: `LastOffsetDelta` was always 0, which brokers could not handle. Bug 17.
#[test]
fn last_offset_delta_is_that_of_the_last_record() {
    for records in [1, 2, 500] {
        let raw = &raw(plain(10, records))[0];
        assert_eq!(raw.header.last_offset_delta, records as i32 - 1);
        assert_eq!(raw.last_offset(), 9 + records as i64);
        let last = decode(raw)
            .iter()
            .last()
            .expect("a record")
            .expect("sound")
            .offset;
        assert_eq!(last, raw.last_offset());
    }
}

/// ruby-kafka #591: only the first batch of a fetch was decoded. Bug 17.
#[test]
fn every_batch_of_a_response_is_decoded() {
    let wire: Vec<u8> = (0..10).flat_map(|index| plain(index * 3, 3)).collect();
    let batches = raw(wire);
    let offsets: Vec<_> = batches
        .iter()
        .flat_map(|raw| {
            let batch = decode(raw);
            batch
                .iter()
                .map(|record| record.expect("sound").offset)
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(offsets, (0..30).collect::<Vec<_>>());
}

/// KIP-534: with the delete horizon bit, the base timestamp contains another time. Deltas are
/// relative to it, even negative ones.
#[test]
fn timestamps_are_relative_to_the_delete_horizon() {
    let mut builder = BatchBuilder::with_header(BatchHeader {
        attributes: Attributes::default().with_delete_horizon(true),
        base_timestamp: 9000,
        max_timestamp: 700,
        ..BatchHeader::default()
    });
    builder.append_fields(&RecordFields {
        timestamp_delta: -8300,
        ..RecordFields::default()
    });
    let batch = decode(&raw(builder.finish())[0]);
    assert!(batch.header.attributes.has_delete_horizon());
    assert_eq!(
        batch
            .iter()
            .next()
            .expect("a record")
            .expect("sound")
            .timestamp,
        700
    );
}
