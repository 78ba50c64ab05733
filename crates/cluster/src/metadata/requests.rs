//! Decides when to request metadata, and for which topics.
//!
//! The client requests metadata at the start, when a topic is missing, when a caller reports stale
//! metadata (a leader is unknown, or a response said so), and when the last full response is too
//! old. Only one request is in flight at a time. Whatever is wanted meanwhile waits for the next
//! one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use thalweg_protocol::Str;

use super::merge::MergeScope;
use crate::backoff::Backoff;
use crate::config::ClusterConfig;

/// One request for metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MetadataQuery {
    pub(crate) scope: MergeScope,
    /// `None` means all topics that exist.
    pub(crate) topics: Option<Vec<Str>>,
    /// The response settles the numbered refreshes of other threads up to this number.
    pub(crate) settles_up_to: u64,
}

#[derive(Debug, Clone, Copy)]
struct Use {
    last: Instant,
    /// True for topics with assigned partitions: they stay although no caller mentions them.
    pinned: bool,
}

#[derive(Debug)]
pub(crate) struct Requests {
    max_age: Duration,
    max_idle: Duration,
    backoff: Backoff,
    wanted: BTreeMap<Str, Use>,
    all_topics: bool,
    new_topics: BTreeSet<Str>,
    need_full: bool,
    /// The number of the newest refresh that another thread requested.
    asked: u64,
    last_full_success: Option<Instant>,
    /// Since when metadata has been wanted and no response has come (KIP-1102).
    failing_since: Option<Instant>,
    failures: u32,
    /// The last request got a usable response.
    is_answered: bool,
    next_allowed: Option<Instant>,
    in_flight: Option<MetadataQuery>,
}

impl Requests {
    pub(crate) fn new(config: &ClusterConfig) -> Self {
        Self {
            max_age: config.metadata_max_age,
            max_idle: config.metadata_max_idle,
            backoff: Backoff::new(
                config.retry_backoff,
                config.retry_backoff_max,
                config.seed ^ 1,
            ),
            wanted: BTreeMap::new(),
            all_topics: false,
            new_topics: BTreeSet::new(),
            // The first request needs no reason: every new client wants to know its brokers.
            need_full: true,
            asked: 0,
            last_full_success: None,
            failing_since: None,
            failures: 0,
            is_answered: true,
            next_allowed: None,
            in_flight: None,
        }
    }

    /// Marks a topic as used. `known` says whether the snapshot has it.
    pub(crate) fn add_topic(&mut self, name: &str, known: bool, now: Instant) {
        if let Some(used) = self.wanted.get_mut(name) {
            used.last = now;
            if !known && !self.asked_for(name) {
                // Requested before and still unknown: request it again, after the backoff.
                self.new_topics.insert(Str::from(name));
            }
            return;
        }
        self.wanted.insert(
            Str::from(name),
            Use {
                last: now,
                pinned: false,
            },
        );
        if !known {
            self.new_topics.insert(Str::from(name));
            // It does not wait for the backoff of another topic, which may never exist.
            if self.is_answered {
                self.next_allowed = None;
            }
        }
    }

    fn asked_for(&self, name: &str) -> bool {
        let in_flight = self
            .in_flight
            .as_ref()
            .is_some_and(|query| match &query.topics {
                None => true,
                Some(topics) => topics.iter().any(|topic| &**topic == name),
            });
        in_flight || self.new_topics.contains(name)
    }

    /// Makes exactly these topics never expire. A topic that was pinned before counts as unused
    /// from now on.
    pub(crate) fn pin_topics(&mut self, names: &BTreeSet<Str>, now: Instant) {
        for (name, used) in &mut self.wanted {
            if used.pinned && !names.contains(name) {
                *used = Use {
                    last: now,
                    pinned: false,
                };
            }
        }
        for name in names {
            if let Some(used) = self.wanted.get_mut(name) {
                used.pinned = true;
            }
        }
    }

    pub(crate) fn set_all_topics(&mut self, all: bool) {
        if all && !self.all_topics {
            self.need_full = true;
            self.next_allowed = None;
        }
        self.all_topics = all;
    }

    /// Requests a full refresh, because the current metadata is stale.
    pub(crate) fn request_update(&mut self) {
        self.need_full = true;
    }

    /// Requests a full refresh for another thread, which numbers its refreshes.
    pub(crate) fn request_update_numbered(&mut self, number: u64) {
        if number > self.asked {
            self.asked = number;
            self.request_update();
        }
    }

    /// Requests a full refresh and restarts the rebootstrap timer, after a return to the bootstrap
    /// addresses.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.need_full = true;
        self.failing_since = Some(now);
    }

    /// When the next request should be sent, or `None` while one is in flight or before any is
    /// wanted.
    pub(crate) fn due(&self) -> Option<Due> {
        if self.in_flight.is_some() {
            return None;
        }
        if self.need_full || !self.new_topics.is_empty() {
            return Some(self.next_allowed.map_or(Due::Now, Due::At));
        }
        let aged = self.last_full_success.map(|at| at + self.max_age);
        // If a refresh by age failed, it waits for its backoff like any other request.
        aged.max(self.next_allowed).map(Due::At)
    }

    /// Since when metadata has been wanted and has not arrived.
    pub(crate) fn failing_since(&self) -> Option<Instant> {
        self.failing_since
    }

    /// Notes that metadata is wanted from now on.
    pub(crate) fn want(&mut self, now: Instant) {
        self.failing_since.get_or_insert(now);
    }

    /// Notes that a request is sent now, and returns its contents.
    pub(crate) fn start(&mut self, now: Instant) -> MetadataQuery {
        let aged = self
            .last_full_success
            .is_none_or(|at| now >= at + self.max_age);
        let query = if self.need_full || aged {
            let max_idle = self.max_idle;
            self.wanted
                .retain(|_, used| used.pinned || now.duration_since(used.last) < max_idle);
            let topics = (!self.all_topics).then(|| self.wanted.keys().cloned().collect());
            self.need_full = false;
            self.new_topics.clear();
            MetadataQuery {
                scope: MergeScope::Full,
                topics,
                settles_up_to: self.asked,
            }
        } else {
            let topics = std::mem::take(&mut self.new_topics).into_iter().collect();
            MetadataQuery {
                scope: MergeScope::Partial,
                topics: Some(topics),
                settles_up_to: 0,
            }
        };
        self.want(now);
        self.in_flight = Some(query.clone());
        query
    }

    /// Notes that a response was merged.
    pub(crate) fn succeeded(&mut self, changed: bool, incomplete: bool, now: Instant) {
        let Some(query) = self.in_flight.take() else {
            return;
        };
        if query.scope == MergeScope::Full {
            self.last_full_success = Some(now);
        }
        self.failing_since = None;
        self.is_answered = true;
        self.failures = if changed && !incomplete {
            0
        } else {
            self.failures.saturating_add(1)
        };
        let wait = self.backoff.after(self.failures.saturating_sub(1));
        self.next_allowed = Some(now + wait);
    }

    /// Notes that no usable response came. The same request is due again after a backoff.
    pub(crate) fn failed(&mut self, now: Instant) {
        if let Some(query) = self.in_flight.take() {
            match query.scope {
                MergeScope::Full => self.need_full = true,
                MergeScope::Partial => self.new_topics.extend(query.topics.into_iter().flatten()),
            }
        }
        let wait = self.backoff.after(self.failures);
        self.is_answered = false;
        self.failures = self.failures.saturating_add(1);
        self.next_allowed = Some(now + wait);
    }

    /// Stops requesting a topic that cannot exist: the broker called its name invalid.
    pub(crate) fn forget(&mut self, name: &str) {
        self.wanted.remove(name);
        self.new_topics.remove(name);
    }
}

/// When a metadata request is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Now,
    At(Instant),
}

impl Due {
    pub(crate) fn is_over(self, now: Instant) -> bool {
        match self {
            Self::Now => true,
            Self::At(at) => now >= at,
        }
    }
}
