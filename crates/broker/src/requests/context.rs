//! [`Context`]: what a handler gets besides the request.

use std::time::Instant;

use thalweg_protocol::{ErrorCode, Str};

use crate::core::{Connection, Core};
use crate::faults::{Applied, FaultAction};
use crate::requests::needs::Needs;
use crate::topology::coordinator::CoordinatorKind;
use crate::transactions::Now;

/// Longer group names are refused.
const GROUP_ID_BYTES_MAX: usize = 1000;

/// The broker and the circumstances of one request. Handlers get the time only from here.
pub(crate) struct Context<'a> {
    pub(crate) core: &'a mut Core,
    /// The node that received the request.
    pub(crate) node: i32,
    /// The client's side, and who the client is.
    pub(crate) connection: &'a mut Connection,
    /// What the client must be allowed to do.
    pub(crate) needs: Needs,
    pub(crate) version: i16,
    /// The size of the frame that contained the request.
    pub(crate) frame_bytes: usize,
    pub(crate) now: Instant,
    pub(crate) now_ms: i64,
    /// The error that a fault injects.
    pub(crate) injected: Option<Injected>,
    pub(crate) client_id: Option<Str>,
    /// How long the client must wait, because it has exceeded a quota.
    pub(crate) throttle_ms: i32,
}

/// An error code that a fault injects.
#[derive(Debug, Clone)]
pub(crate) struct Injected {
    code: ErrorCode,
    /// `None` means whatever the request names.
    topic: Option<Str>,
}

impl Injected {
    pub(crate) fn from_fault(fault: &Applied) -> Option<Self> {
        match fault.action {
            FaultAction::Fail(code) => Some(Self {
                code,
                topic: fault.topic.clone(),
            }),
            _ => None,
        }
    }

    pub(crate) fn for_topic(&self, topic: &str) -> Option<ErrorCode> {
        let concerned = self.topic.as_deref().is_none_or(|name| name == topic);
        concerned.then_some(self.code)
    }

    pub(crate) fn code(&self) -> ErrorCode {
        self.code
    }
}

impl Context<'_> {
    /// Returns why a topic is refused: a fault injects an error, or the client may not use it.
    pub(crate) fn refusal_for(&self, topic: &str) -> Option<ErrorCode> {
        let injected = self.injected_for(topic);
        injected.or_else(|| self.denied_cluster().or_else(|| self.denied_topic(topic)))
    }

    /// Returns why the complete request is refused.
    pub(crate) fn refusal(&self) -> Option<ErrorCode> {
        self.injected().or_else(|| self.denied_cluster())
    }

    /// Returns the error that a fault injects for this topic.
    pub(crate) fn injected_for(&self, topic: &str) -> Option<ErrorCode> {
        self.injected.as_ref()?.for_topic(topic)
    }

    /// Returns the error that a fault injects, for an API with a single error.
    pub(crate) fn injected(&self) -> Option<ErrorCode> {
        self.injected.as_ref().map(Injected::code)
    }

    /// The error that a fault wants for the whole request, as it names no topic.
    pub(crate) fn injected_for_all(&self) -> Option<ErrorCode> {
        let injected = self.injected.as_ref()?;
        injected.topic.is_none().then_some(injected.code)
    }

    pub(crate) fn time(&self) -> Now {
        Now {
            instant: self.now,
            ms: self.now_ms,
        }
    }

    /// Whether this node coordinates the group or transactional id.
    pub(crate) fn coordinates(&self, kind: CoordinatorKind, key: &str) -> bool {
        let node = self.core.coordinator(kind, key);
        node.is_some_and(|node| node.id == self.node)
    }

    /// Refuses groups that another node coordinates, and names that are too long to be compared for
    /// each partition of a request.
    pub(crate) fn check_coordinator(&self, group: &str) -> Result<(), ErrorCode> {
        if let Some(code) = self
            .denied_group(group)
            .filter(|_| self.injected_for_all().is_none())
        {
            return Err(code);
        }
        if group.len() > GROUP_ID_BYTES_MAX && self.injected_for_all().is_none() {
            return Err(ErrorCode::INVALID_GROUP_ID);
        }
        self.check_coordinates(CoordinatorKind::Group, group)
    }

    /// Refuses empty group names, and groups that another node coordinates.
    pub(crate) fn check_group(&self, group: &str) -> Result<(), ErrorCode> {
        if group.is_empty() && self.injected_for_all().is_none() {
            return Err(ErrorCode::INVALID_GROUP_ID);
        }
        self.check_coordinator(group)
    }

    /// Refuses empty transactional ids, and those that another node coordinates.
    pub(crate) fn check_transactional(&self, id: &str) -> Result<(), ErrorCode> {
        if id.is_empty() && self.injected_for_all().is_none() {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        if let Some(code) = self.denied_transactional_id(id)
            && self.injected_for_all().is_none()
        {
            return Err(code);
        }
        self.check_coordinates(CoordinatorKind::Transaction, id)
    }

    fn check_coordinates(&self, kind: CoordinatorKind, key: &str) -> Result<(), ErrorCode> {
        match self.injected_for_all() {
            Some(code) => Err(code),
            None if self.coordinates(kind, key) => Ok(()),
            None => Err(ErrorCode::NOT_COORDINATOR),
        }
    }
}
