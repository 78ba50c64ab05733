//! Groups with members: the interface to a coordinator outside of this crate.
//!
//! ```text
//! JoinGroup, SyncGroup, ... --hand_over--> GroupEvents --poll_group_events--> coordinator
//! connection <--poll_wait-- responses <--respond_to_group_request---------------'  |
//! Heartbeat, OffsetCommit, ... --look at--> GroupTable <--publish_group------------'
//! tick: sessions that are over -----------> GroupEvents
//! ```
//! The coordinator decides who is a member. What it publishes is enough to respond to frequent
//! requests, so it is needed only when something changes, and may take its time. This module
//! decides which node coordinates. While no coordinator serves, these APIs are not advertised, and
//! groups have no members.

mod describe;
mod events;
mod hand_over;
pub(crate) mod sessions;
mod table;
mod view;

use std::collections::BTreeSet;
use std::task::{Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use thalweg_protocol::{ApiKey, ErrorCode, Str};

pub(crate) use describe::{Completion, Rights, write};
pub use events::{GroupEvent, GroupEventKind, GroupRequest, GroupTicket};
pub(crate) use hand_over::{CoordinatorRequest, HandOver, Origin, Routed, route};
pub(crate) use view::{CommitBy, Committer, RetainedSince, TopicPartition};
pub use view::{GroupKind, GroupView, MemberView};

use crate::Core;
use crate::topology::coordinator::CoordinatorKind;
use crate::transactions::Now;
use events::GroupEvents;
use sessions::Who;
use table::GroupTable;

/// The APIs that are advertised only if a coordinator serves.
pub(crate) const GROUP_APIS: [ApiKey; 6] = [
    ApiKey::JOIN_GROUP,
    ApiKey::HEARTBEAT,
    ApiKey::LEAVE_GROUP,
    ApiKey::SYNC_GROUP,
    ApiKey::CONSUMER_GROUP_HEARTBEAT,
    ApiKey::CONSUMER_GROUP_DESCRIBE,
];

/// Returns a time as Python uses it: milliseconds as a float.
pub(crate) fn ms_between(start: Instant, end: Instant) -> f64 {
    end.saturating_duration_since(start).as_secs_f64() * 1000.0
}

#[derive(Default)]
pub(crate) struct Groups {
    is_served: bool,
    is_closed: bool,
    pub(crate) table: GroupTable,
    events: GroupEvents,
}

impl Groups {
    pub(crate) fn is_served(&self) -> bool {
        self.is_served
    }

    /// Returns the response to a classic member's heartbeat.
    pub(crate) fn heartbeat(
        &mut self,
        group: &Str,
        who: &Committer<'_>,
        now: Instant,
    ) -> Result<(), ErrorCode> {
        let view = self.table.get(group).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        let code = view.check_heartbeat(who)?;
        let member = (group.clone(), who.member_id.into());
        self.table.sessions.touch(&member, now);
        if code == ErrorCode::NONE {
            Ok(())
        } else {
            Err(code)
        }
    }

    /// Checks that the group accepts this commit. A classic member's commit counts as a heartbeat.
    /// Returns `None` if the group has no coordinator, and so no members.
    pub(crate) fn commit(
        &mut self,
        group: &Str,
        who: &Committer<'_>,
        by: CommitBy,
        partitions: &[TopicPartition],
        now: Instant,
    ) -> Option<Result<(), ErrorCode>> {
        let view = self.table.get(group)?;
        let checked = view.check_commit(who, by, partitions);
        let is_heard = by != CommitBy::Transaction && view.counts_commits_as_heartbeats();
        if checked.is_ok() && is_heard {
            let member = (group.clone(), who.member_id.into());
            self.table.sessions.touch(&member, now);
        }
        Some(checked)
    }
}

impl Core {
    /// Starts to serve groups with a coordinator.
    pub fn serve_groups(&mut self) {
        self.groups.is_served = true;
    }

    /// Makes the coordinator look at the topics again if they have changed.
    pub(crate) fn tell_of_topics(&mut self, now: Instant) {
        if self.groups.is_served {
            let at_ms = self.group_clock_ms(now);
            self.groups.events.push_topics(self.topology.changes, at_ms);
        }
    }

    /// Stops serving. A coordinator that waits for events gets the end.
    pub fn close_groups(&mut self) {
        self.groups.is_closed = true;
        self.groups.events.wake();
    }

    /// Returns the oldest events. If there are none, `waker` is woken when there are. Returns
    /// `None` when closed.
    pub fn poll_group_events(&mut self, waker: &Waker) -> Poll<Option<Vec<GroupEvent>>> {
        if self.groups.is_closed {
            return Poll::Ready(None);
        }
        let events = self.groups.events.take(waker);
        if events.is_empty() {
            return Poll::Pending;
        }
        Poll::Ready(Some(events))
    }

    /// Returns the time on the clock of events: milliseconds since the start.
    pub fn group_clock_ms(&self, now: Instant) -> f64 {
        ms_between(self.started, now)
    }

    /// Publishes the coordinator's state of a group as of the event at `at_ms`.
    pub fn publish_group(
        &mut self,
        group: &str,
        view: GroupView,
        at_ms: f64,
        now: Instant,
        now_ms: i64,
    ) {
        let node = self.group_node(group);
        let now = Now {
            instant: now,
            ms: now_ms,
        };
        self.groups
            .table
            .publish(&group.into(), view, at_ms, node, now);
        self.wake_timer();
    }

    /// Forgets the coordinator's state of the group, but keeps its offsets.
    pub fn forget_group(&mut self, group: &str) {
        self.groups.table.forget(group);
    }

    /// Returns the API and version of a waiting request.
    pub fn group_request_api(&self, ticket: GroupTicket) -> Option<(ApiKey, i16)> {
        let waiting = self.groups.events.waiting(ticket)?;
        Some((waiting.key, waiting.version))
    }

    /// Responds to a request with a body in the request's version. Returns false if no connection
    /// waits for it any more.
    pub fn respond_to_group_request(
        &mut self,
        ticket: GroupTicket,
        body: Bytes,
        now: Instant,
    ) -> bool {
        let Some(waiting) = self.groups.events.waiting(ticket) else {
            return false;
        };
        let acls = self.acls.as_ref();
        let completed = waiting.completion.apply(body, waiting.version, acls);
        let body = completed.unwrap_or_else(|_| {
            (waiting.refuse)(
                &waiting.groups,
                waiting.version,
                ErrorCode::UNKNOWN_SERVER_ERROR,
            )
        });
        let held = self.groups.events.respond(ticket, body);
        self.release(held, now);
        true
    }

    /// Responds to a request with an error.
    pub fn refuse_group_request(
        &mut self,
        ticket: GroupTicket,
        code: ErrorCode,
        now: Instant,
    ) -> bool {
        let Some(waiting) = self.groups.events.waiting(ticket) else {
            return false;
        };
        let body = (waiting.refuse)(&waiting.groups, waiting.version, code);
        let held = self.groups.events.respond(ticket, body);
        self.release(held, now);
        true
    }

    /// Drops a waiting request. The owner of a connection calls it when the connection closes.
    pub fn forget_wait(&mut self, wait: &crate::Wait, now: Instant) {
        if let Some(ticket) = wait.group_ticket() {
            let held = self.groups.events.forget(ticket);
            // Counts as accepted, as no response says otherwise.
            let held = held.map(|who| (who, true));
            self.release(held, now);
        }
    }

    /// Takes a response that has arrived.
    pub(crate) fn take_group_response(
        &mut self,
        ticket: GroupTicket,
        waiter: &std::sync::Arc<crate::requests::waiters::Waiter>,
    ) -> Option<Bytes> {
        self.groups.events.take_response(ticket, waiter)
    }

    fn release(&mut self, held: Option<(Who, bool)>, now: Instant) {
        if let Some((who, is_accepted)) = held {
            self.groups.table.sessions.release(&who, is_accepted, now);
            self.wake_timer();
        }
    }

    fn group_node(&self, group: &str) -> Option<i32> {
        let node = self.coordinator(CoordinatorKind::Group, group);
        node.filter(|node| node.is_live).map(|node| node.id)
    }

    /// Drops the requests of a node whose connections are closed.
    pub(crate) fn drop_group_waits(&mut self, node: i32, now: Instant) {
        for ticket in self.groups.events.of_node(node) {
            let held = self.groups.events.forget(ticket);
            // Counts as accepted, as no response says otherwise.
            let held = held.map(|who| (who, true));
            self.release(held, now);
        }
    }

    /// Updates groups after nodes started, stopped, or took over coordination. A group with a new
    /// node restarts its sessions. Requests that wait at the old node get `NOT_COORDINATOR`.
    pub(crate) fn recoordinate_groups(&mut self, now: Instant) {
        let ids: Vec<Str> = self.groups.table.iter().map(|(id, _)| id.clone()).collect();
        for id in ids {
            let node = self.group_node(&id);
            self.groups.table.move_to(&id, node, now);
        }
        let strays = self.groups.events.all_waiting().filter(|(_, waiting)| {
            let elsewhere = |group: &Str| self.group_node(group) != Some(waiting.node);
            waiting.groups.iter().any(elsewhere)
        });
        let strays: Vec<GroupTicket> = strays.map(|(ticket, _)| ticket).collect();
        for ticket in strays {
            self.refuse_group_request(ticket, ErrorCode::NOT_COORDINATOR, now);
        }
        self.wake_timer();
    }

    /// Removes the members whose sessions have ended, and reports them to the coordinator.
    pub(crate) fn tick_groups(&mut self, now: Instant) {
        let at_ms = self.group_clock_ms(now);
        for who in self.groups.table.sessions.due(now) {
            self.groups.table.expire(&who, at_ms);
            let (group, member) = who;
            let kind = GroupEventKind::Expired { member };
            self.groups.events.push(GroupEvent { at_ms, group, kind });
        }
    }

    /// Deletes a group without members, with its offsets. For `joined` see
    /// [`joined_groups`](Self::joined_groups).
    pub(crate) fn delete_group(
        &mut self,
        group: &Str,
        joined: &BTreeSet<Str>,
        now: Instant,
    ) -> Result<(), ErrorCode> {
        if let Some(view) = self.groups.table.get(group) {
            view.check_delete()?;
        }
        if joined.contains(group) {
            return Err(ErrorCode::NON_EMPTY_GROUP);
        }
        let had_members = self.drop_group(group, now);
        let had_offsets = self.offsets.delete_group(group);
        if had_members || had_offsets {
            Ok(())
        } else {
            Err(ErrorCode::GROUP_ID_NOT_FOUND)
        }
    }

    /// Forgets a group without members, and reports that to the coordinator.
    pub(crate) fn drop_group(&mut self, group: &Str, now: Instant) -> bool {
        let is_known = self.groups.table.forget(group);
        if is_known {
            let at_ms = self.group_clock_ms(now);
            let (group, kind) = (group.detached(), GroupEventKind::Deleted);
            self.groups.events.push(GroupEvent { at_ms, group, kind });
        }
        is_known
    }

    /// Returns the groups that may seem empty but are about to have members.
    pub(crate) fn joined_groups(&self) -> BTreeSet<Str> {
        self.groups.events.joined()
    }
}
