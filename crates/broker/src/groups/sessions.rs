//! [`Sessions`]: the time by which each member must send something again.
//!
//! While a member's request waits for the coordinator, the session time stops, because the member
//! cannot help how long it waits. If the request is accepted, the session starts again. If it is
//! refused, the session continues with the time that was left.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use thalweg_protocol::Str;

/// A group and one of its members.
pub(crate) type Who = (Str, Str);

#[derive(Debug, Default)]
struct Session {
    /// `None` means that the session does not expire.
    timeout: Option<Duration>,
    /// The number of requests that wait for the coordinator.
    held: u32,
    deadline: Option<Instant>,
    /// The time that remains once no request waits.
    left: Option<Duration>,
}

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    by_member: BTreeMap<Who, Session>,
    deadlines: BTreeSet<(Instant, Who)>,
}

impl Sessions {
    /// Sets the timeout. A session with a changed timeout starts again. Otherwise it continues.
    pub(crate) fn set(&mut self, who: &Who, timeout: Option<Duration>, now: Instant) {
        let session = self.by_member.entry(who.clone()).or_default();
        if session.timeout != timeout {
            session.timeout = timeout;
            self.touch(who, now);
        }
    }

    /// Restarts the session, because the member sent something.
    pub(crate) fn touch(&mut self, who: &Who, now: Instant) {
        // Use the stored names: those from a request would keep its complete frame alive.
        let Some((who, _)) = self.by_member.get_key_value(who) else {
            return;
        };
        let who = who.clone();
        let Some(session) = self.by_member.get_mut(&who) else {
            return;
        };
        if let Some(time) = session.deadline.take() {
            self.deadlines.remove(&(time, who.clone()));
        }
        session.left = session.timeout;
        self.run(&who, now);
    }

    /// Sets the deadline, if no request waits.
    fn run(&mut self, who: &Who, now: Instant) {
        if let Some(session) = self.by_member.get_mut(who)
            && session.held == 0
            && let Some(left) = session.left.take()
        {
            session.deadline = Some(now + left);
            self.deadlines.insert((now + left, who.clone()));
        }
    }

    /// Stops the time while a request of the member waits. Returns false if there is no such
    /// member.
    pub(crate) fn hold(&mut self, who: &Who, now: Instant) -> bool {
        let Some(session) = self.by_member.get_mut(who) else {
            return false;
        };
        session.held += 1;
        if let Some(time) = session.deadline.take() {
            session.left = Some(time.saturating_duration_since(now));
            self.deadlines.remove(&(time, who.clone()));
        }
        true
    }

    /// Notes that the request has its response.
    pub(crate) fn release(&mut self, who: &Who, is_accepted: bool, now: Instant) {
        if let Some(session) = self.by_member.get_mut(who) {
            session.held = session.held.saturating_sub(1);
            if is_accepted {
                self.touch(who, now);
            } else {
                self.run(who, now);
            }
        }
    }

    pub(crate) fn end(&mut self, who: &Who) {
        if let Some(session) = self.by_member.remove(who)
            && let Some(time) = session.deadline
        {
            self.deadlines.remove(&(time, who.clone()));
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(time, _)| *time)
    }

    /// Returns the members whose sessions have ended, the earliest first.
    pub(crate) fn due(&self, now: Instant) -> Vec<Who> {
        let due = self.deadlines.iter().take_while(|(time, _)| *time <= now);
        due.map(|(_, who)| who.clone()).collect()
    }
}
