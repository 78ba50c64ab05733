//! Transactions (KIP-98, 360, 447, 588, 654, 890): Kafka's `TransactionManager`.
//!
//! ```text
//!   init ─▶ READY ─ begin ─▶ IN_TRANSACTION ─ commit, abort ─▶ nothing in flight ─▶ EndTxn ─▶ READY
//!                             │ AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit
//!                             └ a record or request fails ─▶ ABORTABLE_ERROR ─ abort ─▶ as above
//! ```
//! The sender owns the manager, and `now` is an argument. One request is in flight at a time. The
//! next one follows from the state alone (`next_step`), so there is no queue that could contradict
//! it.
//!
//! The level of the finalized feature `transaction.version` decides which protocol version the
//! producer uses. It is read when a transaction ends, so it does not change during a transaction.
//! Under version 1, a partition is added to the transaction before its first batch is sent. Under
//! version 2, brokers add it themselves, and each end of a transaction starts the next epoch (or a
//! new id).
//!
//! The producer never guesses the outcome of an `EndTxn` without a response. It repeats the same
//! request until the coordinator responds, however long the application waits.
//!
//! The sender handles the batches, and the cluster looks up coordinators.

mod offsets;
mod requests;
mod responses;
mod state;
mod ticket;
mod transitions;
mod verdict;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_cluster::{Backoff, RequestId};
use thalweg_protocol::Str;
use thalweg_protocol::versions::TransactionVersion;

pub use offsets::{GroupMetadata, GroupOffsets, OffsetToCommit};
pub use ticket::TransactionTicket;

use crate::accumulator::Accumulator;
use crate::config::ProducerConfig;
use crate::error::{ProducerError, TransactionFailure};
use crate::idempotence::ProducerIdAndEpoch;
use offsets::OffsetsCommit;
use requests::Asked;
use state::{Call, State};

/// Separates the jitter of this backoff from other uses of the seed.
const SEED_OF_BACKOFF: u64 = 0x7a11;

/// Whether a partition is in the transaction, under version 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Membership {
    Wanted,
    Requested,
    Added,
}

#[derive(Debug)]
struct Member {
    topic: Str,
    partition: i32,
    membership: Membership,
}

/// Whether the coordinator has an open transaction of this producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Started {
    No,
    /// A request that opens one was sent.
    Maybe,
    Yes,
}

/// A call whose outcome the application has not seen yet.
#[derive(Debug)]
struct PendingCall {
    call: Call,
    ticket: TransactionTicket,
}

#[derive(Debug)]
pub(crate) struct TransactionManager {
    id: Str,
    rights: responses::Rights,
    request_timeout: Duration,
    transaction_timeout: Duration,
    accumulator: Arc<Accumulator>,
    state: State,
    version: TransactionVersion,
    producer: Option<ProducerIdAndEpoch>,
    /// The error of the states `AbortableError` and `FatalError`.
    error: Option<ProducerError>,
    pending: Option<PendingCall>,
    /// By the index of the partition in the sender.
    members: BTreeMap<usize, Member>,
    offsets: VecDeque<OffsetsCommit>,
    started: Started,
    /// Set once an `EndTxn` was sent: nothing may join the transaction any more, even if it was
    /// lost.
    ending: bool,
    /// KIP-360: the sequences may have gaps, so the next transaction needs another epoch.
    bump: bool,
    in_flight: Option<(RequestId, Asked)>,
    changed: bool,
    failures: u32,
    not_before: Option<Instant>,
    /// When a closing producer stops waiting for the end of its transaction.
    give_up_at: Option<Instant>,
    /// The abort that the close of the producer began.
    abort_at_close: Option<TransactionTicket>,
    backoff: Backoff,
}

impl TransactionManager {
    pub(crate) fn new(id: &str, config: &ProducerConfig, accumulator: &Arc<Accumulator>) -> Self {
        let backoff = Backoff::new(
            config.retry_backoff,
            config.retry_backoff_max,
            config.seed ^ SEED_OF_BACKOFF,
        );
        let manager = Self {
            id: Str::from(id),
            rights: responses::Rights::new(config),
            request_timeout: config.request_timeout,
            transaction_timeout: config.transaction_timeout,
            accumulator: Arc::clone(accumulator),
            state: State::Uninitialized,
            version: TransactionVersion::V1,
            producer: None,
            error: None,
            pending: None,
            members: BTreeMap::new(),
            offsets: VecDeque::new(),
            started: Started::No,
            ending: false,
            bump: false,
            in_flight: None,
            changed: false,
            failures: 0,
            not_before: None,
            give_up_at: None,
            abort_at_close: None,
            backoff,
        };
        manager.set_gate();
        manager
    }
}

/// Calls of the application.
impl TransactionManager {
    pub(crate) fn init(&mut self) -> Result<TransactionTicket, ProducerError> {
        self.start(Call::Init, State::Initializing)
    }

    pub(crate) fn begin(&mut self) -> Result<(), ProducerError> {
        self.check(Call::Begin)?;
        self.become_state(State::InTransaction);
        Ok(())
    }

    pub(crate) fn prepare(&mut self) -> Result<TransactionTicket, ProducerError> {
        self.start(Call::Prepare, State::PreparingTransaction)
    }

    pub(crate) fn commit(&mut self) -> Result<TransactionTicket, ProducerError> {
        self.start(Call::Commit, State::CommittingTransaction)
    }

    pub(crate) fn abort(&mut self) -> Result<TransactionTicket, ProducerError> {
        if let Some(ticket) = &self.abort_at_close {
            return Ok(ticket.clone());
        }
        let resumed = self.is_resumed(Call::Abort);
        let ticket = self.start(Call::Abort, State::AbortingTransaction)?;
        if !resumed {
            self.drop_offsets(&ProducerError::IllegalState(
                "the transaction was aborted".into(),
            ));
        }
        Ok(ticket)
    }

    pub(crate) fn send_offsets(
        &mut self,
        group: GroupMetadata,
        offsets: GroupOffsets,
    ) -> Result<TransactionTicket, ProducerError> {
        self.check(Call::SendOffsets)?;
        if offsets.is_empty() {
            return Ok(TransactionTicket::done(Ok(())));
        }
        let ticket = TransactionTicket::default();
        self.offsets.push_back(OffsetsCommit {
            group,
            offsets,
            group_added: false,
            ticket: ticket.clone(),
        });
        Ok(ticket)
    }

    /// Starts an operation, or returns the ticket of the same call made before, if its caller did
    /// not see the outcome.
    fn start(&mut self, call: Call, next: State) -> Result<TransactionTicket, ProducerError> {
        if self.is_resumed(call)
            && let Some(pending) = &self.pending
        {
            return Ok(pending.ticket.clone());
        }
        self.check(call)?;
        let ticket = TransactionTicket::default();
        self.pending = Some(PendingCall {
            call,
            ticket: ticket.clone(),
        });
        (self.failures, self.not_before) = (0, None);
        self.become_state(next);
        Ok(ticket)
    }

    fn is_resumed(&self, call: Call) -> bool {
        self.pending
            .as_ref()
            .is_some_and(|pending| pending.call == call && !pending.ticket.was_seen())
    }

    /// Checks whether the state allows a call.
    fn check(&mut self, call: Call) -> Result<(), ProducerError> {
        if let Some(pending) = self.pending.take_if(|pending| !pending.ticket.was_seen()) {
            let text = format!(
                "{call}: {} was called before and did not finish in time. Call it again to wait \
                 for its result (state {})",
                pending.call, self.state
            );
            self.pending = Some(pending);
            return Err(ProducerError::IllegalState(text.into()));
        }
        self.pending = None;
        if self.state.row().calls.contains(&call) {
            return Ok(());
        }
        Err(self.refusal(call))
    }

    /// Returns the error for a call that the state does not allow.
    fn refusal(&self, call: Call) -> ProducerError {
        if let Some(error) = &self.error {
            return error.clone();
        }
        let hint = match (self.state, call) {
            (State::Uninitialized, _) => ". Call init_transactions first",
            (_, Call::Init) => ". Call init_transactions only once, before the first transaction",
            (State::Ready, _) => ". Call begin_transaction first",
            (State::InTransaction, Call::Begin) => ". First commit or abort the open transaction",
            _ => "",
        };
        let text = format!("{call}: the producer is in state {}{hint}", self.state);
        ProducerError::IllegalState(text.into())
    }
}

/// Functions for the sender.
impl TransactionManager {
    /// Returns the id and epoch for batches, once the coordinator has assigned them.
    pub(crate) fn producer(&self) -> Option<ProducerIdAndEpoch> {
        self.producer
    }

    pub(crate) fn version(&self) -> TransactionVersion {
        self.version
    }

    pub(crate) fn id(&self) -> &Str {
        &self.id
    }

    pub(crate) fn is_aborting(&self) -> bool {
        self.state == State::AbortingTransaction
    }

    /// Returns whether everything that was appended must be sent now.
    pub(crate) fn is_completing(&self) -> bool {
        self.state.is_completing()
    }

    /// Returns whether batches that were never sent belong to the transaction.
    pub(crate) fn takes_batches(&self) -> bool {
        match self.state {
            State::InTransaction | State::PreparingTransaction => true,
            State::CommittingTransaction => !self.ending,
            _ => false,
        }
    }

    /// Returns the error for a batch that was never sent, when the transaction accepts none.
    pub(crate) fn drops_with(&self, topic: &Str, partition: i32) -> ProducerError {
        if self.state == State::AbortingTransaction {
            let topic = topic.clone();
            return ProducerError::TransactionAborted { topic, partition };
        }
        self.refusal(Call::Send)
    }

    /// Notes that a partition has records, so that it must join the transaction.
    pub(crate) fn want(&mut self, index: usize, topic: &Str, partition: i32) {
        if self.version == TransactionVersion::V1 {
            self.members.entry(index).or_insert_with(|| Member {
                topic: topic.clone(),
                partition,
                membership: Membership::Wanted,
            });
        }
    }

    /// Returns whether the partition is in the transaction, or is to join it.
    pub(crate) fn has(&self, index: usize) -> bool {
        self.members.contains_key(&index)
    }

    /// Returns whether new batches of this partition may be sent.
    pub(crate) fn lets_out(&self, index: usize) -> bool {
        let open = matches!(
            self.state,
            State::InTransaction | State::PreparingTransaction | State::CommittingTransaction
        );
        let member = || self.members.get(&index).map(|member| member.membership);
        open && (self.version == TransactionVersion::V2 || member() == Some(Membership::Added))
    }

    /// Notes that a batch is being sent: the coordinator may know of the transaction from now on.
    pub(crate) fn batch_leaves(&mut self) {
        if self.version == TransactionVersion::V2 {
            self.started = Started::Yes;
        }
    }

    /// Notes that a record of the transaction is not in the log, or may not be.
    pub(crate) fn record_failed(&mut self, error: &ProducerError) {
        if self.is_settled() || self.ending {
            return;
        }
        let failure = TransactionFailure::of_record(error);
        if verdict::is_fatal_for_batch(failure.code) {
            self.fail(failure);
        } else {
            self.bump = true;
            self.make_abortable(failure);
        }
    }

    /// Notes that a record could not be appended, and that only its future reports it.
    pub(crate) fn record_refused(&mut self, reason: &str) {
        // A record that came too late for the transaction does not affect it.
        if self.state != State::InTransaction {
            return;
        }
        let during = "a record of the transaction was refused";
        self.make_abortable(TransactionFailure::local(during, reason));
    }

    /// Returns whether the partitions must be looked at: the state or epoch changed, or one was
    /// added.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Returns the fatal error, if there is one.
    pub(crate) fn fatal(&self) -> Option<&ProducerError> {
        self.error
            .as_ref()
            .filter(|_| self.state == State::FatalError)
    }

    /// Closes: aborts an open transaction, and lets an operation in progress continue.
    ///
    /// It waits at most `transaction_timeout`: after that the coordinator ends the transaction by
    /// itself.
    pub(crate) fn close(&mut self, now: Instant) {
        self.give_up_at
            .get_or_insert(now + self.transaction_timeout);
        if matches!(self.state, State::InTransaction | State::AbortableError) {
            self.drop_offsets(&ProducerError::Closed);
            self.abort_to_close();
        }
    }

    /// Returns whether this producer has no transaction to end. Another client may end a prepared
    /// one.
    pub(crate) fn is_settled(&self) -> bool {
        !matches!(
            self.state,
            State::InTransaction
                | State::PreparingTransaction
                | State::AbortableError
                | State::CommittingTransaction
                | State::AbortingTransaction
        )
    }

    /// Ends all waits with this error, because the client ends.
    pub(crate) fn give_up(&mut self, error: &ProducerError) {
        self.settle(Err(error.clone()));
        self.drop_offsets(error);
        self.in_flight = None;
    }

    pub(crate) fn is_mine(&self, id: RequestId) -> bool {
        self.in_flight.as_ref().is_some_and(|(mine, _)| *mine == id)
    }

    /// Returns when a retry is due, or when closing has taken too long.
    pub(crate) fn due(&self) -> Option<Instant> {
        let retry = self.not_before.filter(|_| self.in_flight.is_none());
        let limit = self.give_up_at.filter(|_| !self.is_settled());
        [retry, limit].into_iter().flatten().min()
    }
}
