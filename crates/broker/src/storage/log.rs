//! [`Log`]: one partition's batches, by offset and by time.

use std::collections::VecDeque;

use bytes::Bytes;
use thalweg_records::BatchHeader;

use super::batch::StoredBatch;
use super::epochs::EpochCache;
use super::segment::Segment;
use crate::options::TopicOptions;

#[derive(Debug)]
#[allow(clippy::struct_field_names)] // `log_start_offset` is Kafka's word
pub(crate) struct Log {
    /// Sorted by offset, and never empty. Appends go to the last one.
    segments: VecDeque<Segment>,
    log_start_offset: i64,
    next_offset: i64,
    size_bytes: u64,
    pub(crate) epochs: EpochCache,
}

/// How much a read may return.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadLimit {
    pub(crate) bytes_max: usize,
    /// Return the first batch whatever its size (KIP-74).
    pub(crate) at_least_one: bool,
    /// Return nothing from this offset on: the high watermark or the last stable offset.
    pub(crate) end_offset: i64,
}

impl ReadLimit {
    pub(crate) const NOTHING: Self = Self {
        bytes_max: 0,
        at_least_one: false,
        end_offset: i64::MAX,
    };
}

/// A run of batches in a log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogSlice<'a> {
    log: &'a Log,
    segment: usize,
    batch: usize,
    pub(crate) count: usize,
    pub(crate) bytes: usize,
}

impl Log {
    pub(crate) fn new() -> Self {
        Self {
            segments: VecDeque::from([Segment::new(0)]),
            log_start_offset: 0,
            next_offset: 0,
            size_bytes: 0,
            epochs: EpochCache::default(),
        }
    }

    pub(crate) fn start_offset(&self) -> i64 {
        self.log_start_offset
    }

    /// Returns the offset of the next record. It is also the high watermark, as nothing is
    /// replicated.
    pub(crate) fn end_offset(&self) -> i64 {
        self.next_offset
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn active(&mut self) -> &mut Segment {
        self.segments
            .back_mut()
            .expect("a log always has a segment")
    }

    /// Appends a checked batch from a frame of `frame_bytes`, and returns its base offset.
    pub(crate) fn append(
        &mut self,
        header: &BatchHeader,
        data: Bytes,
        frame_bytes: usize,
        leader_epoch: i32,
        options: &TopicOptions,
    ) -> i64 {
        let base_offset = self.next_offset;
        if self
            .active()
            .should_roll(data.len(), header.max_timestamp, options)
        {
            self.segments.push_back(Segment::new(base_offset));
        }
        let data = self.active().settle(data, frame_bytes);
        let batch = StoredBatch::new(header, data, base_offset, leader_epoch);
        self.next_offset = batch.last_offset() + 1;
        self.size_bytes += batch.len() as u64;
        self.active().push(batch);
        self.epochs.assign(leader_epoch, base_offset);
        base_offset
    }

    /// Returns batches from the one that contains `offset` on, within the limit.
    pub(crate) fn read(&self, offset: i64, limit: ReadLimit) -> LogSlice<'_> {
        let segment = self.segment_of(offset);
        let batch = self.segments[segment].position(offset);
        let mut slice = LogSlice {
            log: self,
            segment,
            batch,
            count: 0,
            bytes: 0,
        };
        let all = LogSlice {
            count: usize::MAX,
            ..slice
        };
        for batch in all.iter() {
            let fits = slice.bytes + batch.len() <= limit.bytes_max;
            let first = slice.count == 0 && limit.at_least_one;
            if batch.last_offset() >= limit.end_offset || !(fits || first) {
                break;
            }
            slice.count += 1;
            slice.bytes += batch.len();
        }
        slice
    }

    fn segment_of(&self, offset: i64) -> usize {
        self.segments
            .partition_point(|segment| segment.base_offset <= offset)
            .saturating_sub(1)
    }

    /// Returns the batches with a timestamp of at least `timestamp`, in order. Their records
    /// include the first one that is not older.
    pub(crate) fn batches_since(&self, timestamp: i64) -> impl Iterator<Item = &StoredBatch> {
        self.segments
            .iter()
            .filter(move |segment| segment.max_timestamp >= timestamp)
            .flat_map(move |segment| {
                let from = segment
                    .batches
                    .partition_point(|b| b.max_timestamp_so_far < timestamp);
                segment.batches[from..].iter()
            })
            .filter(move |batch| batch.max_timestamp >= timestamp)
    }

    /// Returns the highest timestamp in the log.
    pub(crate) fn max_timestamp(&self) -> i64 {
        self.segments
            .iter()
            .map(|segment| segment.max_timestamp)
            .max()
            .unwrap_or(-1)
    }

    /// Deletes what is before `offset` (`DeleteRecords`), and drops segments that are completely
    /// before it. Returns the number of freed bytes.
    pub(crate) fn delete_before(&mut self, offset: i64) -> u64 {
        self.log_start_offset = self.log_start_offset.max(offset.min(self.next_offset));
        self.epochs.truncate_from_start(self.log_start_offset);
        let mut freed = 0;
        while self.segments.len() > 1 && self.segments[1].base_offset <= self.log_start_offset {
            freed += self.drop_oldest();
        }
        if self.log_start_offset == self.next_offset && !self.segments[0].is_empty() {
            freed += self.drop_oldest();
        }
        freed
    }

    /// Drops the segments that `retention.ms` and `retention.bytes` no longer keep, even the active
    /// one, as Kafka's log manager does. Returns the number of freed bytes.
    pub(crate) fn retain(&mut self, options: &TopicOptions, now_ms: i64) -> u64 {
        if !options.cleanup_policy.delete {
            return 0;
        }
        let mut freed = 0;
        while !self.segments[0].is_empty() && self.oldest_is_over(options, now_ms) {
            freed += self.drop_oldest();
            self.log_start_offset = self.log_start_offset.max(self.segments[0].base_offset);
        }
        if freed > 0 {
            self.epochs.truncate_from_start(self.log_start_offset);
        }
        freed
    }

    fn oldest_is_over(&self, options: &TopicOptions, now_ms: i64) -> bool {
        let oldest = &self.segments[0];
        let expired = options.retention_ms >= 0
            && oldest.max_timestamp >= 0
            && now_ms - oldest.max_timestamp > options.retention_ms;
        let surplus = options.retention_bytes >= 0
            && self.size_bytes - oldest.size_bytes >= options.retention_bytes as u64;
        expired || surplus
    }

    /// Cuts off the batches that reach beyond `end_offset`, and returns them in wire form.
    pub(crate) fn truncate(&mut self, end_offset: i64) -> Vec<Bytes> {
        let is_cut = |batch: &StoredBatch| batch.last_offset() >= end_offset;
        let mut cut = Vec::new();
        for segment in &mut self.segments {
            let gone = segment.truncate(is_cut);
            self.size_bytes -= gone.iter().map(|batch| batch.len() as u64).sum::<u64>();
            cut.extend(gone);
        }
        if let Some(first) = cut.first() {
            self.next_offset = first.base_offset;
        }
        while self.segments.len() > 1 && self.active().is_empty() {
            self.segments.pop_back();
        }
        cut.iter().map(StoredBatch::to_bytes).collect()
    }

    /// Returns copies of all batches in wire form.
    pub(crate) fn batches(&self) -> impl Iterator<Item = Bytes> {
        let stored = self.segments.iter().flat_map(|segment| &segment.batches);
        stored.map(StoredBatch::to_bytes)
    }

    fn drop_oldest(&mut self) -> u64 {
        let Some(oldest) = self.segments.pop_front() else {
            return 0;
        };
        if self.segments.is_empty() {
            self.segments.push_back(Segment::new(self.next_offset));
        }
        self.size_bytes -= oldest.size_bytes;
        oldest.size_bytes
    }
}

impl<'a> LogSlice<'a> {
    pub(crate) fn iter(self) -> impl Iterator<Item = &'a StoredBatch> {
        // Not `skip` on all batches: a segment may hold millions of them.
        let first = &self.log.segments[self.segment].batches[self.batch..];
        let later = self.log.segments.range(self.segment + 1..);
        first
            .iter()
            .chain(later.flat_map(|segment| segment.batches.iter()))
            .take(self.count)
    }
}

#[cfg(test)]
mod tests {
    use thalweg_records::{BatchBuilder, Headers};

    use super::*;

    fn batch(timestamps: &[i64], value_bytes: usize) -> (BatchHeader, Bytes) {
        let mut builder = BatchBuilder::new(0);
        for timestamp in timestamps {
            builder.append(*timestamp, None, Some(&vec![7; value_bytes]), Headers::NONE);
        }
        let data = Bytes::from(builder.finish());
        (BatchHeader::parse(&data).unwrap(), data)
    }

    fn append(log: &mut Log, options: &TopicOptions, timestamps: &[i64], bytes: usize) -> i64 {
        let (header, data) = batch(timestamps, bytes);
        let frame = data.len();
        log.append(&header, data, frame, 3, options)
    }

    fn limit(bytes_max: usize, at_least_one: bool) -> ReadLimit {
        ReadLimit {
            bytes_max,
            at_least_one,
            end_offset: i64::MAX,
        }
    }

    #[test]
    fn a_read_begins_with_the_batch_that_holds_the_offset() {
        let mut log = Log::new();
        let options = TopicOptions::default();
        for first in [0, 3, 6] {
            assert_eq!(append(&mut log, &options, &[1, 2, 3], 10), first);
        }
        let offsets = |from| -> Vec<i64> {
            log.read(from, limit(1 << 20, true))
                .iter()
                .map(|b| b.base_offset)
                .collect()
        };
        assert_eq!(offsets(0), [0, 3, 6]);
        assert_eq!(offsets(4), [3, 6]);
        assert_eq!(offsets(8), [6]);
        assert!(offsets(9).is_empty());
    }

    #[test]
    fn offset_and_epoch_are_patched_and_the_checksum_still_holds() {
        let mut log = Log::new();
        let options = TopicOptions::default();
        append(&mut log, &options, &[1], 10);
        append(&mut log, &options, &[2, 3], 5000);
        let stored = log
            .read(1, limit(1 << 20, true))
            .iter()
            .next()
            .unwrap()
            .to_bytes();
        let raw = thalweg_records::batches(stored).next().unwrap().unwrap();
        assert_eq!(raw.header.base_offset, 1);
        assert_eq!(raw.header.partition_leader_epoch, 3);
        raw.validate_crc().unwrap();
    }

    #[test]
    fn the_first_batch_may_exceed_the_limit_and_the_end_is_kept() {
        let mut log = Log::new();
        let options = TopicOptions::default();
        append(&mut log, &options, &[1], 1000);
        append(&mut log, &options, &[1], 1000);
        assert_eq!(log.read(0, limit(10, true)).count, 1);
        assert_eq!(log.read(0, limit(10, false)).count, 0);
        assert_eq!(log.read(0, limit(usize::MAX, false)).count, 2);
        let stable = ReadLimit {
            end_offset: 1,
            ..limit(usize::MAX, true)
        };
        assert_eq!(log.read(0, stable).count, 1);
    }

    #[test]
    fn segments_roll_by_size_and_by_the_records_time() {
        let mut log = Log::new();
        let options = TopicOptions {
            segment_bytes: 3000,
            segment_ms: 100,
            ..Default::default()
        };
        for timestamp in [0, 10, 20, 200, 210] {
            append(&mut log, &options, &[timestamp], 1000);
        }
        let bases: Vec<i64> = log.segments.iter().map(|s| s.base_offset).collect();
        assert_eq!(bases, [0, 2, 3]);
        assert_eq!(log.read(0, limit(1 << 20, true)).count, 5);
    }

    #[test]
    fn retention_drops_old_and_surplus_segments_but_never_with_minus_one() {
        let mut options = TopicOptions {
            segment_bytes: 1000,
            retention_ms: 100,
            ..Default::default()
        };
        let mut log = Log::new();
        for timestamp in [0, 50, 200] {
            append(&mut log, &options, &[timestamp], 900);
        }
        assert!(log.retain(&options, 120) > 0);
        assert_eq!((log.start_offset(), log.end_offset()), (1, 3));
        options.retention_ms = -1;
        assert_eq!(log.retain(&options, i64::MAX), 0);
        options.retention_bytes = 900;
        log.retain(&options, 120);
        assert_eq!(log.start_offset(), 2);
        options.retention_ms = 0;
        log.retain(&options, 1000);
        assert_eq!(
            (log.start_offset(), log.end_offset(), log.size_bytes()),
            (3, 3, 0)
        );
        assert_eq!(append(&mut log, &options, &[5], 1), 3);
    }

    #[test]
    fn deleted_records_stay_until_their_segment_is_whole() {
        let mut log = Log::new();
        let options = TopicOptions {
            segment_bytes: 1000,
            ..Default::default()
        };
        for _ in 0..3 {
            append(&mut log, &options, &[1, 1], 400);
        }
        assert_eq!(log.delete_before(1), 0);
        assert_eq!(log.start_offset(), 1);
        assert!(log.delete_before(2) > 0);
        log.delete_before(99);
        assert_eq!((log.start_offset(), log.size_bytes()), (6, 0));
    }

    #[test]
    fn batches_are_found_by_time_though_times_go_back() {
        let mut log = Log::new();
        let options = TopicOptions::default();
        for timestamp in [10, 50, 20, 60] {
            append(&mut log, &options, &[timestamp], 1);
        }
        let since = |timestamp| -> Vec<i64> {
            log.batches_since(timestamp)
                .map(|b| b.base_offset)
                .collect()
        };
        assert_eq!(since(15), [1, 2, 3]);
        assert_eq!(since(55), [3]);
        assert!(since(61).is_empty());
        assert_eq!(log.max_timestamp(), 60);
    }
}
