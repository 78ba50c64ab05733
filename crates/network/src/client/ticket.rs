//! The answer to a request from another thread. The caller waits for it, polls it, or has it wake a
//! waker.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use super::inbox::Ending;
use crate::error::ClientError;
use crate::wait::{Blocked, block_until};

type Outcome<T> = Result<T, ClientError>;

#[derive(Debug)]
struct Slot<T> {
    outcome: Option<Outcome<T>>,
    done: bool,
    wakers: Vec<Waker>,
}

/// The caller's end.
#[derive(Debug)]
pub struct Ticket<T> {
    slot: Arc<Mutex<Slot<T>>>,
}

/// The actor's end. If it is dropped without an answer, the caller gets the reason why the client
/// ended.
pub(crate) struct Reply<T: Send + 'static> {
    slot: Arc<Mutex<Slot<T>>>,
    ending: Ending,
}

impl<T: Send + 'static> std::fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reply").finish_non_exhaustive()
    }
}

pub(crate) fn ticket<T: Send + 'static>(ending: &Ending) -> (Reply<T>, Ticket<T>) {
    let slot = Arc::new(Mutex::new(Slot {
        outcome: None,
        done: false,
        wakers: Vec::new(),
    }));
    (
        Reply {
            slot: Arc::clone(&slot),
            ending: ending.clone(),
        },
        Ticket { slot },
    )
}

fn lock<T>(slot: &Mutex<Slot<T>>) -> MutexGuard<'_, Slot<T>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fill<T>(slot: &Mutex<Slot<T>>, outcome: Outcome<T>) {
    let mut inner = lock(slot);
    if inner.done {
        return;
    }
    inner.done = true;
    inner.outcome = Some(outcome);
    let wakers = std::mem::take(&mut inner.wakers);
    drop(inner);
    for waker in wakers {
        waker.wake();
    }
}

impl<T: Send + 'static> Reply<T> {
    pub(crate) fn send(self, outcome: Outcome<T>) {
        fill(&self.slot, outcome);
    }
}

impl<T: Send + 'static> Drop for Reply<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let slot = Arc::clone(&self.slot);
            let tell = move |error| fill(&slot, Err(error));
            return self.ending.tell_later(Box::new(tell));
        }
        fill(&self.slot, Err(self.ending.error()));
    }
}

/// For callers that are tasks. The outcome is returned once.
impl<T> Future for Ticket<T> {
    type Output = Outcome<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome<T>> {
        Self::poll(&self, cx.waker()).map_or(Poll::Pending, Poll::Ready)
    }
}

impl<T> Ticket<T> {
    /// Makes a ticket that is already done.
    pub(crate) fn done(outcome: Outcome<T>) -> Self {
        Self {
            slot: Arc::new(Mutex::new(Slot {
                outcome: Some(outcome),
                done: true,
                wakers: Vec::new(),
            })),
        }
    }

    pub fn is_done(&self) -> bool {
        lock(&self.slot).done
    }

    /// Looks at the outcome without taking it. `None` means that it has not come yet, or was taken.
    pub fn peek<R>(&self, look: impl FnOnce(Option<&Outcome<T>>) -> R) -> R {
        look(lock(&self.slot).outcome.as_ref())
    }

    /// Takes the outcome if it is there. Otherwise `waker` is woken when it is.
    pub fn poll(&self, waker: &Waker) -> Option<Outcome<T>> {
        let mut slot = lock(&self.slot);
        if !slot.done && !slot.wakers.iter().any(|known| known.will_wake(waker)) {
            slot.wakers.push(waker.clone());
        }
        slot.outcome.take()
    }

    /// Takes the outcome if it is there (and was not taken before).
    pub fn try_take(&self) -> Option<Outcome<T>> {
        lock(&self.slot).outcome.take()
    }

    /// Wakes `waker` once the ticket is done, or at once if it is already.
    pub fn on_done(&self, waker: Waker) {
        let mut slot = lock(&self.slot);
        if slot.done {
            drop(slot);
            waker.wake();
        } else {
            slot.wakers.push(waker);
        }
    }

    /// Blocks this thread until the ticket is done. `interrupted` is called when a signal arrives.
    pub fn wait(
        &self,
        deadline: Option<Instant>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Outcome<T> {
        match block_until(deadline, interrupted, |waker| self.poll(waker)) {
            Ok(outcome) => outcome,
            Err(Blocked::Interrupted) => Err(ClientError::Interrupted),
            Err(Blocked::TimedOut) => Err(ClientError::TimedOut("no answer in time".to_owned())),
        }
    }
}
