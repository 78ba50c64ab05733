//! [`Faults`] and [`FaultBuilder`]: how a program adds faults to a running broker.

use std::time::Duration;

use thalweg_protocol::{ApiKey, ErrorCode, Str};

use crate::server::{SharedCore, lock};
use crate::{FaultAction, FaultId, FaultMatch};

/// The faults of a running broker.
///
/// ```no_run
/// # use thalweg_broker::{BrokerConfig, EmbeddedBroker};
/// # use thalweg_protocol::{ApiKey, ErrorCode};
/// # let broker = EmbeddedBroker::start(BrokerConfig::default()).unwrap();
/// let fault = broker
///     .faults()
///     .on(ApiKey::PRODUCE)
///     .topic("flights")
///     .times(2)
///     .then_fail(ErrorCode::NOT_LEADER_OR_FOLLOWER);
/// assert_eq!(broker.faults().hits(fault), Some(0));
/// ```
#[derive(Clone)]
pub struct Faults {
    core: SharedCore,
}

impl Faults {
    pub(crate) fn new(core: SharedCore) -> Self {
        Self { core }
    }

    /// Starts to build a fault for one API.
    pub fn on(&self, api: ApiKey) -> FaultBuilder {
        let mut builder = self.any();
        builder.matches.api = Some(api);
        builder
    }

    /// Starts to build a fault for any API.
    pub fn any(&self) -> FaultBuilder {
        FaultBuilder {
            faults: self.clone(),
            matches: FaultMatch::default(),
            times: Some(1),
        }
    }

    /// Adds a fault. If `times` is `None`, it applies until it is removed.
    pub fn add(&self, matches: FaultMatch, action: FaultAction, times: Option<u32>) -> FaultId {
        lock(&self.core).faults.add(matches, action, times)
    }

    /// Removes a fault. Returns false if there is none with this id.
    pub fn remove(&self, id: FaultId) -> bool {
        lock(&self.core).faults.remove(id)
    }

    pub fn clear(&self) {
        lock(&self.core).faults.clear();
    }

    /// Returns how often the fault has applied, even after it was used up. Returns `None` once it
    /// is removed.
    pub fn hits(&self, id: FaultId) -> Option<u64> {
        lock(&self.core).faults.hits(id)
    }
}

/// Builds one fault. It applies once unless `times` or `forever` is called.
pub struct FaultBuilder {
    faults: Faults,
    matches: FaultMatch,
    times: Option<u32>,
}

impl FaultBuilder {
    /// Only requests that this node receives.
    #[must_use]
    pub fn node(mut self, node: i32) -> Self {
        self.matches.node = Some(node);
        self
    }

    /// Only requests about this topic. If a request names several topics, only this topic's part
    /// fails.
    #[must_use]
    pub fn topic(mut self, topic: impl Into<Str>) -> Self {
        self.matches.topic = Some(topic.into());
        self
    }

    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    #[must_use]
    pub fn forever(mut self) -> Self {
        self.times = None;
        self
    }

    /// See [`FaultAction::Fail`].
    pub fn then_fail(self, code: ErrorCode) -> FaultId {
        self.then(FaultAction::Fail(code))
    }

    /// See [`FaultAction::Delay`].
    pub fn then_delay(self, delay: Duration) -> FaultId {
        self.then(FaultAction::Delay(delay))
    }

    /// See [`FaultAction::Disconnect`].
    pub fn then_disconnect(self) -> FaultId {
        self.then(FaultAction::Disconnect)
    }

    /// See [`FaultAction::ApplyThenDisconnect`].
    pub fn apply_then_disconnect(self) -> FaultId {
        self.then(FaultAction::ApplyThenDisconnect)
    }

    /// See [`FaultAction::Silence`].
    pub fn then_silence(self) -> FaultId {
        self.then(FaultAction::Silence)
    }

    /// See [`FaultAction::BadServerSignature`]. The API and the topic do not matter.
    pub fn bad_server_signature(self) -> FaultId {
        self.then(FaultAction::BadServerSignature)
    }

    /// See [`FaultAction::ScramIterations`].
    pub fn scram_iterations(self, iterations: u32) -> FaultId {
        self.then(FaultAction::ScramIterations(iterations))
    }

    /// See [`FaultAction::CloseInTlsHandshake`].
    pub fn close_in_tls_handshake(self) -> FaultId {
        self.then(FaultAction::CloseInTlsHandshake)
    }

    fn then(self, action: FaultAction) -> FaultId {
        self.faults.add(self.matches, action, self.times)
    }
}
