//! [`PendingFetch`]: a Fetch that gets its response when there is enough, or when its time is over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_protocol::{ErrorCode, Str};

use super::encode::{self, Head};
use super::read::{PartitionRead, ReadPass};
use super::session::{NO_SESSION, Session, SessionCache};
use super::target::{Target, TargetKey, uses_ids};
use thalweg_security::acl::{Acls, Who};

use crate::Core;
use crate::Principal;
use crate::quotas::{Payer, QuotaKind};
use crate::random::Random;
use crate::requests::context::Injected;
use crate::requests::response::Pieces;
use crate::requests::throttle::throttle_ms;
use crate::requests::waiters::Waiter;
use crate::topology::Topology;

/// About what a partition takes in a response besides its records.
const PARTITION_BYTES: usize = 64;

/// The partitions to read.
#[derive(Debug)]
pub(crate) enum Scope {
    /// Those that the request names. The response contains all of them.
    Request {
        targets: Vec<(TargetKey, Target)>,
        opens_session: bool,
    },
    /// Those of a session. The response contains only the ones with changes.
    Session(i32),
}

#[derive(Debug)]
pub(crate) struct PendingFetch {
    pub(crate) version: i16,
    pub(crate) node: i32,
    pub(crate) read_committed: bool,
    pub(crate) min_bytes: usize,
    pub(crate) max_bytes: usize,
    pub(crate) scope: Scope,
    pub(crate) injected: Option<Injected>,
    pub(crate) reader: Reader,
    pub(crate) client_id: Str,
    /// Until when the client must wait, because the response would exceed its quota.
    pub(crate) throttled: Option<Instant>,
}

/// Who fetches. A rule that is deleted while a fetch waits concerns it, too.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) principal: Principal,
    pub(crate) host: String,
}

impl Reader {
    pub(crate) fn who(&self) -> Who<'_> {
        Who {
            principal: self.principal.text(),
            host: &self.host,
        }
    }
}

impl PendingFetch {
    /// Returns the response's body if it is time for it. Otherwise the next change wakes the
    /// waiter.
    pub(crate) fn poll(
        &mut self,
        core: &mut Core,
        is_over: bool,
        waiter: Option<&Arc<Waiter>>,
        now: Instant,
    ) -> Option<Pieces> {
        let Some(targets) = self.targets(core) else {
            let code = ErrorCode::FETCH_SESSION_ID_NOT_FOUND;
            return Some(error_body(self.version, code, &core.topology));
        };
        let Core {
            topology,
            sessions,
            random,
            acls,
            quotas,
            ..
        } = core;
        let reads = self.read(topology, acls.as_ref(), &targets);
        let bytes: usize = reads.iter().map(PartitionRead::records_bytes).sum();
        let is_ready = is_over
            || reads.is_empty()
            || bytes >= self.min_bytes
            || reads.iter().any(PartitionRead::is_urgent);
        if is_ready {
            let payer = Payer {
                user: self.reader.principal.name(),
                client_id: &self.client_id,
            };
            let size = (bytes + reads.len() * PARTITION_BYTES) as f64;
            let wait = quotas.record_unless_exceeded(QuotaKind::Fetch, payer, size, now);
            if !wait.is_zero() {
                self.throttled = Some(now + wait);
                return Some(self.throttled_body(wait, topology));
            }
            let session_id = self.session_id(sessions, targets, random, now);
            return Some(self.respond(reads, session_id, sessions, topology));
        }
        drop(reads);
        // An injected error would have been returned above, so its partitions do not exist.
        self.injected = None;
        if let Some(waiter) = waiter {
            register(topology, &targets, waiter);
        }
        None
    }

    /// Responds without partitions. A session stays as it is, so the next fetch returns them.
    fn throttled_body(&self, wait: Duration, topology: &Topology) -> Pieces {
        let head = Head {
            version: self.version,
            code: ErrorCode::NONE,
            session_id: match self.scope {
                Scope::Session(id) => id,
                Scope::Request { .. } => NO_SESSION,
            },
            throttle_ms: throttle_ms(wait),
            read_committed: self.read_committed,
        };
        encode::encode(&head, &[], topology)
    }

    fn targets(&self, core: &Core) -> Option<Vec<(TargetKey, Target)>> {
        match &self.scope {
            Scope::Request { targets, .. } => Some(targets.clone()),
            Scope::Session(id) => core.sessions.get(self.node, *id).map(Session::targets),
        }
    }

    fn read<'a>(
        &'a self,
        topology: &'a Topology,
        acls: Option<&'a Acls>,
        targets: &[(TargetKey, Target)],
    ) -> Vec<PartitionRead<'a>> {
        let mut pass = ReadPass {
            topology,
            node: self.node,
            read_committed: self.read_committed,
            bytes_left: self.max_bytes,
            is_first: true,
            injected: self.injected.as_ref(),
            acls,
            who: Who {
                principal: self.reader.principal.text(),
                host: &self.reader.host,
            },
        };
        targets
            .iter()
            .map(|(key, target)| pass.read(key.clone(), target))
            .collect()
    }

    /// Returns the ID of the session for the response. If the request wants a session and a slot is
    /// free, opens one.
    fn session_id(
        &self,
        sessions: &mut SessionCache,
        targets: Vec<(TargetKey, Target)>,
        random: &mut Random,
        now: Instant,
    ) -> i32 {
        match self.scope {
            Scope::Session(id) => id,
            Scope::Request {
                opens_session: false,
                ..
            } => NO_SESSION,
            Scope::Request {
                opens_session: true,
                ..
            } => sessions.open(self.node, targets, uses_ids(self.version), random, now),
        }
    }

    fn respond(
        &self,
        mut reads: Vec<PartitionRead<'_>>,
        session_id: i32,
        sessions: &mut SessionCache,
        topology: &Topology,
    ) -> Pieces {
        if let Some(session) = sessions.get_mut(self.node, session_id) {
            let is_full = matches!(self.scope, Scope::Request { .. });
            reads.retain(|read| session.update(read) || is_full);
        }
        let head = Head {
            version: self.version,
            code: ErrorCode::NONE,
            session_id,
            throttle_ms: 0,
            read_committed: self.read_committed,
        };
        encode::encode(&head, &reads, topology)
    }
}

/// Encodes a response with only an error for the complete request.
pub(crate) fn error_body(version: i16, code: ErrorCode, topology: &Topology) -> Pieces {
    let head = Head {
        version,
        code,
        session_id: NO_SESSION,
        throttle_ms: 0,
        read_committed: false,
    };
    encode::encode(&head, &[], topology)
}

fn register(topology: &mut Topology, targets: &[(TargetKey, Target)], waiter: &Arc<Waiter>) {
    for ((topic, index), _) in targets {
        let partition = topic
            .find_mut(topology)
            .and_then(|topic| topic.partition_mut(*index));
        if let Some(partition) = partition {
            partition.waiters.add(waiter);
        }
    }
}
