//! A producer's calls on transactions. They run on the actor, and the thread or task that waits for
//! them polls them.
//!
//! A call that times out continues in the background. The same call made again joins that operation
//! and returns its outcome: see `thalweg_producer`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use thalweg_producer::{
    Accumulator, GroupMetadata, GroupOffsets, ProducerError, ProducerIdAndEpoch, Sender, Timed,
    TransactionTicket,
};

use super::ProducerClient;
use crate::client::{Client, Ticket};
use crate::clock;
use crate::error::ClientError;
use crate::operation::{Operation, is_over};

/// How long the actor may take to accept a call, whatever the caller's own limit.
const START_TIMEOUT: Duration = Duration::from_secs(5);

type Accepted = Result<TransactionTicket, ProducerError>;
type Request = Box<dyn FnOnce(&mut Sender) -> Accepted + Send + Sync>;

/// A call on a transaction. Its first poll passes the request to the sender.
pub struct TransactionCall {
    client: Arc<Client<Sender>>,
    accumulator: Arc<Accumulator>,
    timed: Timed,
    /// The text of the timeout error: what continues, and how to get its outcome.
    late: &'static str,
    max_block: Duration,
    request: Option<Request>,
    begun: Option<Begun>,
    /// For `begin_transaction`: whether the sender has begun the transaction.
    is_begun: Arc<AtomicBool>,
}

struct Begun {
    at: Instant,
    step: Step,
}

enum Step {
    /// The sender, on the actor's thread, must accept or refuse the call within `START_TIMEOUT`.
    Asked(Ticket<Accepted>),
    /// The sender has accepted it.
    Taken(TransactionTicket),
}

impl TransactionCall {
    fn ask(&self, request: Request) -> Ticket<Accepted> {
        match self.client.view().check() {
            Ok(()) => self.client.call(move |sender, _, _| request(sender)),
            Err(error) => Ticket::done(Err(error)),
        }
    }

    fn poll_outcome(&mut self, waker: &Waker) -> Option<Result<(), ClientError>> {
        if let Some(request) = self.request.take() {
            let (at, step) = (clock::now(), Step::Asked(self.ask(request)));
            self.begun = Some(Begun { at, step });
        }
        let step = &mut self.begun.as_mut()?.step;
        if let Step::Asked(asked) = step {
            match asked.poll(waker)? {
                Ok(Ok(ticket)) => *step = Step::Taken(ticket),
                Ok(Err(refused)) => return Some(Err(refused.into())),
                Err(error) => return Some(Err(error)),
            }
        }
        match step {
            Step::Asked(_) => None,
            Step::Taken(ticket) => ticket.poll(waker).map(|outcome| Ok(outcome?)),
        }
    }
}

impl Operation for TransactionCall {
    type Output = ();

    fn poll(&mut self, waker: &Waker) -> Option<Result<(), ClientError>> {
        let outcome = match self.poll_outcome(waker) {
            Some(outcome) => outcome,
            None if self.deadline().is_some_and(is_over) => {
                self.give_up();
                Err(ClientError::TimedOut(self.late.to_owned()))
            }
            None => return None,
        };
        if let (Ok(()), Some(begun)) = (&outcome, &self.begun) {
            let took = clock::now().saturating_duration_since(begun.at);
            self.accumulator.metrics().took(self.timed, took);
        }
        Some(outcome)
    }

    /// Returns when the caller's time is over. It waits at least until the sender has accepted the
    /// call, or should have.
    fn deadline(&self) -> Option<Instant> {
        let begun = self.begun.as_ref()?;
        let wait = match begun.step {
            Step::Asked(_) => self.max_block.max(START_TIMEOUT),
            Step::Taken(_) => self.max_block,
        };
        Some(begun.at + wait)
    }

    /// Undoes a begin, because no caller would own its transaction, and records of other threads
    /// would join it.
    fn give_up(&mut self) {
        if self.begun.is_none() || self.client.view().check().is_err() {
            return;
        }
        let is_begun = Arc::clone(&self.is_begun);
        // Queued after the begin itself.
        drop(self.client.call(move |sender, cluster, now| {
            if is_begun.load(Ordering::Relaxed) {
                sender.take_back_begin(cluster, now);
            }
        }));
    }
}

/// The preparation of a transaction. Its output is what another client needs to end the
/// transaction. `None`: nothing was sent in it, so there is nothing to end.
pub struct PrepareCall(TransactionCall);

impl Operation for PrepareCall {
    type Output = Option<ProducerIdAndEpoch>;

    fn poll(&mut self, waker: &Waker) -> Option<Result<Self::Output, ClientError>> {
        let outcome = self.0.poll(waker)?;
        let prepared = match self.0.begun.as_ref().map(|begun| &begun.step) {
            Some(Step::Taken(ticket)) => ticket.prepared(),
            _ => None,
        };
        Some(outcome.map(|()| prepared))
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.deadline()
    }

    fn give_up(&mut self) {
        self.0.give_up();
    }
}

/// Each call waits at most `max_block`.
impl ProducerClient {
    pub fn init_transactions(&self, max_block: Duration) -> TransactionCall {
        let late = "init_transactions did not finish within max_block_ms, and continues in the \
                    background: call it again to wait for its result";
        self.transaction(Timed::TxnInit, late, max_block, Sender::init_transactions)
    }

    /// Begins a transaction. It does not wait for a broker.
    pub fn begin_transaction(&self, max_block: Duration) -> TransactionCall {
        let late = "begin_transaction did not start: the client's I/O thread did not respond";
        let is_begun = Arc::new(AtomicBool::new(false));
        let begun = Arc::clone(&is_begun);
        let call = self.transaction(Timed::TxnBegin, late, max_block, move |sender| {
            sender.begin_transaction()?;
            begun.store(true, Ordering::Relaxed);
            Ok(TransactionTicket::done(Ok(())))
        });
        TransactionCall { is_begun, ..call }
    }

    pub fn send_offsets_to_transaction(
        &self,
        group: GroupMetadata,
        offsets: GroupOffsets,
        max_block: Duration,
    ) -> TransactionCall {
        let late = "send_offsets_to_transaction did not finish within max_block_ms, and continues \
                    in the background: commit_transaction waits for it";
        self.transaction(Timed::TxnSendOffsets, late, max_block, |sender| {
            sender.send_offsets_to_transaction(group, offsets)
        })
    }

    /// Waits for everything that was sent in the transaction, and for the coordinator's response.
    pub fn commit_transaction(&self, max_block: Duration) -> TransactionCall {
        let late = "commit_transaction did not finish within max_block_ms, and continues in the \
                    background: call it again to wait for its result";
        self.transaction(
            Timed::TxnCommit,
            late,
            max_block,
            Sender::commit_transaction,
        )
    }

    /// Waits for everything that was sent in the transaction, and leaves it open.
    pub fn prepare_transaction(&self, max_block: Duration) -> PrepareCall {
        let late = "prepare_transaction did not finish within max_block_ms, and continues in the \
                    background: call it again to wait for its result";
        let request = Sender::prepare_transaction;
        PrepareCall(self.transaction(Timed::TxnPrepare, late, max_block, request))
    }

    /// Drops what was not sent yet. Waits for what was sent, and for the coordinator's response.
    pub fn abort_transaction(&self, max_block: Duration) -> TransactionCall {
        let late = "abort_transaction did not finish within max_block_ms, and continues in the \
                    background: call it again to wait for its result";
        self.transaction(Timed::TxnAbort, late, max_block, Sender::abort_transaction)
    }

    fn transaction(
        &self,
        timed: Timed,
        late: &'static str,
        max_block: Duration,
        request: impl FnOnce(&mut Sender) -> Accepted + Send + Sync + 'static,
    ) -> TransactionCall {
        TransactionCall {
            client: Arc::clone(&self.client),
            accumulator: Arc::clone(self.accumulator()),
            timed,
            late,
            max_block,
            request: Some(Box::new(request)),
            begun: None,
            is_begun: Arc::default(),
        }
    }
}
