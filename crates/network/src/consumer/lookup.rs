//! Looks up offsets by time.

use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use thalweg_consumer::{ConsumerError, ListedOffset, OffsetSpec, Pending, TopicPartition};

use super::ConsumerClient;
use crate::client::ClientView;
use crate::clock;
use crate::error::ClientError;
use crate::operation::{Operation, is_over};

/// The core ends a lookup at its deadline with the last problem it met. The wait ends this much
/// later, so that this error arrives.
const GRACE: Duration = Duration::from_secs(5);

/// A lookup in progress: see [`ConsumerClient::list_offsets`].
pub struct OffsetLookup {
    pending: Pending<Vec<ListedOffset>>,
    view: ClientView,
    deadline: Instant,
}

impl ConsumerClient {
    /// Looks up offsets within `timeout`. `None` waits without a limit.
    pub fn list_offsets(
        &self,
        targets: Vec<(TopicPartition, OffsetSpec)>,
        timeout: Option<Duration>,
    ) -> OffsetLookup {
        let end = timeout.map_or_else(clock::far_away, |timeout| clock::now() + timeout);
        OffsetLookup {
            pending: self.consumer().list_offsets(targets, end),
            view: self.view().clone(),
            deadline: end + GRACE,
        }
    }
}

impl Operation for OffsetLookup {
    type Output = Vec<ListedOffset>;

    fn poll(&mut self, waker: &Waker) -> Option<Result<Self::Output, ClientError>> {
        match self.pending.poll(waker) {
            Poll::Ready(Ok(found)) => Some(Ok(found)),
            Poll::Ready(Err(error)) => {
                // The consumer's core does not know why its client has ended.
                let failure = self.view.failure();
                let failure = failure.filter(|_| error == ConsumerError::Closed);
                Some(Err(failure.unwrap_or(ClientError::Consumer(error))))
            }
            Poll::Pending if is_over(self.deadline) => {
                let text = "the brokers did not report the offsets in time".to_owned();
                Some(Err(ClientError::TimedOut(text)))
            }
            Poll::Pending => None,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.deadline)
    }
}
