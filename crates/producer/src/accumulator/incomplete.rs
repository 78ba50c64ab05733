//! All batches that are not done, for calls that wait for all of them: flush and close.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::batch::completion::BatchCompletion;
use crate::sync::lock;

/// Completions by number, in the order in which their batches were opened.
#[derive(Debug, Default)]
pub(crate) struct Incomplete {
    inner: Mutex<Inner>,
    flushes: AtomicUsize,
}

#[derive(Debug, Default)]
struct Inner {
    next_id: u64,
    batches: BTreeMap<u64, Arc<BatchCompletion>>,
}

impl Incomplete {
    /// Adds a new batch. `make` receives its number.
    pub(crate) fn add(&self, make: impl FnOnce(u64) -> BatchCompletion) -> Arc<BatchCompletion> {
        let mut inner = lock(&self.inner);
        let id = inner.next_id;
        inner.next_id += 1;
        let completion = Arc::new(make(id));
        inner.batches.insert(id, Arc::clone(&completion));
        completion
    }

    /// Removes a batch that is done. From then on only its futures keep the completion alive.
    pub(crate) fn remove(&self, completion: &BatchCompletion) {
        lock(&self.inner).batches.remove(&completion.id);
    }

    /// Takes all batches that are not done, for a caller that fails all of them.
    pub(crate) fn take_all(&self) -> Vec<Arc<BatchCompletion>> {
        let batches = std::mem::take(&mut lock(&self.inner).batches);
        batches.into_values().collect()
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.inner).batches.len()
    }

    pub(crate) fn is_flushing(&self) -> bool {
        self.flushes.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn flush(self: &Arc<Self>) -> FlushTicket {
        // Counted before the batches are listed, as the sender may check at any moment.
        self.flushes.fetch_add(1, Ordering::SeqCst);
        let waiting_for = lock(&self.inner).batches.values().cloned().collect();
        FlushTicket {
            waiting_for,
            incomplete: Arc::clone(self),
        }
    }
}

/// Completes when every record that was appended before the call of `flush` is done, written or
/// failed.
///
/// While the ticket exists, the sender does not let batches linger. Drop it when no thread waits
/// any more.
#[derive(Debug)]
pub struct FlushTicket {
    waiting_for: Vec<Arc<BatchCompletion>>,
    incomplete: Arc<Incomplete>,
}

impl FlushTicket {
    pub fn poll_done(&mut self, waker: &Waker) -> Poll<()> {
        // All batches must be done, so any order will do. Removing the last one is the cheapest.
        while let Some(last) = self.waiting_for.last() {
            if last.poll_done(waker).is_pending() {
                return Poll::Pending;
            }
            self.waiting_for.pop();
        }
        Poll::Ready(())
    }

    /// Returns the number of batches that are not done yet.
    pub fn remaining(&self) -> usize {
        self.waiting_for
            .iter()
            .filter(|completion| !completion.is_done())
            .count()
    }
}

impl Future for FlushTicket {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.poll_done(context.waker())
    }
}

impl Drop for FlushTicket {
    fn drop(&mut self) {
        self.incomplete.flushes.fetch_sub(1, Ordering::SeqCst);
    }
}
