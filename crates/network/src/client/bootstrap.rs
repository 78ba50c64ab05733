//! The wait for the first response of a cluster.

use std::task::Waker;
use std::time::{Duration, Instant};

use super::pending::no_brokers;
use super::ticket::Question;
use super::view::ClientView;
use crate::clock;
use crate::error::ClientError;
use crate::operation::{Operation, is_over};

/// Waits until a broker has named all brokers: see [`ClientView::bootstrap`].
pub struct Bootstrap {
    view: ClientView,
    deadline: Instant,
    /// What the client knows of each address. Asked once the time is over.
    causes: Option<Question<ClientError>>,
}

impl ClientView {
    /// Waits until a broker has named all brokers. The error `NoBrokersAvailable` lists the cause
    /// for each address.
    pub fn bootstrap(&self, timeout: Duration) -> Bootstrap {
        Bootstrap {
            view: self.clone(),
            deadline: clock::now() + timeout,
            causes: None,
        }
    }

    /// Returns `Some` when a broker has named all brokers, or when none ever will.
    fn poll_bootstrapped(&self, waker: &Waker) -> Option<Result<(), ClientError>> {
        let metadata = self.metadata();
        loop {
            let seen = metadata.changes();
            // After `changes()`, because a client that ends wakes its waiters only once.
            if let Err(error) = self.check() {
                return Some(Err(error));
            }
            if metadata.version() > 0 {
                return Some(Ok(()));
            }
            if let Some(error) = metadata.fatal_error() {
                return Some(Err(ClientError::Connection(error)));
            }
            if metadata.wait_for_change(seen, waker) {
                return None;
            }
        }
    }
}

impl Operation for Bootstrap {
    type Output = ();

    fn poll(&mut self, waker: &Waker) -> Option<Result<(), ClientError>> {
        if self.causes.is_none() {
            let outcome = self.view.poll_bootstrapped(waker);
            if outcome.is_some() || !is_over(self.deadline) {
                return outcome;
            }
        }
        let ask = || Question::new(self.view.with_cluster(|cluster, _| no_brokers(cluster)));
        let outcome = self.causes.get_or_insert_with(ask).poll(waker)?;
        let (Ok(error) | Err(error)) = outcome;
        Some(Err(error))
    }

    fn deadline(&self) -> Option<Instant> {
        match &self.causes {
            Some(causes) => causes.deadline(),
            None => Some(self.deadline),
        }
    }
}
