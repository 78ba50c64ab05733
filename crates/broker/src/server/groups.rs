//! [`GroupService`]: how a group coordinator in another thread talks to a running broker.

#![allow(clippy::disallowed_methods)] // clocks are read here, so that other modules need not

use std::task::{Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use thalweg_protocol::{ApiKey, ErrorCode};
use thalweg_security::acl::{Operation, ResourceType, Who};

use super::{SharedCore, lock, wall_clock_ms};
use crate::groups::ms_between;
use crate::{GroupEvent, GroupTicket, GroupView};

/// The clock of events. It may outlive the broker.
#[derive(Debug, Clone, Copy)]
pub struct GroupClock {
    started: Instant,
}

impl GroupClock {
    /// Returns the milliseconds since the broker's start.
    pub fn now_ms(&self) -> f64 {
        ms_between(self.started, Instant::now())
    }
}

/// The coordinator's side of the interface. Clones are the same service.
#[derive(Clone)]
pub struct GroupService {
    core: SharedCore,
}

impl GroupService {
    /// Starts to serve groups.
    pub(crate) fn start(core: SharedCore) -> Self {
        {
            let mut core = lock(&core);
            core.serve_groups();
            core.tell_of_topics(Instant::now());
        }
        Self { core }
    }

    /// Returns the oldest events, in the order in which they happened. If there are none, `waker`
    /// is woken when there are. Only the last waker is kept. Returns `None` when the broker is
    /// closed.
    pub fn poll_events(&self, waker: &Waker) -> Poll<Option<Vec<GroupEvent>>> {
        lock(&self.core).poll_group_events(waker)
    }

    pub fn clock(&self) -> GroupClock {
        GroupClock {
            started: lock(&self.core).started,
        }
    }

    /// Returns all topics: name, id, number of partitions.
    pub fn topics(&self) -> Vec<(String, String, i32)> {
        let core = lock(&self.core);
        let topics = core.topology.topics();
        topics
            .map(|topic| {
                let partitions = topic.partitions.len() as i32;
                (topic.name.to_string(), topic.id.to_string(), partitions)
            })
            .collect()
    }

    /// Returns those of the topics that a user may describe from a host, which may begin with a
    /// slash. All of them if the broker has no authorizer.
    pub fn visible_topics(&self, principal: &str, host: &str, names: Vec<String>) -> Vec<String> {
        let core = lock(&self.core);
        let Some(acls) = &core.acls else {
            return names;
        };
        let host = host.trim_start_matches('/');
        let who = Who { principal, host };
        let may_see =
            |name: &String| acls.allows(who, Operation::Describe, ResourceType::Topic, name);
        names.into_iter().filter(may_see).collect()
    }

    /// Publishes the state of a group as of the event at `at_ms`. Sessions of newly watched members
    /// start now, not at that time: no member can send a heartbeat before it has its response.
    pub fn publish(&self, group: &str, view: GroupView, at_ms: f64) {
        lock(&self.core).publish_group(group, view, at_ms, Instant::now(), wall_clock_ms());
    }

    /// Forgets the group, but keeps its offsets.
    pub fn forget(&self, group: &str) {
        lock(&self.core).forget_group(group);
    }

    /// Returns the API and version of a request that waits for its response.
    pub fn request_api(&self, ticket: GroupTicket) -> Option<(ApiKey, i16)> {
        lock(&self.core).group_request_api(ticket)
    }

    /// Responds with a body in the request's version. Returns false if no connection waits for it.
    pub fn respond(&self, ticket: GroupTicket, body: Bytes) -> bool {
        lock(&self.core).respond_to_group_request(ticket, body, Instant::now())
    }

    /// Responds with an error. Returns false if no connection waits for it.
    pub fn refuse(&self, ticket: GroupTicket, code: ErrorCode) -> bool {
        lock(&self.core).refuse_group_request(ticket, code, Instant::now())
    }
}
