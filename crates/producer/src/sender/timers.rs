//! Remembers when each partition must be looked at again.
//!
//! A partition has one time for each of two reasons. So the heap holds a few entries for each
//! partition with data, however many batches pass. An entry that is due too early costs one look,
//! which sets the next time. An entry that was replaced by an earlier one is skipped.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use crate::sender::partition::SenderPartition;

/// Why a partition must be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// Its linger or a backoff ends, which is soon.
    Due,
    /// Its oldest batch expires. This is far ahead, and moves further with each finished batch.
    Expiry,
}

pub(crate) const REASONS: usize = 2;

#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, Reason, usize)>>,
}

impl Timers {
    /// Has the partition looked at no later than `at`.
    pub(crate) fn set(
        &mut self,
        index: usize,
        state: &mut SenderPartition,
        reason: Reason,
        at: Instant,
    ) {
        let known = &mut state.timers[reason as usize];
        if known.is_none_or(|known| at < known) {
            *known = Some(at);
            self.heap.push(Reverse((at, reason, index)));
        }
    }

    /// Takes the next partition that is due.
    pub(crate) fn pop(
        &mut self,
        partitions: &mut [SenderPartition],
        now: Instant,
    ) -> Option<usize> {
        while let Some(&Reverse((at, reason, index))) = self.heap.peek() {
            if at > now {
                return None;
            }
            self.heap.pop();
            let known = &mut partitions[index].timers[reason as usize];
            if *known == Some(at) {
                *known = None;
                return Some(index);
            }
        }
        None
    }

    /// Returns the earliest time in the heap. There may be nothing to do then.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|&Reverse((at, ..))| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    use thalweg_protocol::Str;

    use crate::partitioning::topic::TopicEntry;

    /// The instant at which the tests' virtual time starts.
    #[expect(clippy::disallowed_methods, reason = "see above")]
    fn start() -> Instant {
        Instant::now()
    }

    #[test]
    fn a_partition_has_few_entries_however_many_batches_pass() {
        let topic = Arc::new(TopicEntry::new(Str::from("t"), 0, 0));
        let mut partitions = vec![SenderPartition::new(topic, 0)];
        let mut timers = Timers::default();
        let start = start();
        for ms in 0..10_000 {
            let now = start + Duration::from_millis(ms);
            while timers.pop(&mut partitions, now).is_some() {}
            timers.set(
                0,
                &mut partitions[0],
                Reason::Due,
                now + Duration::from_millis(5),
            );
            timers.set(
                0,
                &mut partitions[0],
                Reason::Expiry,
                now + Duration::from_secs(120),
            );
            assert!(timers.heap.len() <= 3, "{} entries", timers.heap.len());
        }
    }

    #[test]
    fn an_earlier_time_overtakes_a_later_one() {
        let topic = Arc::new(TopicEntry::new(Str::from("t"), 0, 0));
        let mut partitions = vec![SenderPartition::new(topic, 0)];
        let mut timers = Timers::default();
        let at = |ms| start() + Duration::from_millis(ms);
        let (early, late) = (at(10), at(1_000));
        timers.set(0, &mut partitions[0], Reason::Due, late);
        timers.set(0, &mut partitions[0], Reason::Due, early);
        assert_eq!(timers.next(), Some(early));
        assert_eq!(timers.pop(&mut partitions, early), Some(0));
        assert_eq!(timers.pop(&mut partitions, late), None, "it was looked at");
    }
}
