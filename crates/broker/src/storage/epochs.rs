//! The offset at which each leader epoch began (KIP-101), like Kafka's `LeaderEpochFileCache`.

/// The epoch and end offset that mean "unknown".
pub(crate) const UNDEFINED: (i32, i64) = (-1, -1);

#[derive(Debug, Default)]
pub(crate) struct EpochCache {
    /// Sorted by epoch, and by start offset.
    entries: Vec<(i32, i64)>,
}

impl EpochCache {
    /// Starts `epoch` at `start_offset`. An epoch without records leaves no entry.
    pub(crate) fn assign(&mut self, epoch: i32, start_offset: i64) {
        if self.entries.last().is_some_and(|last| last.0 >= epoch) {
            return;
        }
        while self
            .entries
            .last()
            .is_some_and(|last| last.1 >= start_offset)
        {
            self.entries.pop();
        }
        self.entries.push((epoch, start_offset));
    }

    /// Drops the epochs of records before `offset`.
    pub(crate) fn truncate_from_start(&mut self, offset: i64) {
        let keep = self.entries.partition_point(|entry| entry.1 <= offset);
        if let Some(first) = keep.checked_sub(1) {
            self.entries.drain(..first);
            self.entries[0].1 = offset;
        }
    }

    /// Returns the highest epoch that is not above `requested`, with its end offset, as
    /// `LeaderEpochFileCache.endOffsetFor`.
    pub(crate) fn end_offset_for(&self, requested: i32, log_end_offset: i64) -> (i32, i64) {
        if requested < 0 {
            return UNDEFINED;
        }
        let higher = self.entries.partition_point(|entry| entry.0 <= requested);
        let floor = higher.checked_sub(1).map(|index| self.entries[index]);
        match (floor, self.entries.get(higher)) {
            (Some((epoch, _)), None) if epoch == requested => (requested, log_end_offset),
            (_, None) => UNDEFINED,
            (Some((epoch, _)), Some(next)) => (epoch, next.1),
            (None, Some(next)) => (requested, next.1),
        }
    }

    /// Returns the epoch in which the record at `offset` was written.
    pub(crate) fn epoch_of(&self, offset: i64) -> i32 {
        let after = self.entries.partition_point(|entry| entry.1 <= offset);
        after
            .checked_sub(1)
            .map_or(-1, |index| self.entries[index].0)
    }

    #[cfg(test)]
    pub(crate) fn latest(&self) -> Option<i32> {
        self.entries.last().map(|entry| entry.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_end_where_the_next_one_begins() {
        let mut cache = EpochCache::default();
        cache.assign(0, 0);
        cache.assign(2, 10);
        cache.assign(3, 20);
        assert_eq!(cache.end_offset_for(0, 30), (0, 10));
        assert_eq!(cache.end_offset_for(1, 30), (0, 10));
        assert_eq!(cache.end_offset_for(2, 30), (2, 20));
        assert_eq!(cache.end_offset_for(3, 30), (3, 30));
        assert_eq!(cache.end_offset_for(4, 30), UNDEFINED);
        assert_eq!(cache.end_offset_for(-1, 30), UNDEFINED);
        assert_eq!(
            (cache.epoch_of(9), cache.epoch_of(10), cache.epoch_of(99)),
            (0, 2, 3)
        );
    }

    #[test]
    fn an_epoch_without_records_gives_way() {
        let mut cache = EpochCache::default();
        cache.assign(0, 0);
        cache.assign(1, 5);
        cache.assign(2, 5);
        assert_eq!(cache.end_offset_for(1, 8), (0, 5));
        assert_eq!(cache.latest(), Some(2));
        cache.truncate_from_start(6);
        assert_eq!(cache.end_offset_for(0, 8), (0, 6));
        assert_eq!(cache.end_offset_for(2, 8), (2, 8));
    }
}
