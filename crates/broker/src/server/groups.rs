//! [`GroupService`]: how a coordinator of groups, in another thread, talks to a running broker.

#![allow(clippy::disallowed_methods)] // the clocks are read here, so that they need not be elsewhere

use std::task::{Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use thalweg_protocol::{ApiKey, ErrorCode};

use super::{SharedCore, lock, wall_clock_ms};
use crate::groups::ms_between;
use crate::{GroupEvent, GroupTicket, GroupView};

/// The clock of events: it outlives the broker.
#[derive(Debug, Clone, Copy)]
pub struct GroupClock {
    started: Instant,
}

impl GroupClock {
    /// Milliseconds since the broker's start.
    pub fn now_ms(&self) -> f64 {
        ms_between(self.started, Instant::now())
    }
}

/// The coordinator's side of the seam. Clones are the same.
#[derive(Clone)]
pub struct GroupService {
    core: SharedCore,
}

impl GroupService {
    /// Groups are served from now on.
    pub(crate) fn start(core: SharedCore) -> Self {
        {
            let mut core = lock(&core);
            core.serve_groups();
            core.tell_of_topics(Instant::now());
        }
        Self { core }
    }

    /// The oldest events, in the order in which they happened. If there are none, `waker` is woken
    /// when there are; of several that wait only the last is. `None`: the broker is closed.
    pub fn poll_events(&self, waker: &Waker) -> Poll<Option<Vec<GroupEvent>>> {
        lock(&self.core).poll_group_events(waker)
    }

    pub fn clock(&self) -> GroupClock {
        GroupClock {
            started: lock(&self.core).started,
        }
    }

    /// All topics: name, id, number of partitions.
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

    /// What is known of a group as of the event at `at_ms`. Sessions of members that were not
    /// watched before begin now, not then: nobody could be heard of before its answer left.
    pub fn publish(&self, group: &str, view: GroupView, at_ms: f64) {
        lock(&self.core).publish_group(group, view, at_ms, Instant::now(), wall_clock_ms());
    }

    /// Nothing is known of the group any more. Its offsets stay.
    pub fn forget(&self, group: &str) {
        lock(&self.core).forget_group(group);
    }

    /// The API and version of a request that waits for its answer.
    pub fn request_api(&self, ticket: GroupTicket) -> Option<(ApiKey, i16)> {
        lock(&self.core).group_request_api(ticket)
    }

    /// Answers with a response's body in the request's version. False if nobody waits for it.
    pub fn answer(&self, ticket: GroupTicket, body: Bytes) -> bool {
        lock(&self.core).answer_group_request(ticket, body, Instant::now())
    }

    /// Answers with an error. False if nobody waits for it.
    pub fn refuse(&self, ticket: GroupTicket, code: ErrorCode) -> bool {
        lock(&self.core).refuse_group_request(ticket, code, Instant::now())
    }
}
