//! The data of a partition: batches in wire form, and what is known about them.
//!
//! ```text
//! Produce -> validate -> producers (duplicate? in order?) -> Log::append -> Segment -> StoredBatch
//! marker  -> producers (whose transaction ends?) -> Log::append; TransactionIndex
//! Fetch   <- Log::read <- Segment <- StoredBatch (16 patched bytes, then shared ones)
//! ```
//! Everything is in memory. There is no compaction: a compacted topic keeps every record, like a
//! Kafka broker whose cleaner has not run yet.

mod batch;
pub(crate) mod epochs;
mod log;
mod producers;
mod refusal;
mod segment;
pub(crate) mod timestamps;
mod transaction_index;
pub(crate) mod validate;

pub(crate) use batch::StoredBatch;
pub(crate) use log::{Log, LogSlice, ReadLimit};
pub(crate) use producers::{ProducerEntry, ProducerStates, Sequenced};
pub(crate) use transaction_index::Aborted;
