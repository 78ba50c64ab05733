//! [`GroupEvents`]: requests for the coordinator, and its responses.
//!
//! ```text
//! hand_over -> queue -> take -> the coordinator -> response -> the connection that waits
//! ```
//! A request stays in the queue when its connection closes, because a leaving member need not wait
//! for the response. Only the response is dropped then.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;
use thalweg_protocol::{ApiKey, ErrorCode, Str};

use super::describe::Completion;
use super::sessions::Who;
use crate::requests::waiters::Waiter;

/// The limit on requests in the queue, and on requests that wait for a response.
const REQUESTS_MAX: usize = 10_000;
/// The limit on the bodies of queued requests together.
const QUEUED_BYTES_MAX: usize = 256 << 20;
/// The number of events taken at a time.
const TAKEN_MAX: usize = 500;

/// Names a waiting request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupTicket(pub u64);

/// Something that happened to a group, for its coordinator.
#[derive(Debug, Clone)]
pub struct GroupEvent {
    /// The time by [`Core::group_clock_ms`](crate::Core::group_clock_ms).
    pub at_ms: f64,
    /// Empty if a request is about several groups.
    pub group: Str,
    pub kind: GroupEventKind,
}

#[derive(Debug, Clone)]
pub enum GroupEventKind {
    /// A request that needs a response.
    Request(GroupRequest),
    /// A member sent nothing for longer than its session timeout.
    Expired { member: Str },
    /// The group was deleted, or nothing of it was left.
    Deleted,
    /// Topics or their numbers of partitions have changed.
    Topics,
}

/// A request for the coordinator.
#[derive(Debug, Clone)]
pub struct GroupRequest {
    pub ticket: GroupTicket,
    pub key: ApiKey,
    pub version: i16,
    /// The node that received it.
    pub node: i32,
    pub client_id: Option<Str>,
    pub client_host: String,
    /// The user, as ACLs name it.
    pub principal: String,
    /// In the request's version.
    pub body: Bytes,
    /// A response body with the rows of groups that the coordinator does not know.
    pub draft: Option<Bytes>,
}

impl GroupRequest {
    fn queued_bytes(&self) -> usize {
        self.body.len() + self.draft.as_ref().map_or(0, Bytes::len)
    }
}

/// What the broker keeps of a request until it has a response.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) key: ApiKey,
    pub(crate) version: i16,
    pub(crate) node: i32,
    /// The groups that it is about.
    pub(crate) groups: Vec<Str>,
    /// The member whose session does not run until the response.
    pub(crate) holds: Option<Who>,
    pub(crate) completion: Completion,
    /// Makes the body of a response with an error for these groups.
    pub(crate) refuse: fn(&[Str], i16, ErrorCode) -> Bytes,
    /// Whether a body in this version means that the request was accepted.
    pub(crate) accepts: fn(&Bytes, i16) -> bool,
    pub(crate) response: Option<Bytes>,
    pub(crate) waiter: Option<Arc<Waiter>>,
}

#[derive(Default)]
pub(crate) struct GroupEvents {
    /// The waker of the last caller that found no event. The next event wakes it.
    waker: Option<Waker>,
    queue: VecDeque<GroupEvent>,
    queued_requests: usize,
    queued_bytes: usize,
    waiting: BTreeMap<GroupTicket, Waiting>,
    /// The requests that hold sessions.
    holders: BTreeMap<(ApiKey, Who), GroupTicket>,
    next_ticket: u64,
    /// The [`Topology::changes`](crate::topology::Topology) that the coordinator last got an event
    /// for.
    topics_told: Option<u64>,
}

impl GroupEvents {
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        self.waiting.len() < REQUESTS_MAX
            && self.queued_requests < REQUESTS_MAX
            && self.queued_bytes + bytes <= QUEUED_BYTES_MAX
    }

    pub(crate) fn ticket(&mut self) -> GroupTicket {
        self.next_ticket += 1;
        GroupTicket(self.next_ticket)
    }

    pub(crate) fn push(&mut self, event: GroupEvent) {
        if let GroupEventKind::Request(request) = &event.kind {
            self.queued_requests += 1;
            self.queued_bytes += request.queued_bytes();
        }
        self.queue.push_back(event);
        self.wake();
    }

    /// Adds an event about changed topics, unless the queue already ends with one.
    pub(crate) fn push_topics(&mut self, changes: u64, at_ms: f64) {
        if self.topics_told.replace(changes) == Some(changes) {
            return;
        }
        let is_topics = |event: &GroupEvent| matches!(event.kind, GroupEventKind::Topics);
        if !self.queue.back().is_some_and(is_topics) {
            let group = Str::default();
            let kind = GroupEventKind::Topics;
            self.push(GroupEvent { at_ms, group, kind });
        }
    }

    pub(crate) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Takes the oldest events. If there are none, the waker is woken when there are.
    pub(crate) fn take(&mut self, waker: &Waker) -> Vec<GroupEvent> {
        if self.queue.is_empty() {
            self.waker = Some(waker.clone());
        }
        let count = self.queue.len().min(TAKEN_MAX);
        let taken: Vec<GroupEvent> = self.queue.drain(..count).collect();
        for event in &taken {
            if let GroupEventKind::Request(request) = &event.kind {
                self.queued_requests -= 1;
                self.queued_bytes -= request.queued_bytes();
            }
        }
        taken
    }

    pub(crate) fn wait_for(&mut self, ticket: GroupTicket, waiting: Waiting) {
        if let Some(who) = &waiting.holds {
            self.holders.insert((waiting.key, who.clone()), ticket);
        }
        self.waiting.insert(ticket, waiting);
    }

    /// Notes that a member repeats a request that still waits. The older request may then never get
    /// a response, so it no longer holds the session. Returns false if no request held it.
    pub(crate) fn supersede(&mut self, key: ApiKey, who: &Who) -> bool {
        let older = self.holders.remove(&(key, who.clone()));
        let older = older.and_then(|ticket| self.waiting.get_mut(&ticket));
        older.is_some_and(|waiting| waiting.holds.take().is_some())
    }

    /// A request that has no response yet.
    pub(crate) fn waiting(&self, ticket: GroupTicket) -> Option<&Waiting> {
        self.waiting.get(&ticket).filter(|w| w.response.is_none())
    }

    /// Returns all requests without a response.
    pub(crate) fn all_waiting(&self) -> impl Iterator<Item = (GroupTicket, &Waiting)> {
        let all = self.waiting.iter().filter(|(_, w)| w.response.is_none());
        all.map(|(ticket, waiting)| (*ticket, waiting))
    }

    /// Returns the groups for which a request that may add a member is waiting.
    pub(crate) fn joined(&self) -> BTreeSet<Str> {
        let joins = [ApiKey::JOIN_GROUP, ApiKey::CONSUMER_GROUP_HEARTBEAT];
        let waiting = self.all_waiting().map(|(_, waiting)| waiting);
        let joining = waiting.filter(|waiting| joins.contains(&waiting.key));
        joining.flat_map(|w| w.groups.iter().cloned()).collect()
    }

    /// Passes a response to the waiting connection. Returns the member whose session the request
    /// held, and whether the response accepts the request.
    pub(crate) fn respond(&mut self, ticket: GroupTicket, body: Bytes) -> Option<(Who, bool)> {
        let waiting = self.waiting.get_mut(&ticket)?;
        let held = waiting.holds.take().map(|who| {
            self.holders.remove(&(waiting.key, who.clone()));
            (who, (waiting.accepts)(&body, waiting.version))
        });
        waiting.response = Some(body);
        if let Some(waiter) = &waiting.waiter {
            waiter.wake();
        }
        held
    }

    pub(crate) fn take_response(
        &mut self,
        ticket: GroupTicket,
        waiter: &Arc<Waiter>,
    ) -> Option<Bytes> {
        let waiting = self.waiting.get_mut(&ticket)?;
        let Some(response) = waiting.response.take() else {
            waiting.waiter = Some(Arc::clone(waiter));
            return None;
        };
        self.waiting.remove(&ticket);
        Some(response)
    }

    /// Drops a request whose response no connection waits for. Returns the member whose session it
    /// held.
    pub(crate) fn forget(&mut self, ticket: GroupTicket) -> Option<Who> {
        let waiting = self.waiting.remove(&ticket)?;
        let who = waiting.holds?;
        self.holders.remove(&(waiting.key, who.clone()));
        Some(who)
    }

    /// Returns the requests that a node received.
    pub(crate) fn of_node(&self, node: i32) -> Vec<GroupTicket> {
        let waiting = self.waiting.iter();
        let here = waiting.filter(|(_, waiting)| waiting.node == node);
        here.map(|(ticket, _)| *ticket).collect()
    }
}
