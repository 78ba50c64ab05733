//! The core of the producer: takes records, sends batches, and reports each outcome once.
//!
//! ```text
//!   application threads                    the I/O thread
//!   ───────────────────                    ──────────────
//!   Accumulator::append ──▶ partition      Sender::poll: ready, drain, close, send
//!        │   ▲              queues ──────▶      │        ▲
//!        │   └ BufferPool ◀── chunks ───────────┤        │ responses, errors, codec jobs
//!        ▼                                      ▼        │
//!   BatchCompletion ◀────────── one outcome ── batches in flight
//! ```
//! All threads share [`Accumulator`] (one mutex for each partition) and [`BufferPool`] (its own
//! mutex). [`Sender`] belongs to the I/O thread. The two sides meet in a queue of ready partitions,
//! in the metadata snapshot, and in the completions.
//!
//! ```text
//! accumulator/    takes records         batch/          batches, records and their memory
//! partitioning/   chooses partitions    sender/         sends batches, from drain to outcome
//! transactions/   the coordinator's requests of a transactional producer
//! idempotence.rs  sequence numbers and epochs
//! ```
//! This crate does not block, read a clock, do I/O, or know Python.
#![forbid(unsafe_code)]

mod accumulator;
mod batch;
mod config;
mod error;
mod idempotence;
mod metrics;
mod partitioning;
mod sender;
mod sync;
mod transactions;

pub use accumulator::bulk::{AppendedRows, BulkAppend, BulkStep, RecordSource};
pub use accumulator::incomplete::FlushTicket;
pub use accumulator::{Accumulator, AppendRefusal, Appended};
pub use batch::buffer_pool::{BufferPool, BufferWait};
pub use batch::chunk::{Chunk, Reservation};
pub use batch::completion::{
    Acknowledged, BatchCompletion, Callback, CompletionListener, Failure, Piece, Written,
};
pub use batch::record::Record;
pub use config::{Acks, ProducerConfig};
pub use error::{FailureKind, ProducerError, TransactionFailure};
pub use idempotence::ProducerIdAndEpoch;
pub use metrics::{ProducerMetrics, Timed};
pub use partitioning::partitioner::{Partitioner, crc32, murmur2, partition_for_key, to_positive};
pub use partitioning::topic::TopicEntry;
pub use sender::{CodecDone, CodecJob, Sender};
pub use transactions::{GroupMetadata, GroupOffsets, OffsetToCommit, TransactionTicket};
