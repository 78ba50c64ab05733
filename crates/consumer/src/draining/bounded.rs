//! A sink that takes only the records of a range.

use thalweg_records::RecordRef;

use super::sink::{BatchInfo, Offer, RecordSink};

/// Refuses records at `end` and after it.
pub(crate) struct Bounded<'a, S> {
    sink: &'a mut S,
    end: i64,
    reached: bool,
}

impl<'a, S> Bounded<'a, S> {
    pub(crate) fn new(sink: &'a mut S, end: i64) -> Self {
        Self {
            sink,
            end,
            reached: false,
        }
    }

    /// Whether a record was refused because it is not in the range.
    pub(crate) fn reached(&self) -> bool {
        self.reached
    }
}

impl<S: RecordSink> RecordSink for Bounded<'_, S> {
    fn begin_batch(&mut self, batch: &BatchInfo<'_>) -> Offer {
        self.sink.begin_batch(batch)
    }

    #[inline]
    fn record(&mut self, record: &RecordRef<'_>) -> Offer {
        if record.offset >= self.end {
            self.reached = true;
            return Offer::Refused;
        }
        self.sink.record(record)
    }

    fn end_batch(&mut self) {
        self.sink.end_batch();
    }
}
