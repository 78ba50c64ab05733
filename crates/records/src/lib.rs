//! Kafka's record batches: written in the v2 format, read in v0, v1 and v2.
//!
//! ```text
//! producer   record::encode -> chunks of a batch -> Compressor -> BatchHeader::finish -> wire
//! consumer   wire -> batches() -> RawBatch -> validate_crc, decode(Decompressor) -> DecodedBatch
//!            DecodedBatch -> iter() / for_each() -> RecordRef (slices, nothing is copied)
//! ```
//!
//! The layout is that of Kafka's `DefaultRecordBatch`, `DefaultRecord` (magic 2, KIP-98) and
//! `LegacyRecord` (magic 0 and 1, KIP-31/32). All input comes from outside, so each length is
//! checked against the bytes that are there. No allocation depends on a number that the bytes do
//! not back, and the caller limits the size of decompressed data.
//!
//! The crate does not manage memory pools or decide when a batch is full (the producer does), and
//! does not hide records by isolation level (the consumer does). It does not write v0 and v1, which
//! brokers since 4.0 refuse (KIP-724).
#![forbid(unsafe_code)]

mod attributes;
pub mod batch_header;
mod batches;
mod build;
pub mod compression;
pub mod control;
mod crc;
mod decoded;
mod error;
mod headers;
mod legacy;
mod reader;
pub mod record;
pub mod varint;

pub use attributes::{Attributes, TimestampType};
pub use batch_header::{BATCH_HEADER_LEN, BatchHeader};
pub use batches::{BatchIter, CONTROL_BATCH_BYTES_MAX, RawBatch, batches};
pub use build::BatchBuilder;
pub use compression::{Compression, Compressor, Decompressor};
pub use control::ControlRecord;
pub use crc::{Crc32c, crc32c};
pub use decoded::{DecodedBatch, Totals};
pub use error::{RecordError, RecordProblem, RecordsError};
pub use headers::{HeaderIter, HeaderRef, Headers, RawHeaders};
pub use reader::{RecordIter, RecordPosition, RecordRef};
pub use record::{RecordFields, RecordSink};
