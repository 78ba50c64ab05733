//! Appends whole columns: rows are grouped by partition, and each run of rows takes one short lock.
//!
//! ```text
//!   RecordSource ── window of rows, grouped by partition ──▶ open batches
//!        step() ──▶ Done | BufferExhausted(wait) | UnknownPartition | Closed
//!                        └─ step_reserved(memory)     └─ step() again, or refuse_row
//! ```
//! Rows of one partition keep their order. The place of each row is kept as ranges, so thousands of
//! rows need only a few words.
//!
//! This module never waits, and does not know how columns are laid out in memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crate::accumulator::{Accumulator, AppendRefusal};
use crate::batch::buffer_pool::BufferWait;
use crate::batch::chunk::Reservation;
use crate::batch::completion::BatchCompletion;
use crate::batch::record::Record;
use crate::error::ProducerError;
use crate::partitioning::topic::TopicEntry;

/// Number of rows that are grouped by partition together. Large enough for long runs, and small
/// enough that one partition does not fill the buffer alone.
const WINDOW_ROWS: usize = 16 * 1024;

/// Provides records by row number.
pub trait RecordSource {
    fn rows(&self) -> usize;

    /// Returns the record of a row below [`Self::rows`]. May be called more than once for a row.
    fn record(&mut self, row: usize) -> Record<'_>;

    /// Returns whether no row has a key or an explicit partition. If so, rows need no grouping.
    fn is_keyless(&self) -> bool {
        false
    }
}

/// Why a step ended.
#[derive(Debug)]
pub enum BulkStep {
    /// Every row is in a batch or refused.
    Done,
    /// Memory is missing. Wait for it, then call `step_reserved`, or give up with `refuse_rest`.
    BufferExhausted(BufferWait),
    /// The topic does not have this row's partition (yet). Wait for metadata, then call `step`, or
    /// skip the row with `refuse_row`.
    UnknownPartition {
        row: usize,
        partition: Option<i32>,
        partitions: u32,
    },
    /// The producer is closed. Call `refuse_rest`.
    Closed(ProducerError),
}

/// Rows that were appended one after the other and are consecutive in one batch.
#[derive(Debug, Clone)]
struct Run {
    first_position: u32,
    rows: u32,
    completion: Arc<BatchCompletion>,
    first_index: u32,
}

/// Where each row was appended.
#[derive(Debug, Default)]
pub struct AppendedRows {
    /// The row at each position in the order of appending. `None` if that is the order of the rows.
    order: Option<Vec<u32>>,
    runs: Vec<Run>,
    refused: Vec<(usize, ProducerError)>,
}

impl AppendedRows {
    /// Iterates over the appended rows in the order of appending, each with its batch and index
    /// there.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Arc<BatchCompletion>, u32)> {
        self.runs.iter().flat_map(move |run| {
            (0..run.rows).map(move |at| {
                let position = (run.first_position + at) as usize;
                (self.row_at(position), &run.completion, run.first_index + at)
            })
        })
    }

    /// Iterates over the batches. A batch may appear more than once.
    pub fn completions(&self) -> impl DoubleEndedIterator<Item = &Arc<BatchCompletion>> {
        self.runs.iter().map(|run| &run.completion)
    }

    /// Returns the rows that are in no batch, with their errors.
    pub fn refused(&self) -> &[(usize, ProducerError)] {
        &self.refused
    }

    fn row_at(&self, position: usize) -> usize {
        self.order
            .as_ref()
            .map_or(position, |order| order[position] as usize)
    }

    /// Notes an appended record. Extends the last run if the record directly follows it.
    fn push(&mut self, position: usize, completion: &Arc<BatchCompletion>, index: u32) {
        if let Some(last) = self.runs.last_mut()
            && Arc::ptr_eq(&last.completion, completion)
            && last.first_index + last.rows == index
            && (last.first_position + last.rows) as usize == position
        {
            last.rows += 1;
            return;
        }
        let first_position = position as u32;
        let completion = Arc::clone(completion);
        self.runs.push(Run {
            first_position,
            rows: 1,
            completion,
            first_index: index,
        });
    }
}

/// What rows have in common that are appended together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    /// Rows of the sticky partition, whichever that is at the moment.
    Sticky,
    Partition(i32),
    /// Each row by itself: the partitioner is round robin, or the topic is not known yet.
    Single,
}

/// An append of many rows in progress.
#[derive(Debug)]
pub struct BulkAppend<S> {
    source: S,
    topic: Arc<TopicEntry>,
    rows: AppendedRows,
    /// The next position to append.
    at: usize,
    /// The remaining groups of the current window: the end position of each, and the group.
    groups: VecDeque<(usize, Group)>,
    /// The topic's number of partitions when the rows of the current window were grouped.
    partition_count: u32,
}

impl<S: RecordSource> BulkAppend<S> {
    /// Creates the append. `source` must have fewer than 2^32 rows.
    pub fn new(topic: Arc<TopicEntry>, source: S) -> Self {
        assert!(
            u32::try_from(source.rows()).is_ok(),
            "the source has fewer than 2^32 rows"
        );
        let mut groups = VecDeque::new();
        if source.is_keyless() {
            groups.push_back((source.rows(), Group::Sticky));
        }
        Self {
            source,
            topic,
            rows: AppendedRows::default(),
            at: 0,
            groups,
            partition_count: 0,
        }
    }

    /// Appends rows until all are done or until the caller has to wait for something.
    pub fn step(&mut self, accumulator: &Accumulator, now: impl Fn() -> Instant) -> BulkStep {
        self.run(accumulator, None, now)
    }

    /// Continues with the memory that a `BufferWait` granted.
    pub fn step_reserved(
        &mut self,
        accumulator: &Accumulator,
        reservation: Reservation,
        now: impl Fn() -> Instant,
    ) -> BulkStep {
        self.run(accumulator, Some(reservation), now)
    }

    /// Refuses the row at which the last step ended, and skips it.
    pub fn refuse_row(&mut self, error: ProducerError) {
        self.rows.refused.push((self.rows.row_at(self.at), error));
        self.at += 1;
    }

    /// Gives up: refuses every row that is in no batch yet with this error.
    pub fn refuse_rest(&mut self, error: &ProducerError) {
        let positions = self.at..self.source.rows();
        // Positions after the groups made so far were not reordered: each is its own row number.
        let behind = self.rows.order.as_ref().map_or(usize::MAX, Vec::len);
        for position in positions {
            let row = if position < behind {
                self.rows.row_at(position)
            } else {
                position
            };
            self.rows.refused.push((row, error.clone()));
        }
        self.at = self.source.rows();
    }

    /// Returns where the rows were appended. Call this after the last step. The source stays with
    /// the append, so that the caller can choose where to drop it.
    pub fn finish(&mut self) -> AppendedRows {
        debug_assert_eq!(self.at, self.source.rows(), "every row has an outcome");
        std::mem::take(&mut self.rows)
    }

    fn run(
        &mut self,
        accumulator: &Accumulator,
        mut reservation: Option<Reservation>,
        now: impl Fn() -> Instant,
    ) -> BulkStep {
        while self.at < self.source.rows() {
            let (end, group) = self.group(accumulator);
            let row = self.rows.row_at(self.at);
            let record = self.source.record(row);
            let partition = record.partition;
            match accumulator.append_owned(&self.topic, &record, &now, reservation.take()) {
                Ok(appended) => {
                    self.rows
                        .push(self.at, &appended.completion, appended.index);
                    self.at += 1;
                    self.append_run(accumulator, &appended.completion, group, end);
                }
                Err(AppendRefusal::TooLarge {
                    size,
                    limit,
                    option,
                }) => {
                    self.refuse_row(ProducerError::RecordTooLarge {
                        size,
                        limit,
                        option,
                    });
                }
                Err(AppendRefusal::BufferExhausted(wait)) => {
                    return BulkStep::BufferExhausted(wait);
                }
                Err(AppendRefusal::UnknownPartition { partitions }) => {
                    return BulkStep::UnknownPartition {
                        row,
                        partition,
                        partitions,
                    };
                }
                Err(AppendRefusal::Closed(error)) => return BulkStep::Closed(error),
                Err(AppendRefusal::Contended | AppendRefusal::NewBatch) => {
                    unreachable!("only other appends ask for these refusals")
                }
            }
        }
        BulkStep::Done
    }

    /// Returns the group of the current position, and the position where the group ends.
    fn group(&mut self, accumulator: &Accumulator) -> (usize, Group) {
        while self.groups.front().is_some_and(|&(end, _)| end <= self.at) {
            self.groups.pop_front();
        }
        if self.groups.is_empty() {
            self.group_window(accumulator);
        }
        *self
            .groups
            .front()
            .expect("a window contains at least the current row")
    }

    /// Appends the following rows of the group to the same batch, for as long as it accepts them.
    fn append_run(
        &mut self,
        accumulator: &Accumulator,
        completion: &Arc<BatchCompletion>,
        group: Group,
        end: usize,
    ) {
        let Self {
            source,
            topic,
            rows,
            at,
            partition_count,
            ..
        } = self;
        // With another number of partitions, the rows of a group no longer belong together. Each
        // of them is then appended alone, and its key is hashed again.
        if matches!(group, Group::Partition(_)) && topic.partition_count() != *partition_count {
            return;
        }
        let Some(mut batch) = accumulator.lock_batch(topic, completion, group) else {
            return;
        };
        while *at < end {
            let record = source.record(rows.row_at(*at));
            let Some(index) = batch.try_append(&record) else {
                return;
            };
            rows.push(*at, completion, index);
            *at += 1;
        }
    }

    /// Reorders the next window of rows so that rows of the same partition are consecutive.
    fn group_window(&mut self, accumulator: &Accumulator) {
        let end = (self.at + WINDOW_ROWS).min(self.source.rows());
        self.partition_count = self.topic.partition_count();
        let mut keyed: Vec<(Group, u32)> = Vec::with_capacity(end - self.at);
        for row in self.at..end {
            let record = self.source.record(row);
            keyed.push((
                accumulator.group_of(self.partition_count, &record),
                row as u32,
            ));
        }
        // The row number breaks ties, so rows of one partition keep their order.
        keyed.sort_unstable();
        let order = self.rows.order.get_or_insert_default();
        for group in keyed.chunk_by(|a, b| a.0 == b.0) {
            order.extend(group.iter().map(|&(_, row)| row));
            self.groups.push_back((order.len(), group[0].0));
        }
    }
}
