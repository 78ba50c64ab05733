//! A producer's calls on transactions: started on the actor, waited for in the caller's thread.
//!
//! A call that runs out of time goes on in the background. Made again, it takes up the same
//! operation and tells its outcome: see `thalweg_producer`.

use std::time::{Duration, Instant};

use thalweg_producer::{GroupMetadata, GroupOffsets, ProducerError, Sender, TransactionTicket};

use crate::error::ClientError;
use crate::producer::ProducerClient;
use crate::wait::{Blocked, block_until};

/// How long the actor may take to hear of a call, whatever the caller's own deadline.
const START_TIMEOUT: Duration = Duration::from_secs(5);

type Interrupted<'a> = &'a mut dyn FnMut() -> bool;

fn call_again(name: &str) -> String {
    format!(
        "{name} did not end within max_block_ms and goes on; call it again to learn its outcome"
    )
}

impl ProducerClient {
    pub fn init_transactions(
        &self,
        deadline: Instant,
        interrupted: Interrupted<'_>,
    ) -> Result<(), ClientError> {
        let late = call_again("init_transactions");
        self.complete(&late, Sender::init_transactions, deadline, interrupted)
    }

    /// Does not wait for any broker.
    pub fn begin_transaction(&self, interrupted: Interrupted<'_>) -> Result<(), ClientError> {
        self.ask_sender(Sender::begin_transaction, interrupted)
    }

    pub fn send_offsets_to_transaction(
        &self,
        group: GroupMetadata,
        offsets: GroupOffsets,
        deadline: Instant,
        interrupted: Interrupted<'_>,
    ) -> Result<(), ClientError> {
        let call = |sender: &mut Sender| sender.send_offsets_to_transaction(group, offsets);
        let late = "send_offsets_to_transaction did not end within max_block_ms and goes on; \
                    commit_transaction waits for it";
        self.complete(late, call, deadline, interrupted)
    }

    /// Waits for everything that was sent in the transaction, and for the coordinator's word.
    pub fn commit_transaction(
        &self,
        deadline: Instant,
        interrupted: Interrupted<'_>,
    ) -> Result<(), ClientError> {
        let late = call_again("commit_transaction");
        self.complete(&late, Sender::commit_transaction, deadline, interrupted)
    }

    /// Drops what was not sent yet, and waits for the rest and for the coordinator's word.
    pub fn abort_transaction(
        &self,
        deadline: Instant,
        interrupted: Interrupted<'_>,
    ) -> Result<(), ClientError> {
        let late = call_again("abort_transaction");
        self.complete(&late, Sender::abort_transaction, deadline, interrupted)
    }

    fn ask_sender<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Sender) -> Result<T, ProducerError> + Send + 'static,
        interrupted: Interrupted<'_>,
    ) -> Result<T, ClientError> {
        self.view().check()?;
        let ticket = self.client.call(|sender, _, _| call(sender));
        let heard = Instant::now() + START_TIMEOUT;
        Ok(ticket.wait(Some(heard), interrupted)??)
    }

    fn complete(
        &self,
        late: &str,
        call: impl FnOnce(&mut Sender) -> Result<TransactionTicket, ProducerError> + Send + 'static,
        deadline: Instant,
        interrupted: Interrupted<'_>,
    ) -> Result<(), ClientError> {
        let ticket = self.ask_sender(call, interrupted)?;
        let outcome = block_until(Some(deadline), interrupted, |waker| ticket.poll(waker));
        match outcome {
            Ok(outcome) => Ok(outcome?),
            Err(Blocked::Interrupted) => Err(ClientError::Interrupted),
            Err(Blocked::TimedOut) => Err(ClientError::TimedOut(late.to_owned())),
        }
    }
}
