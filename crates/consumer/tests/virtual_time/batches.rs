//! Builds batches as a broker stores them.

use thalweg_records::{BatchBuilder, BatchHeader, Compression, Compressor, RecordFields, control};

/// A plain batch of `count` records, starting at offset `base`. Each value says its offset.
pub(crate) fn plain(base: i64, count: usize) -> Vec<u8> {
    sized(base, count, 0)
}

/// A plain batch with values of at least `bytes` bytes.
pub(crate) fn sized(base: i64, count: usize, bytes: usize) -> Vec<u8> {
    builder(
        BatchHeader {
            base_offset: base,
            ..header(1)
        },
        base,
        count,
        bytes,
    )
    .finish()
}

pub(crate) fn in_epoch(base: i64, count: usize, epoch: i32) -> Vec<u8> {
    builder(
        BatchHeader {
            base_offset: base,
            ..header(epoch)
        },
        base,
        count,
        0,
    )
    .finish()
}

pub(crate) fn compressed(base: i64, count: usize, bytes: usize, codec: Compression) -> Vec<u8> {
    builder(
        BatchHeader {
            base_offset: base,
            ..header(1)
        },
        base,
        count,
        bytes,
    )
    .finish_compressed(&mut Compressor::new(), codec, None)
    .expect("compressible")
}

/// Ten records that compress to 40 kB, so the batch needs its own job on a codec thread.
pub(crate) fn noisy(base: i64, codec: Compression) -> Vec<u8> {
    let mut state = base as u64;
    let mut noise = move || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 56) as u8
    };
    let mut builder = BatchBuilder::with_header(BatchHeader {
        base_offset: base,
        ..header(1)
    });
    for index in 0..10 {
        let value: Vec<u8> = (0..4_000).map(|_| noise()).collect();
        let headers = thalweg_records::Headers::NONE;
        builder.append(1_000 + index, None, Some(&value), headers);
    }
    builder
        .finish_compressed(&mut Compressor::new(), codec, None)
        .expect("a level was not given")
}

pub(crate) fn transactional(
    base: i64,
    count: usize,
    producer_id: i64,
    codec: Compression,
) -> Vec<u8> {
    let mut header = BatchHeader {
        base_offset: base,
        producer_id,
        producer_epoch: 0,
        ..header(1)
    };
    header.base_sequence = 0;
    header.attributes = header.attributes.with_transactional(true);
    builder(header, base, count, 0)
        .finish_compressed(&mut Compressor::new(), codec, None)
        .expect("compressible")
}

/// The marker that ends a transaction. It takes one offset.
pub(crate) fn marker(base: i64, producer_id: i64, commit: bool) -> Vec<u8> {
    let marker = control::EndTransactionMarker {
        commit,
        coordinator_epoch: 0,
        producer_id,
        producer_epoch: 0,
        timestamp: 1,
    };
    control::end_transaction_batch(&marker, base, 1)
}

/// A batch after compaction: records at some offsets, with the original last offset.
pub(crate) fn compacted(base: i64, kept: &[i32], last_offset_delta: i32) -> Vec<u8> {
    let mut builder = BatchBuilder::with_header(BatchHeader {
        base_offset: base,
        ..header(1)
    });
    for &delta in kept {
        let value = (base + i64::from(delta)).to_string();
        builder.append_fields(&RecordFields {
            offset_delta: delta,
            value: Some(value.as_bytes()),
            ..RecordFields::default()
        });
    }
    builder.header_mut().last_offset_delta = last_offset_delta;
    builder.finish()
}

fn header(epoch: i32) -> BatchHeader {
    BatchHeader {
        partition_leader_epoch: epoch,
        ..BatchHeader::default()
    }
}

fn builder(header: BatchHeader, base: i64, count: usize, bytes: usize) -> BatchBuilder {
    let mut builder = BatchBuilder::with_header(header);
    for index in 0..count as i64 {
        let mut value = (base + index).to_string().into_bytes();
        if value.len() < bytes {
            value.resize(bytes, b'.');
        }
        builder.append(
            1_000 + index,
            None,
            Some(&value),
            thalweg_records::Headers::NONE,
        );
    }
    builder
}
