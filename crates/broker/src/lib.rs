//! The embedded broker: a Kafka of 1 to N nodes in one process, in memory, over real sockets.
//!
//! ```text
//! EmbeddedBroker --starts--> server (one thread, the sockets)
//!       |                       | frames, now
//!       |                       v
//!       '----- the program --> Core --> api: table of APIs, faults --> handlers: one file an API
//!                               |-- topology: nodes, topics, who leads
//!                               |-- partition: log, producers (dedup), who waits
//!                               |     '-- storage: batches in wire form, by offset and by time
//!                               |-- fetch: sessions, reading, the answer's bytes
//!                               |-- transactions: the coordinator of transactions
//!                               |-- offsets: what groups committed, and for how long it is kept
//!                               '-- groups: members as their coordinator has them; the way to it
//! ```
//! `Core` and all below it have no socket, thread or clock: time is an argument, so tests run in
//! virtual time. The integration tests run on it and on real Kafkas; `examples/answers` prints what
//! a broker answers, and a test compares that with a real one.
//!
//! Where it is like Kafka it is strict: every batch is opened and checked, sequences and epochs
//! are those of Kafka's producer state, segments roll and vanish by Kafka's rules. Where it is not:
//! nothing is replicated (replicas exist on paper, acks=all is acks=1), nothing is compacted,
//! nothing survives the process, and there is no TLS, SASL or ACL. Groups have members only if a
//! coordinator outside of this crate serves them: see [`GroupService`].
#![deny(unsafe_code)]

mod answer;
mod api;
mod assignment;
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
mod mishaps;
mod offsets;
mod offsets_retention;
pub mod options;
mod partition;
mod pending_offsets;
mod random;
mod server;
#[allow(unsafe_code)]
mod signals;
mod storage;
mod subject;
#[cfg(test)]
#[allow(clippy::disallowed_methods)] // virtual time begins at some instant
mod tests;
mod timer;
mod topic;
mod topology;
mod transactions;
mod wait;
mod waiters;

pub use answer::{Answer, Outcome};

pub use crate::core::{Connection, Core, NodeAddress};
pub use config::BrokerConfig;
pub use embedded::EmbeddedBroker;
pub use error::BrokerError;
pub use fault_builder::{FaultBuilder, Faults};
pub use faults::{FaultAction, FaultId, FaultMatch};
pub use groups::{
    GroupEvent, GroupEventKind, GroupKind, GroupRequest, GroupTicket, GroupView, MemberView,
};
pub use mishaps::{Lost, Refusals};
pub use server::{GroupClock, GroupService};
pub use wait::Wait;
