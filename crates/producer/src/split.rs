//! Splitting a batch that is too large for the broker (KIP-126): in order, in pieces of about half,
//! each with the part of the sequences that its records had.
//!
//! Rare, so it may cost: the records are decoded and encoded again, as their deltas are relative to
//! their batch. The pieces live in memory of their own, the size of the batch that they replace.

use bytes::Bytes;
use thalweg_records::{
    BatchHeader, Compression, Compressor, DecodedBatch, Decompressor, RecordFields, record,
};

use crate::sender::batch::ProducerBatch;

/// No batch of ours decompresses to more: its raw bytes were bounded when it was filled.
const RAW_BYTES_MAX: usize = 1 << 30;

/// Pieces of at most about `bytes_max` uncompressed, at least two of them.
///
/// An error says that our own batch cannot be read back.
pub(crate) fn split(
    batch: &ProducerBatch,
    bytes_max: usize,
    codec: Compression,
    level: Option<i32>,
) -> Result<Vec<ProducerBatch>, String> {
    let decoded = decode(batch)?;
    let target = bytes_max.min(decoded.records.len().div_ceil(2));
    let mut pieces = Pieces {
        of: batch,
        done: Vec::new(),
        current: None,
        target,
    };
    for found in &decoded {
        let found = found.map_err(|error| error.to_string())?;
        pieces.push(&RecordFields {
            offset_delta: 0,
            timestamp_delta: found.timestamp,
            key: found.key,
            value: found.value,
            headers: found.headers.into(),
        });
    }
    let pieces = pieces.finish();
    assert!(
        pieces.len() > 1 || batch.records < 2,
        "no piece holds more than half of the records"
    );
    Ok(compress(pieces, codec, level))
}

fn decode(batch: &ProducerBatch) -> Result<DecodedBatch, String> {
    let section = Bytes::from(batch.segments.concat());
    let records = match batch.codec {
        Compression::None => section,
        codec => Decompressor::new()
            .decompress(codec, &section, RAW_BYTES_MAX)
            .map_err(|error| format!("{error:?}"))?,
    };
    let header: BatchHeader = batch.batch_header();
    Ok(DecodedBatch { header, records })
}

/// A piece being filled; offsets and timestamps relative to its own first record.
struct Piece {
    first: u32,
    records: u32,
    base_timestamp: i64,
    max_timestamp: i64,
    bytes: Vec<u8>,
}

struct Pieces<'a> {
    of: &'a ProducerBatch,
    done: Vec<Piece>,
    current: Option<Piece>,
    target: usize,
}

impl Pieces<'_> {
    /// `fields` carries the absolute timestamp.
    fn push(&mut self, fields: &RecordFields<'_>) {
        let timestamp = fields.timestamp_delta;
        let len = record::encoded_len(&RecordFields {
            timestamp_delta: 0,
            ..*fields
        });
        // By count as well: smaller deltas alone could make all of them fit into one piece.
        let half = self.of.records.div_ceil(2);
        let full = |piece: &Piece| piece.bytes.len() + len > self.target || piece.records >= half;
        if self.current.as_ref().is_some_and(full) {
            self.done.extend(self.current.take());
        }
        let first = self.done.last().map_or(0, |last| last.first + last.records);
        let piece = self.current.get_or_insert_with(|| Piece {
            first,
            records: 0,
            base_timestamp: timestamp,
            max_timestamp: timestamp,
            bytes: Vec::new(),
        });
        let fields = RecordFields {
            offset_delta: piece.records as i32,
            timestamp_delta: timestamp.wrapping_sub(piece.base_timestamp),
            ..*fields
        };
        record::encode(&fields, &mut piece.bytes);
        piece.records += 1;
        piece.max_timestamp = piece.max_timestamp.max(timestamp);
    }

    fn finish(mut self) -> Vec<ProducerBatch> {
        self.done.extend(self.current.take());
        let of = self.of;
        let batch = |piece: Piece| {
            let mut batch = of.piece(piece.first, piece.records);
            batch.base_timestamp = piece.base_timestamp;
            batch.max_timestamp = piece.max_timestamp;
            batch.raw_bytes = piece.bytes.len();
            batch.segments = vec![Bytes::from(piece.bytes)];
            batch
        };
        self.done.into_iter().map(batch).collect()
    }
}

fn compress(
    mut pieces: Vec<ProducerBatch>,
    codec: Compression,
    level: Option<i32>,
) -> Vec<ProducerBatch> {
    if codec == Compression::None {
        return pieces;
    }
    let mut compressor = Compressor::new();
    for piece in &mut pieces {
        let raw: Vec<&[u8]> = piece.segments.iter().map(|segment| &segment[..]).collect();
        let mut out = Vec::new();
        let result = compressor.compress(codec, level, &raw, &mut out);
        if result.is_ok() && out.len() < piece.section_len() {
            piece.segments = vec![Bytes::from(out)];
            piece.codec = codec;
        }
    }
    pieces
}
