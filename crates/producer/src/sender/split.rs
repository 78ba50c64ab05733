//! Splits a batch that is too large for the broker (KIP-126) into pieces of about half its size.
//! The pieces keep the order of the records, and each one keeps the sequences of its records.
//!
//! Deltas are relative to the batch, so the records are decoded and encoded again, and compressed
//! again. A codec thread does this, as for the first compression. Until it is done, the batch keeps
//! its position among the retries and blocks the later ones. The pieces use memory outside the
//! pool, about as much as the batch that they replace.

use bytes::Bytes;
use thalweg_records::{
    BatchHeader, Compression, Compressor, DecodedBatch, Decompressor, RecordFields, record,
};

use crate::batch::order::Order;
use crate::sender::batch::ProducerBatch;

/// No batch of this producer decompresses to more: its raw bytes were limited when it was filled.
const RAW_BYTES_MAX: usize = 1 << 30;

/// A batch to be split into at least two pieces of at most about `bytes_max` uncompressed bytes
/// each.
#[derive(Debug)]
pub(crate) struct SplitJob {
    pub(crate) index: usize,
    pub(crate) order: Order,
    header: BatchHeader,
    /// The records section, compressed with `packed_by`.
    segments: Vec<Bytes>,
    packed_by: Compression,
    records: u32,
    bytes_max: usize,
    codec: Compression,
    level: Option<i32>,
}

/// The pieces of a batch, in order. An error means that the producer cannot read its own batch.
#[derive(Debug)]
pub(crate) struct SplitBatch {
    pub(crate) index: usize,
    pub(crate) order: Order,
    pub(crate) pieces: Result<Vec<Piece>, String>,
}

impl SplitJob {
    pub(crate) fn new(
        index: usize,
        batch: &ProducerBatch,
        bytes_max: usize,
        codec: Compression,
        level: Option<i32>,
    ) -> Self {
        Self {
            index,
            order: batch.order,
            header: batch.batch_header(),
            segments: batch.segments.clone(),
            packed_by: batch.codec,
            records: batch.records,
            bytes_max,
            codec,
            level,
        }
    }

    pub(crate) fn run_with(self, compressor: &mut Compressor) -> SplitBatch {
        SplitBatch {
            index: self.index,
            order: self.order,
            pieces: self.pieces(compressor),
        }
    }

    fn pieces(&self, compressor: &mut Compressor) -> Result<Vec<Piece>, String> {
        let decoded = self.decode()?;
        let target = self.bytes_max.min(decoded.records.len().div_ceil(2));
        let mut pieces = Pieces {
            records: self.records,
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
        let mut pieces = pieces.finish();
        assert!(
            pieces.len() > 1 || self.records < 2,
            "no piece has more than half of the records"
        );
        for piece in &mut pieces {
            piece.compress(compressor, self.codec, self.level);
        }
        Ok(pieces)
    }

    fn decode(&self) -> Result<DecodedBatch, String> {
        let section = Bytes::from(self.segments.concat());
        let records = match self.packed_by {
            Compression::None => section,
            codec => Decompressor::new()
                .decompress(codec, &section, RAW_BYTES_MAX)
                .map_err(|error| format!("{error:?}"))?,
        };
        let header = self.header;
        Ok(DecodedBatch { header, records })
    }
}

/// A piece being filled. Offsets and timestamps are relative to its first record.
#[derive(Debug)]
pub(crate) struct Piece {
    first: u32,
    records: u32,
    base_timestamp: i64,
    max_timestamp: i64,
    bytes: Vec<u8>,
    /// Length of `bytes` before compression with `codec`.
    raw_bytes: usize,
    codec: Compression,
}

impl Piece {
    /// Turns the piece into a batch. `of` is the batch that was split.
    pub(crate) fn into_batch(self, of: &ProducerBatch) -> ProducerBatch {
        let mut batch = of.piece(self.first, self.records);
        batch.base_timestamp = self.base_timestamp;
        batch.max_timestamp = self.max_timestamp;
        batch.raw_bytes = self.raw_bytes;
        batch.codec = self.codec;
        batch.segments = vec![Bytes::from(self.bytes)];
        batch
    }

    fn compress(&mut self, compressor: &mut Compressor, codec: Compression, level: Option<i32>) {
        if codec == Compression::None {
            return;
        }
        let mut out = Vec::new();
        let result = compressor.compress(codec, level, &[&self.bytes], &mut out);
        if result.is_ok() && out.len() < self.bytes.len() {
            self.bytes = out;
            self.codec = codec;
        }
    }
}

struct Pieces {
    /// Number of records of all pieces together.
    records: u32,
    done: Vec<Piece>,
    current: Option<Piece>,
    target: usize,
}

impl Pieces {
    /// Adds a record. `fields` carries the absolute timestamp instead of a delta.
    fn push(&mut self, fields: &RecordFields<'_>) {
        let timestamp = fields.timestamp_delta;
        let len = record::encoded_len(&RecordFields {
            timestamp_delta: 0,
            ..*fields
        });
        // Also limited by count: with smaller deltas, all records might fit into one piece.
        let half = self.records.div_ceil(2);
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
            raw_bytes: 0,
            codec: Compression::None,
        });
        let fields = RecordFields {
            offset_delta: piece.records as i32,
            timestamp_delta: timestamp.wrapping_sub(piece.base_timestamp),
            ..*fields
        };
        record::encode(&fields, &mut piece.bytes);
        piece.raw_bytes = piece.bytes.len();
        piece.records += 1;
        piece.max_timestamp = piece.max_timestamp.max(timestamp);
    }

    fn finish(mut self) -> Vec<Piece> {
        self.done.extend(self.current.take());
        self.done
    }
}
