//! The frames that the actor passes to a connection's task.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use thalweg_cluster::Frame;

/// A queue of frames that the actor fills and the connection's task empties. Both are on the I/O
/// thread, so no thread ever waits for the lock. The cluster's limit on requests in flight bounds
/// it.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    frames: Vec<Frame>,
    reauthenticate: bool,
    closed: bool,
    waker: Option<Waker>,
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, frame: Frame) {
        let mut inner = self.lock();
        inner.frames.push(frame);
        if let Some(waker) = inner.waker.take() {
            drop(inner);
            waker.wake();
        }
    }

    /// Asks the task to authenticate again, after the frames that are queued.
    pub(crate) fn reauthenticate(&self) {
        let mut inner = self.lock();
        inner.reauthenticate = true;
        if let Some(waker) = inner.waker.take() {
            drop(inner);
            waker.wake();
        }
    }

    /// Closes the outbox. The task drops its socket at its next poll.
    pub(crate) fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        inner.frames.clear();
        if let Some(waker) = inner.waker.take() {
            drop(inner);
            waker.wake();
        }
    }

    /// Runs a future of the connection. Returns `None` if the outbox is closed before it ends.
    pub(crate) async fn until_closed<T>(&self, task: impl Future<Output = T>) -> Option<T> {
        let mut task = pin!(task);
        poll_fn(|cx| {
            {
                let mut inner = self.lock();
                if inner.closed {
                    return Poll::Ready(None);
                }
                inner.waker = Some(cx.waker().clone());
            }
            task.as_mut().poll(cx).map(Some)
        })
        .await
    }

    /// Moves the queued frames into `frames` and registers for more. Also sets `reauthenticate` if
    /// the task is to authenticate again after them. Returns false once closed.
    pub(super) fn take(
        &self,
        frames: &mut Vec<Frame>,
        reauthenticate: &mut bool,
        cx: &Context<'_>,
    ) -> bool {
        let mut inner = self.lock();
        frames.append(&mut inner.frames);
        *reauthenticate |= std::mem::take(&mut inner.reauthenticate);
        if !inner
            .waker
            .as_ref()
            .is_some_and(|known| known.will_wake(cx.waker()))
        {
            inner.waker = Some(cx.waker().clone());
        }
        !inner.closed
    }
}
