//! Partitions that are read only up to an offset, for a [`crate::RangeReader`].
//!
//! ```text
//!   position        end of what was fetched        until
//!  ----|----------------------|----------------------|-------- log
//!                             '-- the next fetch ----'  not fetched
//! ```
//! Nothing is fetched at or after `until`. A fetch asks for about as many bytes as the offsets
//! before it need: a small range of a long log must not fetch megabytes that no poll returns.

use crate::partitions::state::{FetchPosition, PartitionState, Phase};
use crate::partitions::table::Assigned;
use crate::topic_partition::TopicPartition;

/// The expected size of a record, until a fetch has shown it.
const RECORD_BYTES: i64 = 1024;
/// A fetch of fewer bytes costs as much time.
const FETCH_BYTES_MIN: i64 = 64 * 1024;

impl Assigned {
    /// Replaces the assignment. Each partition is read from its first to before its second offset.
    pub(crate) fn assign_ranges(&mut self, ranges: &[(TopicPartition, i64, i64)]) {
        let partitions: Vec<_> = ranges.iter().map(|(tp, ..)| tp.clone()).collect();
        self.assign(&partitions);
        for (partition, start, until) in ranges {
            let position = FetchPosition {
                offset: *start,
                leader_epoch: -1,
            };
            self.enter(partition, Phase::Fetching(position));
            if let Some(state) = self.edit(partition) {
                state.until = Some(*until);
            }
        }
    }

    /// Notes the size of a fetch, from which the size of the next one follows.
    pub(crate) fn note_size(&mut self, handle: u32, bytes: usize, offsets: i64) {
        if let Some((_, state)) = self.by_handle(handle) {
            state.note_size(bytes, offsets);
        }
    }
}

impl PartitionState {
    /// Whether records at this offset are wanted.
    pub(crate) fn is_before_end(&self, offset: i64) -> bool {
        self.until.is_none_or(|until| offset < until)
    }

    fn note_size(&mut self, bytes: usize, offsets: i64) {
        if self.until.is_some() && offsets > 0 {
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            self.bytes_per_offset = Some((bytes / offsets).max(1));
        }
    }

    /// Returns how many bytes a fetch from this offset may have, at most `limit`.
    pub(crate) fn fetch_bytes(&self, offset: i64, limit: i32) -> i32 {
        let Some(until) = self.until else {
            return limit;
        };
        let each = self.bytes_per_offset.unwrap_or(RECORD_BYTES);
        let left = until.saturating_sub(offset).saturating_mul(each);
        // The records that are left may be a little larger than those before.
        let wanted = left.saturating_add(left / 8).max(FETCH_BYTES_MIN);
        i32::try_from(wanted).unwrap_or(i32::MAX).min(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(until: Option<i64>) -> PartitionState {
        let mut state = PartitionState::new(1, 1, 1);
        state.until = until;
        state
    }

    #[test]
    fn a_partition_without_an_end_is_fetched_up_to_the_limit() {
        let mut state = state(None);
        state.note_size(100, 1);
        assert_eq!(state.fetch_bytes(0, 1_000), 1_000);
        assert!(state.is_before_end(i64::MAX));
    }

    #[test]
    fn a_fetch_asks_for_what_the_range_still_needs() {
        let mut state = state(Some(10_000));
        assert_eq!(state.fetch_bytes(0, 8 << 20), 8 << 20, "1 KiB for each");
        assert_eq!(state.fetch_bytes(9_000, 8 << 20), 1_152_000);
        state.note_size(200_000, 2_000);
        assert_eq!(state.fetch_bytes(2_000, 8 << 20), 900_000);
        assert_eq!(state.fetch_bytes(9_999, 8 << 20), 64 * 1024);
        assert_eq!(state.fetch_bytes(9_999, 1_000), 1_000, "at most the limit");
        assert!(state.is_before_end(9_999) && !state.is_before_end(10_000));
    }

    #[test]
    fn offsets_at_both_ends_of_the_type_do_not_overflow() {
        let mut state = state(Some(i64::MAX));
        state.note_size(usize::MAX, 1);
        assert_eq!(state.fetch_bytes(0, i32::MAX), i32::MAX);
        state.note_size(10, 0);
        assert_eq!(state.fetch_bytes(i64::MIN, 77), 77);
    }
}
