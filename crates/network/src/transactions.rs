//! A producer's calls on transactions. They start on the actor, and the thread or task that waits
//! for them polls them.
//!
//! A call that times out continues in the background. The same call made again joins that operation
//! and returns its outcome: see `thalweg_producer`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use thalweg_producer::{GroupMetadata, GroupOffsets, ProducerError, Sender, TransactionTicket};

use crate::client::Ticket;
use crate::error::ClientError;
use crate::producer::ProducerClient;

/// How long the actor may take to accept a call, whatever the caller's own deadline.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// A call on a transaction that was started.
#[derive(Debug)]
pub struct TransactionCall {
    /// The text of the timeout error: what continues, and how to get its outcome.
    late: &'static str,
    step: Step,
    /// For `begin_transaction`: whether the sender has begun the transaction.
    is_begun: Arc<AtomicBool>,
}

#[derive(Debug)]
enum Step {
    /// The sender, on the actor's thread, must accept or refuse the call before this deadline.
    Asked(Ticket<Result<TransactionTicket, ProducerError>>, Instant),
    /// The sender has accepted it.
    Taken(TransactionTicket),
}

impl TransactionCall {
    /// Returns the outcome if there is one. Otherwise `waker` is woken when there is.
    pub fn poll(&mut self, waker: &Waker) -> Option<Result<(), ClientError>> {
        if let Step::Asked(asked, _) = &self.step {
            match asked.poll(waker)? {
                Ok(Ok(ticket)) => self.step = Step::Taken(ticket),
                Ok(Err(refused)) => return Some(Err(refused.into())),
                Err(error) => return Some(Err(error)),
            }
        }
        match &self.step {
            Step::Asked(..) => None,
            Step::Taken(ticket) => ticket.poll(waker).map(|outcome| Ok(outcome?)),
        }
    }

    /// Returns the time until which a caller with this deadline waits. It waits at least until the
    /// sender has accepted the call, or should have.
    pub fn deadline(&self, of_caller: Instant) -> Instant {
        match &self.step {
            Step::Asked(_, heard) => of_caller.max(*heard),
            Step::Taken(_) => of_caller,
        }
    }

    /// Returns the error for a caller whose deadline has passed.
    pub fn timed_out(&self) -> ClientError {
        ClientError::TimedOut(self.late.to_owned())
    }
}

impl ProducerClient {
    pub fn init_transactions(&self) -> TransactionCall {
        let late = "init_transactions did not finish within max_block_ms, and continues in the \
                    background: call it again to wait for its result";
        self.ask_sender(late, Sender::init_transactions)
    }

    /// Begins a transaction. It does not wait for a broker.
    pub fn begin_transaction(&self) -> TransactionCall {
        let late = "begin_transaction did not start: the client's I/O thread did not respond";
        let is_begun = Arc::new(AtomicBool::new(false));
        let begun = Arc::clone(&is_begun);
        let call = self.ask_sender(late, move |sender| {
            sender.begin_transaction()?;
            begun.store(true, Ordering::Relaxed);
            Ok(TransactionTicket::done(Ok(())))
        });
        TransactionCall { is_begun, ..call }
    }

    /// Gives up a call whose outcome nobody will ask for. A begin is undone: otherwise no caller
    /// would own its transaction, and records of other threads would join it.
    pub fn give_up(&self, call: &TransactionCall) {
        let is_begun = Arc::clone(&call.is_begun);
        if self.view().check().is_ok() {
            // Queued after the begin itself.
            drop(self.client.call(move |sender, cluster, now| {
                if is_begun.load(Ordering::Relaxed) {
                    sender.take_back_begin(cluster, now);
                }
            }));
        }
    }

    pub fn send_offsets_to_transaction(
        &self,
        group: GroupMetadata,
        offsets: GroupOffsets,
    ) -> TransactionCall {
        let late = "send_offsets_to_transaction did not finish within max_block_ms, and continues \
                    in the background: commit_transaction waits for it";
        self.ask_sender(late, |sender| {
            sender.send_offsets_to_transaction(group, offsets)
        })
    }

    /// Waits for everything that was sent in the transaction, and for the coordinator's answer.
    pub fn commit_transaction(&self) -> TransactionCall {
        let late = "commit_transaction did not finish within max_block_ms, and continues in the \
                    background: call it again to wait for its result";
        self.ask_sender(late, Sender::commit_transaction)
    }

    /// Drops what was not sent yet. Waits for what was sent, and for the coordinator's answer.
    pub fn abort_transaction(&self) -> TransactionCall {
        let late = "abort_transaction did not finish within max_block_ms, and continues in the \
                    background: call it again to wait for its result";
        self.ask_sender(late, Sender::abort_transaction)
    }

    fn ask_sender(
        &self,
        late: &'static str,
        call: impl FnOnce(&mut Sender) -> Result<TransactionTicket, ProducerError> + Send + 'static,
    ) -> TransactionCall {
        let asked = match self.view().check() {
            Ok(()) => self.client.call(|sender, _, _| call(sender)),
            Err(error) => Ticket::done(Err(error)),
        };
        let heard = crate::clock::now() + START_TIMEOUT;
        let step = Step::Asked(asked, heard);
        TransactionCall {
            late,
            step,
            is_begun: Arc::default(),
        }
    }
}
