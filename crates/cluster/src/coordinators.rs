//! Which node coordinates a group or a transaction. The lookup is kept until a caller reports a
//! change.

use std::collections::BTreeMap;
use std::time::Instant;

use thalweg_protocol::messages::find_coordinator::{
    FindCoordinatorRequest, FindCoordinatorResponse,
};
use thalweg_protocol::{ErrorCode, Str};

use crate::address::Address;
use crate::backoff::Backoff;
use crate::config::ClusterConfig;
use crate::request::NodeId;

/// From this version on, one request can ask for many keys. We still send one request for each key.
const BATCHED_VERSION: i16 = 4;

/// The longest key that a request can contain, in bytes.
const KEY_BYTES_MAX: usize = i16::MAX as usize;

/// Kafka's coordinator types, with their wire ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i8)]
pub enum CoordinatorType {
    Group = 0,
    Transaction = 1,
    Share = 2,
}

/// What is known about a coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Coordinator {
    Known(NodeId),
    /// A lookup is in flight, or will be made when it is due.
    Unknown,
    /// The brokers refuse to name it, and another lookup will not help.
    Failed {
        error: ErrorCode,
        message: Option<Str>,
    },
}

#[derive(Debug, Clone)]
struct Entry {
    state: Coordinator,
    /// A caller asked for it since it became unknown.
    wanted: bool,
    in_flight: bool,
    failures: u32,
    next_allowed: Option<Instant>,
}

pub(crate) type CoordinatorKey = (CoordinatorType, Str);

#[derive(Debug)]
pub(crate) struct Coordinators {
    entries: BTreeMap<CoordinatorKey, Entry>,
    backoff: Backoff,
}

impl Coordinators {
    pub(crate) fn new(config: &ClusterConfig) -> Self {
        let backoff = Backoff::new(
            config.retry_backoff,
            config.retry_backoff_max,
            config.seed ^ 4,
        );
        Self {
            entries: BTreeMap::new(),
            backoff,
        }
    }

    pub(crate) fn get(&mut self, kind: CoordinatorType, key: &str) -> Coordinator {
        if key.len() > KEY_BYTES_MAX {
            return too_long(kind, key.len());
        }
        let entry = self
            .entries
            .entry((kind, Str::from(key)))
            .or_insert_with(|| Entry {
                state: Coordinator::Unknown,
                wanted: true,
                in_flight: false,
                failures: 0,
                next_allowed: None,
            });
        if entry.state == Coordinator::Unknown {
            entry.wanted = true;
        }
        entry.state.clone()
    }

    /// Forgets a coordinator that has moved (`NOT_COORDINATOR`), or a failed lookup.
    pub(crate) fn invalidate(&mut self, kind: CoordinatorType, key: &str, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&(kind, Str::from(key))) {
            Self::lose(entry, &mut self.backoff, now);
        }
    }

    /// Forgets all coordinators on a node that is gone. They are looked up again when a caller
    /// asks.
    pub(crate) fn invalidate_node(&mut self, node: NodeId, now: Instant) {
        for entry in self.entries.values_mut() {
            if entry.state == Coordinator::Known(node) {
                Self::lose(entry, &mut self.backoff, now);
            }
        }
    }

    fn lose(entry: &mut Entry, backoff: &mut Backoff, now: Instant) {
        entry.state = Coordinator::Unknown;
        entry.wanted = false;
        // Without the wait, a dead coordinator that brokers keep naming would cause a busy loop.
        entry.next_allowed = Some(now + backoff.after(entry.failures));
    }

    /// Returns the lookups to send now.
    pub(crate) fn due(&self, now: Instant) -> Vec<CoordinatorKey> {
        self.entries
            .iter()
            .filter(|(_, e)| e.wanted && !e.in_flight && e.next_allowed.is_none_or(|at| now >= at))
            .map(|(key, _)| key.clone())
            .collect()
    }

    pub(crate) fn next_deadline(&self, now: Instant) -> Option<Instant> {
        self.entries
            .values()
            .filter(|e| e.wanted && !e.in_flight)
            .filter_map(|e| e.next_allowed)
            .filter(|&at| at > now)
            .min()
    }

    pub(crate) fn started(&mut self, key: &CoordinatorKey) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.in_flight = true;
        }
    }

    /// Notes that no usable response came. The lookup is due again after a backoff.
    pub(crate) fn failed(&mut self, key: &CoordinatorKey, now: Instant) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.in_flight = false;
            let wait = self.backoff.after(entry.failures);
            entry.failures = entry.failures.saturating_add(1);
            entry.next_allowed = Some(now + wait);
        }
    }

    /// Applies a response. Returns the coordinator's node and address if the response names one.
    pub(crate) fn answered(
        &mut self,
        key: &CoordinatorKey,
        response: &FindCoordinatorResponse,
        now: Instant,
    ) -> Option<(NodeId, Address)> {
        let Some(told) = Told::of(key, response) else {
            self.failed(key, now);
            return None;
        };
        if told.error.is_retriable() {
            self.failed(key, now);
            return None;
        }
        let entry = self.entries.get_mut(key)?;
        entry.in_flight = false;
        entry.wanted = false;
        if told.error != ErrorCode::NONE {
            entry.state = Coordinator::Failed {
                error: told.error,
                // Detached, because the slice would keep the response in memory.
                message: told.message.as_ref().map(Str::detached),
            };
            return None;
        }
        entry.failures = 0;
        entry.next_allowed = None;
        entry.state = Coordinator::Known(told.node);
        Some((
            told.node,
            Address {
                host: told.host.to_string(),
                port: u16::try_from(told.port).unwrap_or(0),
            },
        ))
    }
}

/// Refuses a key without a request. A request that cannot be encoded must not count as a failure of
/// the broker.
fn too_long(kind: CoordinatorType, bytes: usize) -> Coordinator {
    let (what, error) = match kind {
        CoordinatorType::Transaction => ("transactional ID", ErrorCode::INVALID_REQUEST),
        _ => ("group ID", ErrorCode::INVALID_GROUP_ID),
    };
    let text =
        format!("the {what} has {bytes} bytes, more than the {KEY_BYTES_MAX} of Kafka's protocol");
    Coordinator::Failed {
        error,
        message: Some(Str::from(text)),
    }
}

/// The same facts from either form of the response.
struct Told {
    error: ErrorCode,
    message: Option<Str>,
    node: NodeId,
    host: Str,
    port: i32,
}

impl Told {
    fn of(key: &CoordinatorKey, response: &FindCoordinatorResponse) -> Option<Self> {
        if response.coordinators.is_empty() {
            return Some(Self {
                error: ErrorCode(response.error_code),
                message: response.error_message.clone(),
                node: response.node_id,
                host: response.host.clone(),
                port: response.port,
            });
        }
        let found = response.coordinators.iter().find(|c| c.key == key.1)?;
        Some(Self {
            error: ErrorCode(found.error_code),
            message: found.error_message.clone(),
            node: found.node_id,
            host: found.host.clone(),
            port: found.port,
        })
    }
}

pub(crate) fn request(key: &CoordinatorKey, version: i16) -> FindCoordinatorRequest {
    let batched = version >= BATCHED_VERSION;
    FindCoordinatorRequest {
        key: if batched {
            Str::default()
        } else {
            key.1.clone()
        },
        key_type: key.0 as i8,
        coordinator_keys: if batched {
            vec![key.1.clone()]
        } else {
            Vec::new()
        },
    }
}
