//! The reply to a request from another thread. The caller polls it, or has it wake a waker.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use thalweg_cluster::OneShot;

use super::inbox::Ending;
use crate::clock;
use crate::error::ClientError;
use crate::operation::{Operation, is_over};

/// How long a question to the actor itself may take.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);

type Outcome<T> = Result<T, ClientError>;

/// The caller's end.
#[derive(Debug)]
pub struct Ticket<T> {
    slot: Arc<OneShot<Outcome<T>>>,
}

/// The actor's end. If it is dropped without a reply, the caller gets the reason why the client
/// ended.
pub(crate) struct Reply<T: Send + 'static> {
    slot: Arc<OneShot<Outcome<T>>>,
    ending: Ending,
}

impl<T: Send + 'static> std::fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reply").finish_non_exhaustive()
    }
}

pub(crate) fn ticket<T: Send + 'static>(ending: &Ending) -> (Reply<T>, Ticket<T>) {
    let slot = Arc::new(OneShot::default());
    (
        Reply {
            slot: Arc::clone(&slot),
            ending: ending.clone(),
        },
        Ticket { slot },
    )
}

impl<T: Send + 'static> Reply<T> {
    pub(crate) fn send(self, outcome: Outcome<T>) {
        self.slot.set(outcome);
    }
}

impl<T: Send + 'static> Drop for Reply<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let slot = Arc::clone(&self.slot);
            let tell = move |error| slot.set(Err(error));
            return self.ending.tell_later(Box::new(tell));
        }
        self.slot.set(Err(self.ending.error()));
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
        let slot = OneShot::default();
        slot.set(outcome);
        let slot = Arc::new(slot);
        Self { slot }
    }

    pub fn is_done(&self) -> bool {
        self.slot.is_set()
    }

    /// Looks at the outcome without taking it. `None` means that it has not come yet, or was taken.
    pub fn peek<R>(&self, look: impl FnOnce(Option<&Outcome<T>>) -> R) -> R {
        self.slot.peek(look)
    }

    /// Takes the outcome if it is there. Otherwise `waker` is woken when it is.
    pub fn poll(&self, waker: &Waker) -> Option<Outcome<T>> {
        self.slot.take_or_wait(waker)
    }

    /// Takes the outcome if it is there (and was not taken before).
    pub fn try_take(&self) -> Option<Outcome<T>> {
        self.slot.take()
    }

    /// Wakes `waker` once the ticket is done, or at once if it is already.
    pub fn on_done(&self, waker: Waker) {
        self.slot.on_set(waker);
    }
}

/// Waits without a deadline: the request has its own timeout.
impl<T> Operation for Ticket<T> {
    type Output = T;

    fn poll(&mut self, waker: &Waker) -> Option<Outcome<T>> {
        Self::poll(self, waker)
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

/// A question to the actor itself, which responds at once if its thread is alive.
pub struct Question<T> {
    ticket: Ticket<T>,
    deadline: Instant,
}

impl<T> Question<T> {
    pub(super) fn new(ticket: Ticket<T>) -> Self {
        Self {
            ticket,
            deadline: clock::now() + ASK_TIMEOUT,
        }
    }
}

impl<T> Operation for Question<T> {
    type Output = T;

    fn poll(&mut self, waker: &Waker) -> Option<Outcome<T>> {
        let outcome = self.ticket.poll(waker);
        if outcome.is_none() && is_over(self.deadline) {
            let text = "the client's I/O thread did not respond in time".to_owned();
            return Some(Err(ClientError::TimedOut(text)));
        }
        outcome
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.deadline)
    }
}
