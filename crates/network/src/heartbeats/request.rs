//! One request that the I/O thread itself sends: from finding its broker to its response.

use std::time::{Duration, Instant};

use thalweg_cluster::{Cluster, RequestError, RequestId, ResponseBody};

use crate::client::{Ending, Request, Response, SentRequest, Step, Ticket, UnsentRequest, ticket};
use crate::error::ClientError;

/// A request of the heartbeat manager: a heartbeat, or the request to leave.
#[derive(Debug)]
pub(super) struct ManagedRequest {
    ticket: Ticket<Response>,
    stage: Stage,
    pub(super) sent_at: Option<Instant>,
}

#[derive(Debug)]
enum Stage {
    /// Waits until its coordinator is known and connected.
    Waiting(Box<UnsentRequest>),
    /// The connection ends it at the connection's own timeout.
    Sent(RequestId, Box<SentRequest>),
    Done,
}

impl ManagedRequest {
    /// Prepares a request. `timeout` limits the time to reach the broker, and then again the time
    /// for its response.
    pub(super) fn new(request: Request, timeout: Duration, now: Instant) -> Self {
        let (reply, ticket) = ticket(&Ending::default());
        let pending = UnsentRequest {
            request,
            reply,
            deadline: now + timeout,
            wire_timeout: timeout,
            refresh: None,
        };
        Self {
            ticket,
            stage: Stage::Waiting(Box::new(pending)),
            sent_at: None,
        }
    }

    pub(super) fn is_sent(&self) -> bool {
        self.sent_at.is_some()
    }

    pub(super) fn owns(&self, id: RequestId) -> bool {
        matches!(self.stage, Stage::Sent(sent, _) if sent == id)
    }

    /// Sends the request if that is possible now. Gives up when its time is over.
    pub(super) fn advance(&mut self, cluster: &mut Cluster, now: Instant) {
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Waiting(pending) => match pending.advance(cluster, now) {
                Step::Wait(pending) => self.stage = Stage::Waiting(Box::new(pending)),
                Step::Sent(id, sent) => {
                    self.sent_at = Some(now);
                    self.stage = Stage::Sent(id, Box::new(sent));
                }
                Step::Done => {}
            },
            other => self.stage = other,
        }
    }

    pub(super) fn answered(&mut self, result: Result<ResponseBody, RequestError>, now: Instant) {
        if let Stage::Sent(_, sent) = std::mem::replace(&mut self.stage, Stage::Done) {
            // Only reads come back to be sent again.
            drop(sent.answered(result, now));
        }
    }

    /// Takes the outcome, once it is there.
    pub(super) fn outcome(&self) -> Option<Result<Response, ClientError>> {
        self.ticket.try_take()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Waiting(pending) => Some(pending.deadline),
            Stage::Sent(..) | Stage::Done => None,
        }
    }
}
