//! [`Wait`]: a request whose response has to wait.

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use crate::Core;
use crate::fetch::PendingFetch;
use crate::groups::GroupTicket;
use crate::requests::response::{Outcome, Pieces, ReplyTo, Response};
use crate::requests::waiters::Waiter;

/// A long poll, or a group request that waits for the coordinator.
#[derive(Debug)]
pub struct Wait {
    reply_to: ReplyTo,
    /// `None` means without a limit.
    deadline: Option<Instant>,
    waiter: Option<Arc<Waiter>>,
    waits_for: WaitsFor,
}

#[derive(Debug)]
pub(crate) enum WaitsFor {
    Records(Box<PendingFetch>),
    Coordinator(GroupTicket),
}

impl Wait {
    pub(crate) fn new(reply_to: ReplyTo, deadline: Option<Instant>, waits_for: WaitsFor) -> Self {
        Self {
            reply_to,
            deadline,
            waiter: None,
            waits_for,
        }
    }

    /// Returns when to look again even without a wake-up.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    pub(crate) fn group_ticket(&self) -> Option<GroupTicket> {
        match self.waits_for {
            WaitsFor::Coordinator(ticket) => Some(ticket),
            WaitsFor::Records(_) => None,
        }
    }

    pub(crate) fn poll(&mut self, core: &mut Core, waker: &Waker, now: Instant) -> Option<Outcome> {
        let waiter = self.waiter.get_or_insert_with(|| Waiter::new(waker));
        waiter.set(waker);
        match &mut self.waits_for {
            WaitsFor::Records(fetch) => {
                let is_over = self.deadline.is_some_and(|deadline| now >= deadline);
                let body = fetch.poll(core, is_over, Some(waiter), now)?;
                let mute_until = fetch.throttled;
                Some(match self.reply_to.body(body, now) {
                    Outcome::Response(response) => Outcome::Response(Response {
                        mute_until,
                        ..response
                    }),
                    other => other,
                })
            }
            WaitsFor::Coordinator(ticket) => {
                let response = core.take_group_response(*ticket, waiter)?;
                let mut body = Pieces::default();
                body.put_shared(response);
                Some(self.reply_to.body(body, now))
            }
        }
    }
}
