//! [`EmbeddedBroker`]: a broker with sockets, started and steered from the program it runs in.

use std::collections::BTreeMap;

use thalweg_protocol::{ApiKey, ErrorCode, Str};

use crate::{BrokerConfig, BrokerError, FaultAction, FaultId, FaultMatch};

pub struct EmbeddedBroker;

impl EmbeddedBroker {
    /// Returns when all nodes accept connections.
    pub fn start(config: BrokerConfig) -> Result<Self, BrokerError> {
        let _ = config;
        todo!()
    }
    pub fn bootstrap_servers(&self) -> String {
        todo!()
    }
    pub fn host(&self) -> &str {
        todo!()
    }
    pub fn node_ids(&self) -> Vec<i32> {
        todo!()
    }
    pub fn ports(&self) -> Vec<u16> {
        todo!()
    }
    pub fn is_running(&self) -> bool {
        todo!()
    }
    pub fn create_topic(
        &self,
        name: &str,
        partitions: i32,
        replication_factor: i16,
        configs: &BTreeMap<String, String>,
    ) -> Result<(), BrokerError> {
        let _ = (name, partitions, replication_factor, configs);
        todo!()
    }
    pub fn delete_topic(&self, name: &str) -> Result<(), BrokerError> {
        let _ = name;
        todo!()
    }
    pub fn topics(&self) -> BTreeMap<String, i32> {
        todo!()
    }
    pub fn leader(&self, topic: &str, partition: i32) -> Result<i32, BrokerError> {
        let _ = (topic, partition);
        todo!()
    }
    pub fn move_leader(&self, topic: &str, partition: i32, node: i32) -> Result<(), BrokerError> {
        let _ = (topic, partition, node);
        todo!()
    }
    pub fn stop_node(&self, node: i32) -> Result<(), BrokerError> {
        let _ = node;
        todo!()
    }
    pub fn start_node(&self, node: i32) -> Result<(), BrokerError> {
        let _ = node;
        todo!()
    }
    pub fn faults(&self) -> Faults {
        todo!()
    }
    /// Requests seen since the start, by API name.
    pub fn requests(&self, api: Option<ApiKey>) -> BTreeMap<String, u64> {
        let _ = api;
        todo!()
    }
    /// Idempotent; bounded.
    pub fn close(&self) {}
}

/// The faults of a running broker.
#[derive(Clone)]
pub struct Faults;

impl Faults {
    /// Begins a fault for one API; `any()` for all.
    pub fn on(&self, api: ApiKey) -> FaultBuilder {
        let _ = api;
        todo!()
    }
    pub fn any(&self) -> FaultBuilder {
        todo!()
    }
    /// What the builder ends in. `times` `None`: until removed.
    pub fn add(&self, matches: FaultMatch, action: FaultAction, times: Option<u32>) -> FaultId {
        let _ = (matches, action, times);
        todo!()
    }
    pub fn remove(&self, id: FaultId) -> bool {
        let _ = id;
        todo!()
    }
    pub fn clear(&self) {}
    /// How often it has applied; also after it was used up. `None`: removed or never added.
    pub fn hits(&self, id: FaultId) -> Option<u64> {
        let _ = id;
        todo!()
    }
}

/// One fault in the making: applies once unless `times` or `forever` says otherwise.
pub struct FaultBuilder;

impl FaultBuilder {
    #[must_use]
    pub fn node(self, node: i32) -> Self {
        let _ = node;
        self
    }
    #[must_use]
    pub fn topic(self, topic: impl Into<Str>) -> Self {
        let _ = topic.into();
        self
    }
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        let _ = times;
        self
    }
    #[must_use]
    pub fn forever(self) -> Self {
        self
    }
    pub fn then_fail(self, code: ErrorCode) -> FaultId {
        let _ = code;
        todo!()
    }
    pub fn then_delay(self, delay: std::time::Duration) -> FaultId {
        let _ = delay;
        todo!()
    }
    pub fn then_disconnect(self) -> FaultId {
        todo!()
    }
    pub fn apply_then_disconnect(self) -> FaultId {
        todo!()
    }
    pub fn then_silence(self) -> FaultId {
        todo!()
    }
}
