//! Reports the outcome of a batch, once, to everyone who asked for it.
//!
//! ```text
//!   append ──▶ (Arc<BatchCompletion>, index) ──▶ a future of the application
//!                        ▲
//!   response, expiry, close: finish(piece) ──▶ all pieces known: wake, call back
//! ```
//! A batch that was split (KIP-126) is finished piece by piece and is done with its last piece. A
//! dropped future costs nothing, as nothing here refers to it.
//!
//! An open batch lingers for more records. A thread or task that waits for one of its records calls
//! `hasten`, and the batch is sent without further linger.
//!
//! This module does not know what a callback is. It passes on a number that the listener
//! understands.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::task::{Poll, Waker};

use thalweg_protocol::{ErrorCode, Str};

use crate::accumulator::Accumulator;
use crate::error::ProducerError;
use crate::sync::lock;

/// The position of an acknowledged record in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledged {
    /// -1 if the broker did not report it (acks=0, or a duplicate of a batch that it no longer
    /// knows).
    pub offset: i64,
    /// The broker's append time, if the topic uses broker timestamps.
    pub log_append_time_ms: Option<i64>,
}

/// A requested callback: the record's index in the batch, and a token that the listener
/// understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Callback {
    pub index: u32,
    pub token: u64,
}

/// Receives completed batches that have callbacks. It is called on the I/O thread under a lock of
/// the completion, so it must only hand the callbacks over to another thread.
pub trait CompletionListener: Send + Sync {
    fn completed(&self, completion: &Arc<BatchCompletion>, callbacks: Vec<Callback>);

    /// Returns whether this process was forked from the one that created the producer. Nothing
    /// completes a batch in such a process.
    fn is_inherited(&self) -> bool {
        false
    }
}

/// The outcome of consecutive records of a batch. Unless the batch was split, one piece covers all.
#[derive(Debug, Clone)]
pub struct Piece {
    pub first_index: u32,
    pub records: u32,
    pub result: Result<Written, Failure>,
}

/// A batch that the broker acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// -1 if unknown.
    pub base_offset: i64,
    pub log_append_time_ms: Option<i64>,
}

/// A batch that failed. It may be in the log nevertheless if its error is `possibly_written`.
#[derive(Debug, Clone)]
pub struct Failure {
    pub error: ProducerError,
    /// KIP-467: the records that caused it, as indexes within the piece, with the broker's
    /// messages.
    pub invalid_records: Vec<(u32, Option<Str>)>,
}

impl From<ProducerError> for Failure {
    fn from(error: ProducerError) -> Self {
        Self {
            error,
            invalid_records: Vec::new(),
        }
    }
}

/// The outcome of a batch. The batch and all futures of its records share it.
pub struct BatchCompletion {
    topic: Str,
    partition: i32,
    /// The batch's number among the producer's incomplete batches.
    pub(crate) id: u64,
    /// Number of records. Set when the batch is closed, 0 before.
    records: AtomicU32,
    /// Set if the batch does not linger: a thread waits for it, or the producer's linger is 0.
    hastened: AtomicBool,
    /// Holds the batch until it is closed. Weak, as futures may outlive their producer.
    accumulator: Weak<Accumulator>,
    result: OnceLock<Box<[Piece]>>,
    unsettled: Mutex<Unsettled>,
    listener: Option<Arc<dyn CompletionListener>>,
}

/// The outcomes so far, and who gets the result.
#[derive(Debug, Default)]
struct Unsettled {
    finished: u32,
    pieces: Vec<Piece>,
    wakers: Vec<Waker>,
    callbacks: Vec<Callback>,
}

impl std::fmt::Debug for BatchCompletion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchCompletion")
            .field("topic", &self.topic)
            .field("partition", &self.partition)
            .field("result", &self.result.get())
            .finish_non_exhaustive()
    }
}

impl BatchCompletion {
    pub(crate) fn new(
        topic: Str,
        partition: i32,
        id: u64,
        lingers: Option<Weak<Accumulator>>,
        listener: Option<Arc<dyn CompletionListener>>,
    ) -> Self {
        Self {
            topic,
            partition,
            id,
            records: AtomicU32::new(0),
            hastened: AtomicBool::new(lingers.is_none()),
            accumulator: lingers.unwrap_or_default(),
            result: OnceLock::new(),
            unsettled: Mutex::default(),
            listener,
        }
    }

    pub fn topic(&self) -> &Str {
        &self.topic
    }

    pub fn partition(&self) -> i32 {
        self.partition
    }

    #[inline]
    pub fn is_done(&self) -> bool {
        self.result.get().is_some()
    }

    /// Returns whether the batch belongs to another process and will never be done in this one. Do
    /// not wait for it: that would never end, and threads of the other process may have held its
    /// locks.
    pub fn is_orphaned(&self) -> bool {
        !self.is_done() && self.listener.as_ref().is_some_and(|it| it.is_inherited())
    }

    /// Returns the outcomes of all records in ascending order, once the batch is done.
    pub fn pieces(&self) -> Option<&[Piece]> {
        self.result.get().map(|pieces| &**pieces)
    }

    /// Returns the outcome of one record, once the batch is done.
    pub fn outcome(&self, index: u32) -> Option<Result<Acknowledged, ProducerError>> {
        let pieces = self.result.get()?;
        let at = pieces.partition_point(|piece| piece.first_index + piece.records <= index);
        let piece = pieces
            .get(at)
            .expect("every record of a done batch is in one of its pieces");
        Some(self.outcome_in(piece, index - piece.first_index))
    }

    fn outcome_in(&self, piece: &Piece, index: u32) -> Result<Acknowledged, ProducerError> {
        let failure = match &piece.result {
            Ok(written) => {
                let known = written.base_offset >= 0;
                let offset = if known {
                    written.base_offset.saturating_add(index.into())
                } else {
                    -1
                };
                let log_append_time_ms = written.log_append_time_ms;
                return Ok(Acknowledged {
                    offset,
                    log_append_time_ms,
                });
            }
            Err(failure) => failure,
        };
        if failure.invalid_records.is_empty() {
            return Err(failure.error.clone());
        }
        let (topic, partition) = (self.topic.clone(), self.partition);
        let code = failure.error.code().unwrap_or(ErrorCode::INVALID_RECORD);
        let culprit = failure.invalid_records.iter().find(|(at, _)| *at == index);
        Err(match culprit {
            Some((_, message)) => {
                let message = message.clone().unwrap_or_else(|| Str::from(code.message()));
                ProducerError::InvalidRecord {
                    topic,
                    partition,
                    code,
                    index,
                    message,
                }
            }
            None => ProducerError::OtherRecordsInvalid {
                topic,
                partition,
                code,
            },
        })
    }

    /// Returns whether a call of `hasten` could send the batch earlier.
    #[inline]
    pub fn is_lingering(&self) -> bool {
        !self.is_hastened() && self.records.load(Ordering::Relaxed) == 0
    }

    /// Sends the batch without further linger, because a thread waits for one of its records.
    pub fn hasten(&self) {
        // Set before the sender is notified, so that the sender finds the batch ready. Later calls
        // return early: the first one has notified the sender.
        if !self.is_lingering() || self.hastened.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(accumulator) = self.accumulator.upgrade() {
            accumulator.look_at(&self.topic, self.partition);
        }
    }

    #[inline]
    pub(crate) fn is_hastened(&self) -> bool {
        self.hastened.load(Ordering::Relaxed)
    }

    /// Registers `waker` to be woken when the batch is done. Returns false if it is done already.
    pub fn register(&self, waker: &Waker) -> bool {
        let mut unsettled = lock(&self.unsettled);
        // Checked under the lock: `finish` takes the wakers under it, after the result is set.
        if self.is_done() {
            return false;
        }
        if !unsettled.wakers.iter().any(|known| known.will_wake(waker)) {
            unsettled.wakers.push(waker.clone());
        }
        true
    }

    pub fn poll_done(&self, waker: &Waker) -> Poll<()> {
        if self.is_done() || !self.register(waker) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Waits until the batch is done.
    pub async fn done(&self) {
        poll_fn(|context| self.poll_done(context.waker())).await;
    }

    /// Has the listener called with `token` when the batch is done. Returns false if the batch is
    /// done already: the listener is then never called with it.
    pub fn add_callback(&self, index: u32, token: u64) -> bool {
        let mut unsettled = lock(&self.unsettled);
        if self.is_done() {
            return false;
        }
        unsettled.callbacks.push(Callback { index, token });
        true
    }

    /// Sets the number of records, when the batch is closed.
    pub(crate) fn seal(&self, records: u32) {
        self.records.store(records, Ordering::Release);
    }

    /// Stores the outcome of some records. Returns true if no record is left without one.
    pub(crate) fn finish(self: &Arc<Self>, piece: Piece) -> bool {
        let records = self.records.load(Ordering::Acquire);
        let mut unsettled = lock(&self.unsettled);
        unsettled.finished += piece.records;
        assert!(
            unsettled.finished <= records,
            "every record has exactly one outcome"
        );
        unsettled.pieces.push(piece);
        if unsettled.finished < records {
            return false;
        }
        self.settle(unsettled);
        true
    }

    /// Fails all records that have no outcome yet, because nothing is left that could report
    /// theirs.
    pub(crate) fn fail_rest(self: &Arc<Self>, error: &ProducerError) {
        let mut unsettled = lock(&self.unsettled);
        if self.is_done() {
            return;
        }
        // A batch that was never closed does not know how many records it has.
        let records = match self.records.load(Ordering::Acquire) {
            0 => u32::MAX,
            records => records,
        };
        let mut pieces = std::mem::take(&mut unsettled.pieces);
        pieces.sort_by_key(|piece| piece.first_index);
        let ends = pieces.iter().map(|piece| piece.first_index + piece.records);
        let starts = pieces.iter().map(|piece| piece.first_index);
        let gaps: Vec<Piece> = std::iter::once(0)
            .chain(ends)
            .zip(starts.chain(std::iter::once(records)))
            .filter(|(from, to)| from < to)
            .map(|(from, to)| Piece {
                first_index: from,
                records: to - from,
                result: Err(error.clone().into()),
            })
            .collect();
        pieces.extend(gaps);
        unsettled.pieces = pieces;
        self.settle(unsettled);
    }

    /// Sets the result once all records have their outcome, and informs everyone who asked for it.
    fn settle(self: &Arc<Self>, mut unsettled: MutexGuard<'_, Unsettled>) {
        let mut pieces = std::mem::take(&mut unsettled.pieces);
        pieces.sort_by_key(|piece| piece.first_index);
        let first = self.result.set(pieces.into_boxed_slice()).is_ok();
        assert!(first, "a batch becomes done only once");
        let wakers = std::mem::take(&mut unsettled.wakers);
        let callbacks = std::mem::take(&mut unsettled.callbacks);
        // Still under the lock: when `add_callback` tells a thread that the batch is done, the
        // earlier callbacks must have been passed on already.
        if let Some(listener) = self.listener.as_ref().filter(|_| !callbacks.is_empty()) {
            listener.completed(self, callbacks);
        }
        drop(unsettled);
        for waker in wakers {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[derive(Default)]
    struct Heard(Mutex<Vec<(u32, u64)>>);
    impl CompletionListener for Heard {
        fn completed(&self, completion: &Arc<BatchCompletion>, callbacks: Vec<Callback>) {
            assert!(completion.is_done());
            lock(&self.0).extend(callbacks.iter().map(|c| (c.index, c.token)));
        }
    }

    fn completion(listener: Option<Arc<dyn CompletionListener>>) -> Arc<BatchCompletion> {
        let completion = Arc::new(BatchCompletion::new(Str::from("t"), 3, 0, None, listener));
        completion.seal(10);
        completion
    }

    fn written(first_index: u32, records: u32, base_offset: i64) -> Piece {
        let result = Ok(Written {
            base_offset,
            log_append_time_ms: None,
        });
        Piece {
            first_index,
            records,
            result,
        }
    }

    #[test]
    fn wakes_each_waiter_once_and_calls_back_once() {
        let heard = Arc::new(Heard::default());
        let completion = completion(Some(Arc::clone(&heard) as Arc<dyn CompletionListener>));
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        assert!(completion.register(&waker));
        assert!(completion.register(&waker));
        assert!(completion.add_callback(4, 77));
        assert!(completion.finish(written(0, 10, 100)));
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert_eq!(*lock(&heard.0), [(4, 77)]);
        assert!(!completion.register(&waker));
        assert!(!completion.add_callback(0, 1));
        let outcome = completion.outcome(9).expect("done").expect("written");
        assert_eq!(outcome.offset, 109);
    }

    #[test]
    fn a_split_batch_is_done_with_its_last_piece() {
        let completion = completion(None);
        assert!(!completion.finish(written(4, 6, 50)));
        assert!(completion.outcome(5).is_none());
        assert!(completion.finish(written(0, 4, 20)));
        let offsets: Vec<i64> = (0..10)
            .map(|at| {
                completion
                    .outcome(at)
                    .expect("done")
                    .expect("written")
                    .offset
            })
            .collect();
        assert_eq!(offsets, [20, 21, 22, 23, 50, 51, 52, 53, 54, 55]);
    }

    #[test]
    fn the_records_without_an_outcome_fail_together() {
        let error = ProducerError::Fatal("a bug".into());
        let batch = completion(None);
        assert!(!batch.finish(written(4, 2, 50)));
        batch.fail_rest(&error);
        let failed = |at| batch.outcome(at).expect("done").is_err();
        let found: Vec<bool> = (0..10).map(failed).collect();
        assert_eq!(
            found,
            [true, true, true, true, false, false, true, true, true, true]
        );
        batch.fail_rest(&ProducerError::Closed);
        assert_eq!(batch.outcome(0), Some(Err(error.clone())), "once");

        let open = Arc::new(BatchCompletion::new(Str::from("t"), 3, 0, None, None));
        open.fail_rest(&error);
        assert_eq!(open.outcome(7), Some(Err(error)));
    }

    #[test]
    fn errors_of_single_records_reach_them() {
        let completion = completion(None);
        let error = ProducerError::Broker {
            topic: Str::from("t"),
            partition: 3,
            code: ErrorCode::INVALID_RECORD,
            message: Str::from("bad"),
            possibly_written: false,
        };
        let invalid_records = vec![(2, Some(Str::from("no key")))];
        completion.finish(Piece {
            first_index: 0,
            records: 10,
            result: Err(Failure {
                error,
                invalid_records,
            }),
        });
        let outcome = |at| completion.outcome(at).expect("done").expect_err("failed");
        assert!(matches!(
            outcome(2),
            ProducerError::InvalidRecord { index: 2, .. }
        ));
        assert!(matches!(
            outcome(3),
            ProducerError::OtherRecordsInvalid { .. }
        ));
    }

    #[test]
    fn an_unknown_base_offset_gives_minus_one() {
        let completion = completion(None);
        completion.finish(written(0, 10, -1));
        assert_eq!(
            completion
                .outcome(7)
                .expect("done")
                .expect("written")
                .offset,
            -1
        );
    }
}
