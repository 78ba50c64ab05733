//! [`GroupTable`]: all groups as their coordinator published them, and their members' sessions.
//!
//! ```text
//! publish -> a session for each watched member; it starts again with a heartbeat, a commit,
//!            an accepted request (touch, release), another coordinator (move_to)
//! tick    -> expire: removes the member until the coordinator publishes it again
//! ```

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use thalweg_protocol::Str;

use super::sessions::{Sessions, Who};
use super::view::{GroupView, MemberView};
use crate::transactions::Now;

#[derive(Debug)]
struct Group {
    view: GroupView,
    /// Members whose sessions ended, and when. A view from an earlier moment does not reflect that
    /// yet.
    expired: BTreeMap<Str, f64>,
    /// Since when it has no members, by the wall clock.
    emptied_ms: Option<i64>,
    /// The node that coordinates. Without one, sessions do not run.
    coordinator: Option<i32>,
}

#[derive(Debug, Default)]
pub(crate) struct GroupTable {
    groups: BTreeMap<Str, Group>,
    pub(crate) sessions: Sessions,
}

impl GroupTable {
    pub(crate) fn get(&self, group: &str) -> Option<&GroupView> {
        self.groups.get(group).map(|group| &group.view)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Str, &GroupView)> {
        self.groups.iter().map(|(id, group)| (id, &group.view))
    }

    /// Since when the group has no members, by the wall clock.
    pub(crate) fn emptied_ms(&self, group: &str) -> Option<i64> {
        self.groups.get(group)?.emptied_ms
    }

    /// Stores the coordinator's state as of `at_ms`.
    pub(crate) fn publish(
        &mut self,
        id: &Str,
        mut view: GroupView,
        at_ms: f64,
        coordinator: Option<i32>,
        now: Now,
    ) {
        let before = self.groups.remove(id);
        let mut expired = BTreeMap::new();
        let mut emptied_ms = None;
        if let Some(before) = before {
            expired = before.expired;
            emptied_ms = before.emptied_ms;
            expired.retain(|_, time| at_ms < *time);
            view.members
                .retain(|member, _| !expired.contains_key(member));
            let gone = |member: &&Str| !view.members.contains_key(*member);
            for member in before.view.members.keys().filter(gone) {
                self.sessions.end(&(id.clone(), member.clone()));
            }
        }
        let emptied_ms = view.is_empty().then(|| emptied_ms.unwrap_or(now.ms));
        let group = Group {
            view,
            expired,
            emptied_ms,
            coordinator,
        };
        set_sessions(&mut self.sessions, id, &group, now.instant);
        self.groups.insert(id.clone(), group);
    }

    /// Removes the group.
    pub(crate) fn forget(&mut self, id: &str) -> bool {
        let Some((id, group)) = self.groups.remove_entry(id) else {
            return false;
        };
        for member in group.view.members.into_keys() {
            self.sessions.end(&(id.clone(), member));
        }
        true
    }

    /// Sets another node as coordinator, which restarts the group's sessions.
    pub(crate) fn move_to(&mut self, id: &Str, coordinator: Option<i32>, now: Instant) {
        let Some(group) = self.groups.get_mut(id) else {
            return;
        };
        if std::mem::replace(&mut group.coordinator, coordinator) == coordinator {
            return;
        }
        set_sessions(&mut self.sessions, id, group, now);
        for member in group.view.members.keys() {
            self.sessions.touch(&(id.clone(), member.clone()), now);
        }
    }

    /// Removes the member, whose session ended at `at_ms`.
    pub(crate) fn expire(&mut self, who: &Who, at_ms: f64) {
        self.sessions.end(who);
        let (group, member) = who;
        if let Some(group) = self.groups.get_mut(group)
            && let Some((member, _)) = group.view.members.remove_entry(member)
        {
            group.expired.insert(member, at_ms);
        }
    }
}

fn set_sessions(sessions: &mut Sessions, id: &Str, group: &Group, now: Instant) {
    let timeout = |member: &MemberView| {
        let timeout = Duration::from_millis(member.session_timeout_ms.into());
        let runs = member.is_watched && group.coordinator.is_some();
        runs.then_some(timeout)
    };
    for (member, of_member) in &group.view.members {
        sessions.set(&(id.clone(), member.clone()), timeout(of_member), now);
    }
}
