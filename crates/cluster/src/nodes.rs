//! Which nodes exist: bootstrap addresses, the brokers in the metadata, and coordinators'
//! endpoints.

use std::collections::BTreeMap;
use std::sync::Arc;

use thalweg_protocol::SplitMix64;

use crate::address::Address;
use crate::allowed_hosts::AllowedHosts;
use crate::config::ClusterConfig;
use crate::error::ConnectionError;
use crate::metadata::{Metadata, NODES_MAX, Node};
use crate::request::NodeId;

/// Addresses by node id. Bootstrap addresses have the ids -1, -2, ...
#[derive(Debug)]
pub(crate) struct Nodes {
    bootstrap: Vec<Address>,
    /// The hosts that brokers may advertise, besides those of `bootstrap`.
    allowed: Option<AllowedHosts>,
    known: BTreeMap<NodeId, Address>,
    /// True until the first metadata, and again after a rebootstrap.
    bootstrapping: bool,
    random: SplitMix64,
}

impl Nodes {
    pub(crate) fn new(config: &ClusterConfig) -> Self {
        Self {
            bootstrap: config.bootstrap_servers.clone(),
            allowed: config.advertised_hosts_allowed.clone(),
            known: BTreeMap::new(),
            bootstrapping: true,
            random: SplitMix64::new(config.seed ^ 5),
        }
    }

    pub(crate) fn address(&self, node: NodeId) -> Option<&Address> {
        if node < 0 {
            // -1 is the first. `-(node + 1)` cannot overflow for negative numbers.
            return self.bootstrap.get(usize::try_from(-(node + 1)).ok()?);
        }
        self.known.get(&node)
    }

    /// Checks that the client may connect to the address that a node advertises.
    pub(crate) fn check_host(
        &self,
        node: NodeId,
        host: &str,
        port: u16,
    ) -> Result<(), ConnectionError> {
        let is_named = || self.bootstrap.iter().any(|each| each.host == host);
        match &self.allowed {
            Some(allowed) if node >= 0 && !allowed.contains(host) && !is_named() => {
                Err(ConnectionError::HostNotAllowed {
                    node,
                    address: Address::new(host, port).to_string(),
                    allowed: allowed.clone(),
                })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn bootstrap_ids(&self) -> impl Iterator<Item = (NodeId, &Address)> {
        (1..).map(|n: NodeId| -n).zip(&self.bootstrap)
    }

    /// Returns the nodes that can respond to a request about the cluster, in rotation from a random
    /// one.
    pub(crate) fn candidates(&mut self) -> Vec<NodeId> {
        let mut ids: Vec<NodeId> = if self.bootstrapping {
            self.bootstrap_ids().map(|(id, _)| id).collect()
        } else {
            self.known.keys().copied().collect()
        };
        if ids.len() > 1 {
            let start = self.random.below(ids.len() as u64);
            ids.rotate_left(start as usize);
        }
        ids
    }

    pub(crate) fn is_bootstrapping(&self) -> bool {
        self.bootstrapping
    }

    pub(crate) fn rebootstrap(&mut self) {
        self.bootstrapping = true;
    }

    /// Takes over the brokers of a new snapshot. Returns the nodes that moved to another address.
    pub(crate) fn update(&mut self, snapshot: &Arc<Metadata>) -> Vec<NodeId> {
        self.bootstrapping = false;
        let before = std::mem::take(&mut self.known);
        for node in snapshot.nodes() {
            self.known.insert(node.id, address(node));
        }
        before
            .into_iter()
            .filter(|(id, old)| self.known.get(id).is_some_and(|new| new != old))
            .map(|(id, _)| id)
            .collect()
    }

    /// Adds a node that a response named before the metadata did (a coordinator or a new leader).
    pub(crate) fn learn(&mut self, id: NodeId, address: Address) {
        if self.known.len() < NODES_MAX {
            self.known.insert(id, address);
        }
    }

    /// Returns the node whose advertised address is literally the address of this bootstrap node.
    pub(crate) fn twin_of(&self, bootstrap: NodeId) -> Option<NodeId> {
        let address = self.address(bootstrap)?;
        self.known
            .iter()
            .find(|(_, known)| *known == address)
            .map(|(&id, _)| id)
    }
}

fn address(node: &Node) -> Address {
    Address {
        host: node.host.to_string(),
        port: node.port,
    }
}
