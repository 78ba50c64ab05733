//! Where drained records go: the seam between the consumer and whoever builds something of them.
//!
//! The binding makes `ConsumerRecord` objects behind it (GIL held), `columns` fills Arrow buffers
//! (GIL released). Calls are monomorphised: per record there is one call and no allocation here.
//!
//! ```text
//! begin_batch(info)  record* end_batch  begin_batch(info)  record* end_batch ...
//! ```
//! A batch that does not fit into one drain is begun again in the next one.

use thalweg_records::{RecordRef, TimestampType};

use crate::topic_partition::TopicPartition;

/// Whether a sink has taken what it was offered. A refused record stays in the buffer, with the
/// position in front of it, and ends the drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    Taken,
    Refused,
}

/// What the records that follow have in common.
#[derive(Clone, Copy, Debug)]
pub struct BatchInfo<'a> {
    pub partition: &'a TopicPartition,
    /// Leader epoch under which the batch was written, -1 if the broker does not tell.
    pub leader_epoch: i32,
    pub timestamp_type: TimestampType,
    /// At most this many records follow in this run.
    pub records_max: usize,
    /// At most this many bytes of keys, values and headers follow in this run.
    pub bytes_max: usize,
}

pub trait RecordSink {
    /// A run of records of one batch begins; room may be made for it. `Refused` ends the drain.
    fn begin_batch(&mut self, batch: &BatchInfo<'_>) -> Offer;

    /// The next record of the run. Its slices end with this call.
    fn record(&mut self, record: &RecordRef<'_>) -> Offer;

    /// The run is over: what is the same for all its records may be filled in at once.
    fn end_batch(&mut self) {}
}
