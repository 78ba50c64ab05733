//! The embedded broker: a Kafka of 1 to N nodes in one process, in memory, over real sockets.
#![deny(unsafe_code)]

mod config;
mod embedded;
mod error;
mod faults;
pub mod options;
mod partition;
mod random;
mod storage;
mod topic;
mod topology;
mod waiters;

pub use config::BrokerConfig;
pub use embedded::{EmbeddedBroker, FaultBuilder, Faults};
pub use error::BrokerError;
pub use faults::{FaultAction, FaultId, FaultMatch};
