//! The embedded broker: a Kafka of 1 to N nodes in one process, in memory, over real sockets.
//!
//! ```text
//! EmbeddedBroker --starts--> server (one thread, the sockets)
//!       |                       | frames, now
//!       |                       v
//!       '----- the program --> Core --> requests: APIs, faults --> handlers: one file per API
//!                               |-- topology: nodes, topics, leaders
//!                               |     '-- partition: log, producers (dedup), waiting requests
//!                               |-- storage: batches in wire form, by offset and by time
//!                               |-- fetch: sessions, reading, the response's bytes
//!                               |-- transactions: the coordinator of transactions
//!                               |-- security: users, and who has logged in
//!                               |-- quotas: what clients may send, read and change
//!                               |-- offsets: committed offsets of groups, and their retention
//!                               '-- groups: members as their coordinator reports them
//! ```
//! `Core` and everything below it have no socket, thread or clock. Time is an argument, so tests
//! run in virtual time. The integration tests run on this broker and on real Kafka.
//! `examples/responses` prints a broker's responses, and a test compares them with those of a real
//! one.
//!
//! It is strict where it implements Kafka: it decodes and checks every batch, sequences and epochs
//! follow Kafka's producer state, segments roll and expire by Kafka's rules. These parts of Kafka
//! are missing: replication (replicas exist only in metadata, acks=all means acks=1), compaction,
//! and persistence beyond the process. Groups have members only if a coordinator outside of this
//! crate serves them: see [`GroupService`].
#![deny(unsafe_code)]

mod config;
mod core;
mod embedded;
mod error;
mod faults;
mod fetch;
mod groups;
mod handlers;
mod offsets;
pub mod options;
mod quotas;
mod random;
mod requests;
mod security;
mod server;
mod storage;
#[cfg(test)]
#[allow(clippy::disallowed_methods)] // virtual time begins at some instant
mod tests;
mod timer;
mod topology;
mod transactions;

pub use crate::core::{Connection, Core, NodeAddress};
pub use config::BrokerConfig;
pub use embedded::EmbeddedBroker;
pub use embedded::faults::{FaultBuilder, Faults};
pub use error::BrokerError;
pub use faults::mishaps::{Lost, Refusals};
pub use faults::{FaultAction, FaultId, FaultMatch, TlsVersion};
pub use groups::{
    GroupEvent, GroupEventKind, GroupKind, GroupRequest, GroupTicket, GroupView, MemberView,
};
pub use requests::response::{Outcome, Response};
pub use requests::wait::Wait;
pub use security::{Principal, SaslMechanism, SecurityConfig, SecurityProtocol, TlsFiles};
pub use server::{GroupClock, GroupService};
