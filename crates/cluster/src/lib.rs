//! Which broker, when: metadata, connection states, API versions, in-flight requests, coordinators.
//!
//! ```text
//!   role core (sender, fetcher)          network
//!     is_ready / send / add_topic          handle(event, now)
//!              │                               │
//!              ▼                               ▼
//!        ┌──────────────────── Cluster ────────────────────┐
//!        │ metadata   connections   coordinators  versions │
//!        └──────┬──────────────────────────────────┬───────┘
//!               ▼                                  ▼
//!        poll_response()                     poll_action()
//! ```
//!
//! Everything is a state machine: an event goes in, actions and responses are polled out until none
//! is left, and [`Cluster::next_deadline`] says when to come back. Time is an argument.
//!
//! What it deliberately does not do: open sockets, resolve names, read a clock, or know what a
//! request means beyond the few that it sends itself (Metadata, `FindCoordinator`).
#![forbid(unsafe_code)]

mod address;
mod api_versions;
mod backoff;
mod cluster;
mod config;
mod connection;
mod connections;
mod coordinators;
mod error;
mod event;
pub mod metadata;
pub mod metrics;
mod nodes;
mod notifier;
mod request;
mod role;
mod throttle;

pub use address::{Address, AddressError};
pub use api_versions::ApiVersions;
pub use backoff::Backoff;
pub use cluster::Cluster;
pub use config::ClusterConfig;
pub use coordinators::{Coordinator, CoordinatorType};
pub use error::{ConnectionError, RequestError, SetupStep, UnsupportedVersion};
pub use event::{Action, ConnectionId, Event};
pub use metadata::{InvalidTopic, Metadata, Node, Partition, SharedMetadata, Topic};
pub use notifier::Notifier;
pub use request::{Body, Frame, NodeId, Outgoing, Purpose, RequestId, ResponseBody};
pub use role::{Idle, Job, NoJob, Role};
