//! The wait for everything that was appended.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use thalweg_producer::{Accumulator, FlushTicket, Timed};

use super::ProducerClient;
use crate::client::ClientView;
use crate::clock;
use crate::error::ClientError;
use crate::operation::{Operation, is_over};

/// Waits until records have their outcome: see [`ProducerClient::flush`].
pub struct Flush {
    view: ClientView,
    accumulator: Arc<Accumulator>,
    timeout: Option<Duration>,
    /// Set by the first poll.
    begun: Option<Begun>,
}

struct Begun {
    at: Instant,
    ticket: FlushTicket,
}

impl ProducerClient {
    /// Waits until every record that was appended before the first poll is written or has failed.
    /// `None` waits without a limit.
    pub fn flush(&self, timeout: Option<Duration>) -> Flush {
        Flush {
            view: self.view().clone(),
            accumulator: Arc::clone(self.accumulator()),
            timeout,
            begun: None,
        }
    }
}

impl Operation for Flush {
    type Output = ();

    fn poll(&mut self, waker: &Waker) -> Option<Result<(), ClientError>> {
        if self.begun.is_none()
            && let Err(error) = self.view.check()
        {
            return Some(Err(error));
        }
        let begin = || Begun {
            at: clock::now(),
            ticket: self.accumulator.flush(),
        };
        let begun = self.begun.get_or_insert_with(begin);
        let done = begun.ticket.poll_done(waker).is_ready();
        let late = self.timeout.filter(|&timeout| is_over(begun.at + timeout));
        if !done && late.is_none() {
            return None;
        }
        let took = clock::now().saturating_duration_since(begun.at);
        self.accumulator.metrics().took(Timed::Flush, took);
        if let Some(failure) = self.view.failure() {
            // Its records have failed with the client.
            return Some(Err(failure));
        }
        Some(match late {
            Some(timeout) if !done => {
                let (left, seconds) = (begun.ticket.remaining(), timeout.as_secs_f64());
                Err(ClientError::TimedOut(format!(
                    "flush: {left} batches were not acknowledged within {seconds} seconds. The \
                     producer continues to send them"
                )))
            }
            _ => Ok(()),
        })
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.begun.as_ref()?.at + self.timeout?)
    }
}
