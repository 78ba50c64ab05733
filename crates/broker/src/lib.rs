//! The embedded broker: a Kafka of 1 to N nodes in one process, in memory, over real sockets.
#![deny(unsafe_code)]

mod answer;
mod api;
mod config;
mod context;
mod coordinator;
mod core;
mod embedded;
mod error;
mod fault_builder;
mod faults;
mod fetch;
mod frames;
mod groups;
mod handlers;
mod offsets;
pub mod options;
mod partition;
mod random;
mod server;
#[allow(unsafe_code)]
mod signals;
mod storage;
mod subject;
#[cfg(test)]
#[allow(clippy::disallowed_methods)] // virtual time begins at some instant
mod tests;
mod topic;
mod topology;
mod wait;
mod waiters;

pub use answer::{Answer, Outcome};

pub use crate::core::{Connection, Core, NodeAddress};
pub use config::BrokerConfig;
pub use embedded::EmbeddedBroker;
pub use error::BrokerError;
pub use fault_builder::{FaultBuilder, Faults};
pub use faults::{FaultAction, FaultId, FaultMatch};
pub use groups::{GroupRequest, GroupTicket};
pub use wait::Wait;
