//! The partitions of a topic by index. Lookups need neither a lock nor a hash.
//!
//! Cells are in segments that double in size, so no cell moves while other threads read. A
//! partition's entry is created with its first record: until then the partition costs only a cell
//! of a few bytes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::accumulator::partition_queue::PartitionQueue;

/// The size of the first segment, as a power of two.
const FIRST_BITS: u32 = 4;
/// Enough for all partition indexes below 2^31.
const SEGMENTS: usize = 28;

type Segment = Box<[OnceLock<Box<PartitionEntry>>]>;

/// A partition that records were appended to.
#[derive(Debug)]
pub(crate) struct PartitionEntry {
    pub(crate) queue: Mutex<PartitionQueue>,
    /// Number of batches to be sent or sent again: the load of KIP-794.
    depth: AtomicU32,
    /// The index in the sender's list of partitions. Only the sender uses it.
    sender_index: AtomicU32,
}

const NO_INDEX: u32 = u32::MAX;

impl Default for PartitionEntry {
    fn default() -> Self {
        Self {
            queue: Mutex::default(),
            depth: AtomicU32::new(0),
            sender_index: AtomicU32::new(NO_INDEX),
        }
    }
}

impl PartitionEntry {
    pub(crate) fn depth(&self) -> u32 {
        self.depth.load(Ordering::Relaxed)
    }

    pub(crate) fn set_depth(&self, depth: usize) {
        self.depth
            .store(u32::try_from(depth).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    pub(crate) fn sender_index(&self) -> Option<usize> {
        let index = self.sender_index.load(Ordering::Relaxed);
        (index != NO_INDEX).then_some(index as usize)
    }

    pub(crate) fn set_sender_index(&self, index: usize) {
        self.sender_index.store(index as u32, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub(crate) struct PartitionTable {
    segments: [OnceLock<Segment>; SEGMENTS],
}

impl Default for PartitionTable {
    fn default() -> Self {
        Self {
            segments: [const { OnceLock::new() }; SEGMENTS],
        }
    }
}

#[inline]
fn locate(index: u32) -> (usize, usize) {
    let shifted = u64::from(index) + (1 << FIRST_BITS);
    let bits = shifted.ilog2();
    (
        (bits - FIRST_BITS) as usize,
        (shifted - (1 << bits)) as usize,
    )
}

impl PartitionTable {
    /// Returns the partition, if it was used before.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&PartitionEntry> {
        let (segment, offset) = locate(index);
        self.segments[segment].get()?[offset]
            .get()
            .map(|entry| &**entry)
    }

    /// Returns the partition, and creates it if necessary.
    #[inline]
    pub(crate) fn get_or_create(&self, index: u32) -> &PartitionEntry {
        match self.get(index) {
            Some(entry) => entry,
            None => self.create(index),
        }
    }

    /// Returns the indexes of all partitions that were used, in ascending order.
    pub(crate) fn existing(&self) -> Vec<u32> {
        let mut found = Vec::new();
        for (number, segment) in self.segments.iter().enumerate() {
            let first = (1_u64 << (number as u32 + FIRST_BITS)) - (1 << FIRST_BITS);
            let cells = segment.get().map_or(&[][..], |cells| cells);
            let used = cells
                .iter()
                .enumerate()
                .filter(|(_, cell)| cell.get().is_some());
            found.extend(used.map(|(offset, _)| first as u32 + offset as u32));
        }
        found
    }

    #[cold]
    fn create(&self, index: u32) -> &PartitionEntry {
        let (segment, offset) = locate(index);
        let cells = 1_usize << (segment as u32 + FIRST_BITS);
        let segment =
            self.segments[segment].get_or_init(|| (0..cells).map(|_| OnceLock::new()).collect());
        segment[offset].get_or_init(Box::default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_has_a_cell_of_its_own() {
        let mut last = None;
        for index in 0..5000 {
            let at = locate(index);
            assert!(at.1 < 1 << (at.0 as u32 + FIRST_BITS));
            assert!(last < Some(at), "{index}");
            last = Some(at);
        }
        assert_eq!(locate(i32::MAX as u32).0, SEGMENTS - 1);
    }

    #[test]
    fn a_partition_stays_where_it_is() {
        let table = PartitionTable::default();
        assert!(table.get(40).is_none());
        table.get_or_create(40).set_sender_index(7);
        table.get_or_create(4000).set_sender_index(8);
        assert_eq!(
            table.get(40).and_then(PartitionEntry::sender_index),
            Some(7)
        );
        assert!(table.get(41).is_none());
        assert_eq!(table.existing(), [40, 4000]);
        assert_eq!(table.get_or_create(41).sender_index(), None);
    }
}
