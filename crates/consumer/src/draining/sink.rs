//! The interface between the consumer and the code that builds objects or columns from records.
//!
//! The binding implements it to create `ConsumerRecord` objects (holding the GIL), and `columns`
//! to fill Arrow buffers (without the GIL). The calls are monomorphised: each record costs one
//! call and no allocation here.
//!
//! ```text
//! begin_batch(info)  record* end_batch  begin_batch(info)  record* end_batch ...
//! ```
//! A batch that does not fit into one drain begins again in the next one.

use thalweg_records::{RecordRef, TimestampType};

use crate::topic_partition::TopicPartition;

/// Whether a sink has taken a record. A refused record stays in the buffer, the position stays
/// before it, and the drain ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    Taken,
    Refused,
}

/// The properties that the following records share.
#[derive(Clone, Copy, Debug)]
pub struct BatchInfo<'a> {
    pub partition: &'a TopicPartition,
    /// Leader epoch in which the batch was written, -1 if the broker does not send it.
    pub leader_epoch: i32,
    pub timestamp_type: TimestampType,
    /// The maximum number of records that follow in this run.
    pub records_max: usize,
    /// The maximum bytes of keys, values and headers that follow in this run.
    pub bytes_max: usize,
}

/// If a sink panics, all records of its drain are passed to a sink again later.
pub trait RecordSink {
    /// Begins a run of records of one batch, so that the sink can reserve space. `Refused` ends
    /// the drain.
    fn begin_batch(&mut self, batch: &BatchInfo<'_>) -> Offer;

    /// Receives the next record of the run. Its slices are valid only during this call.
    fn record(&mut self, record: &RecordRef<'_>) -> Offer;

    /// Ends the run. The sink can now fill in values that all its records share.
    fn end_batch(&mut self) {}
}
