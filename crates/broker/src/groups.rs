//! The seam to a group coordinator outside of this crate: requests of consumer groups wait here.
//!
//! ```text
//! JoinGroup, SyncGroup, ... --handle--> GroupQueue --take_group_requests--> coordinator
//! connection <--poll_wait-- answers <--answer_group_request-- coordinator
//! ```
//! As long as no coordinator is attached, these APIs are neither announced nor served, and the
//! offsets of groups without members are kept here in Rust.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use bytes::Bytes;
use thalweg_protocol::{ApiKey, Str};

use crate::Core;
use crate::waiters::Waiter;

/// More requests than this wait for no coordinator: the connection is closed instead.
const QUEUED_MAX: usize = 10_000;

/// The APIs that the coordinator serves.
pub(crate) const GROUP_APIS: [ApiKey; 6] = [
    ApiKey::JOIN_GROUP,
    ApiKey::HEARTBEAT,
    ApiKey::LEAVE_GROUP,
    ApiKey::SYNC_GROUP,
    ApiKey::CONSUMER_GROUP_HEARTBEAT,
    ApiKey::CONSUMER_GROUP_DESCRIBE,
];

/// Names a waiting request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupTicket(u64);

/// A request for the coordinator, its body as it came.
#[derive(Debug, Clone)]
pub struct GroupRequest {
    pub ticket: GroupTicket,
    pub key: ApiKey,
    pub version: i16,
    /// The node that got it.
    pub node: i32,
    pub client_id: Option<Str>,
    pub client_host: String,
    pub body: Bytes,
    /// When it arrived: deadlines count from here, however late the coordinator looks.
    pub arrived: Instant,
}

/// Requests on their way to the coordinator and answers on their way back.
#[derive(Default)]
pub(crate) struct GroupQueue {
    /// Woken when a request comes; set by a coordinator that attaches.
    coordinator: Option<Waker>,
    requests: VecDeque<GroupRequest>,
    waiting: BTreeMap<GroupTicket, Option<Arc<Waiter>>>,
    answers: BTreeMap<GroupTicket, Bytes>,
    next_ticket: u64,
}

impl GroupQueue {
    pub(crate) fn is_attached(&self) -> bool {
        self.coordinator.is_some()
    }

    /// `None`: too many wait already.
    pub(crate) fn push(
        &mut self,
        request: impl FnOnce(GroupTicket) -> GroupRequest,
    ) -> Option<GroupTicket> {
        if self.waiting.len() >= QUEUED_MAX {
            return None;
        }
        let ticket = GroupTicket(self.next_ticket);
        self.next_ticket += 1;
        self.waiting.insert(ticket, None);
        self.requests.push_back(request(ticket));
        if let Some(waker) = &self.coordinator {
            waker.wake_by_ref();
        }
        Some(ticket)
    }

    pub(crate) fn take_answer(&mut self, ticket: GroupTicket) -> Option<Bytes> {
        self.answers.remove(&ticket)
    }

    pub(crate) fn wait(&mut self, ticket: GroupTicket, waiter: &Arc<Waiter>) {
        self.waiting.insert(ticket, Some(Arc::clone(waiter)));
    }

    /// The connection is gone.
    pub(crate) fn forget(&mut self, ticket: GroupTicket) {
        self.waiting.remove(&ticket);
        self.answers.remove(&ticket);
    }
}

impl Core {
    /// From now on group requests are served: `waker` is woken for each that comes.
    pub fn attach_group_coordinator(&mut self, waker: Waker) {
        self.groups.coordinator = Some(waker);
    }

    /// The requests that came since, oldest first.
    pub fn take_group_requests(&mut self) -> Vec<GroupRequest> {
        self.groups.requests.drain(..).collect()
    }

    /// Answers a request with a response's body in the request's version. False if nobody
    /// waits for it any more.
    pub fn answer_group_request(&mut self, ticket: GroupTicket, body: Bytes) -> bool {
        let Some(waiter) = self.groups.waiting.remove(&ticket) else {
            return false;
        };
        self.groups.answers.insert(ticket, body);
        if let Some(waiter) = waiter {
            waiter.wake();
        }
        true
    }

    /// What the owner of a connection says when it closes while a request waits.
    pub fn forget_wait(&mut self, wait: &crate::Wait) {
        if let Some(ticket) = wait.group_ticket() {
            self.groups.forget(ticket);
        }
    }
}
