//! Whole columns at once: partitioned, encoded and queued with one short lock a run of records.
//!
//! ```text
//!   RecordSource ── window of rows, grouped by partition ──▶ open batches
//!        step() ──▶ Done | BufferExhausted(wait) | UnknownPartition | Closed
//!                        └─ step_reserved(memory)     └─ step() again, or refuse_row
//! ```
//! Rows of one partition keep their order. Which row went where is kept as ranges, a few words for
//! thousands of rows.
//!
//! Deliberately not here: waiting, and any knowledge of how columns are laid out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crate::accumulator::{Accumulator, AppendRefusal};
use crate::batch_completion::BatchCompletion;
use crate::buffer_pool::BufferWait;
use crate::chunk::Reservation;
use crate::error::ProducerError;
use crate::record::Record;
use crate::topic::TopicEntry;

/// Rows that are grouped by partition together: enough for runs, few enough that no partition
/// fills the buffer alone.
const WINDOW_ROWS: usize = 16 * 1024;

/// Records in rows.
pub trait RecordSource {
    fn rows(&self) -> usize;

    /// The record of a row below [`Self::rows`]. Rows may be asked for more than once.
    fn record(&mut self, row: usize) -> Record<'_>;

    /// No row has a key or a partition of its own, so that they need not be looked at for it.
    fn is_keyless(&self) -> bool {
        false
    }
}

/// Where a step ended.
#[derive(Debug)]
pub enum BulkStep {
    /// Every row is in a batch or refused.
    Done,
    /// Wait for the memory, then `step_reserved`; or give up with `refuse_rest`.
    BufferExhausted(BufferWait),
    /// This row asks for a partition that the topic does not have (yet): wait for metadata, then
    /// `step`; or go on without it by `refuse_row`.
    UnknownPartition {
        row: usize,
        partition: Option<i32>,
        partitions: u32,
    },
    /// The producer is closed: `refuse_rest`.
    Closed(ProducerError),
}

/// Rows that follow one another in the order of appending and lie together in one batch.
#[derive(Debug, Clone)]
struct Run {
    first_position: u32,
    rows: u32,
    completion: Arc<BatchCompletion>,
    first_index: u32,
}

/// Where each row went.
#[derive(Debug, Default)]
pub struct AppendedRows {
    /// Row by position, where rows were not appended in their own order.
    order: Option<Vec<u32>>,
    runs: Vec<Run>,
    refused: Vec<(usize, ProducerError)>,
}

impl AppendedRows {
    /// Each appended row with its batch and its place there, in the order of appending.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Arc<BatchCompletion>, u32)> {
        self.runs.iter().flat_map(move |run| {
            (0..run.rows).map(move |at| {
                let position = (run.first_position + at) as usize;
                (self.row_at(position), &run.completion, run.first_index + at)
            })
        })
    }

    /// The batches, each at least once.
    pub fn completions(&self) -> impl DoubleEndedIterator<Item = &Arc<BatchCompletion>> {
        self.runs.iter().map(|run| &run.completion)
    }

    /// Rows that are in no batch.
    pub fn refused(&self) -> &[(usize, ProducerError)] {
        &self.refused
    }

    fn row_at(&self, position: usize) -> usize {
        self.order
            .as_ref()
            .map_or(position, |order| order[position] as usize)
    }

    /// A record was appended: part of the last run if it lies right behind it.
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

/// What the rows that are appended together have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    /// Whatever partition is sticky at the moment.
    Sticky,
    Partition(i32),
    /// Each row on its own: round robin, or the topic is not known yet.
    Single,
}

/// An append of many rows that is under way.
#[derive(Debug)]
pub struct BulkAppend<S> {
    source: S,
    topic: Arc<TopicEntry>,
    rows: AppendedRows,
    /// The next position to append.
    at: usize,
    /// The groups of the window at hand: the position behind each, and its partition.
    groups: VecDeque<(usize, Group)>,
}

impl<S: RecordSource> BulkAppend<S> {
    /// `source` must have fewer than 2^32 rows.
    pub fn new(topic: Arc<TopicEntry>, source: S) -> Self {
        assert!(
            u32::try_from(source.rows()).is_ok(),
            "columns have less than 2^32 rows"
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
        }
    }

    /// Appends until all is done or something is to be waited for.
    pub fn step(&mut self, accumulator: &Accumulator, now: impl Fn() -> Instant) -> BulkStep {
        self.run(accumulator, None, now)
    }

    /// Goes on with the memory that a `BufferWait` brought.
    pub fn step_reserved(
        &mut self,
        accumulator: &Accumulator,
        reservation: Reservation,
        now: impl Fn() -> Instant,
    ) -> BulkStep {
        self.run(accumulator, Some(reservation), now)
    }

    /// Goes on without the row at which the last step ended.
    pub fn refuse_row(&mut self, error: ProducerError) {
        self.rows.refused.push((self.rows.row_at(self.at), error));
        self.at += 1;
    }

    /// Gives up: every row that is in no batch yet has this error.
    pub fn refuse_rest(&mut self, error: &ProducerError) {
        let positions = self.at..self.source.rows();
        // Behind the groups made so far each position is its own row.
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

    /// Where the rows went, when all is done.
    pub fn finish(self) -> AppendedRows {
        debug_assert_eq!(self.at, self.source.rows(), "every row has an outcome");
        self.rows
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
                    self.follow(accumulator, &appended.completion, group, end);
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
                    unreachable!("asked for by nobody here")
                }
            }
        }
        BulkStep::Done
    }

    /// The group that the current position is in, and where it ends.
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
            .expect("a window holds at least the current row")
    }

    /// Appends the rows of a group that follow into the same batch, as long as it takes them.
    fn follow(
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
            ..
        } = self;
        let Some(mut follower) = accumulator.follow(topic, completion, group) else {
            return;
        };
        while *at < end {
            let record = source.record(rows.row_at(*at));
            let Some(index) = follower.try_append(&record) else {
                return;
            };
            rows.push(*at, completion, index);
            *at += 1;
        }
    }

    /// Puts the next rows into an order in which those of one partition follow one another.
    fn group_window(&mut self, accumulator: &Accumulator) {
        let end = (self.at + WINDOW_ROWS).min(self.source.rows());
        let mut keyed: Vec<(Group, u32)> = Vec::with_capacity(end - self.at);
        for row in self.at..end {
            let record = self.source.record(row);
            keyed.push((accumulator.group_of(&self.topic, &record), row as u32));
        }
        // By the row number within a group: a partition's rows keep their order.
        keyed.sort_unstable();
        let order = self.rows.order.get_or_insert_default();
        for group in keyed.chunk_by(|a, b| a.0 == b.0) {
            order.extend(group.iter().map(|&(_, row)| row));
            self.groups.push_back((order.len(), group[0].0));
        }
    }
}
