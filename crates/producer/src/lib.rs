//! The core of the producer: takes records, sends batches, and reports each outcome once.
//!
//! ```text
//!   application threads                    the I/O thread
//!   ───────────────────                    ──────────────
//!   Accumulator::append ──▶ partition      Sender::poll: ready, drain, close, send
//!        │   ▲              queues ──────▶      │        ▲
//!        │   └ BufferPool ◀── chunks ───────────┤        │ answers, errors, codec jobs
//!        ▼                                      ▼        │
//!   BatchCompletion ◀────────── one outcome ── batches in flight
//! ```
//! All threads share [`Accumulator`] (one mutex for each partition) and [`BufferPool`] (its own
//! mutex). [`Sender`] belongs to the I/O thread. The two sides meet in a queue of ready partitions,
//! in the metadata snapshot, and in the completions.
//!
//! This crate does not block, read a clock, do I/O, or know Python.
#![forbid(unsafe_code)]

mod accumulator;
mod batch_completion;
mod buffer_pool;
mod bulk;
mod chunk;
mod compression_ratio;
mod config;
mod error;
mod gate;
mod idempotence;
mod incomplete;
mod metrics;
mod murmur2;
mod open_batch;
mod partition_queue;
mod partition_table;
mod partitioner;
mod random;
mod ready_queue;
mod record;
mod sender;
mod split;
mod sync;
mod topic;
mod transactions;

pub use accumulator::{Accumulator, AppendRefusal, Appended};
pub use batch_completion::{
    Acknowledged, BatchCompletion, Callback, CompletionListener, Failure, Piece, Written,
};
pub use buffer_pool::{BufferPool, BufferWait};
pub use bulk::{AppendedRows, BulkAppend, BulkStep, RecordSource};
pub use chunk::{Chunk, Reservation};
pub use config::{Acks, ProducerConfig};
pub use error::{FailureKind, ProducerError, TransactionFailure};
pub use incomplete::FlushTicket;
pub use metrics::{ProducerMetrics, Timed};
pub use partitioner::{Partitioner, crc32, murmur2, partition_for_key, to_positive};
pub use record::Record;
pub use sender::{CodecDone, CodecJob, Sender};
pub use topic::TopicEntry;
pub use transactions::{GroupMetadata, GroupOffsets, OffsetToCommit, TransactionTicket};
