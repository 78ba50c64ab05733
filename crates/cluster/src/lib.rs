//! Decides which broker to talk to and when: metadata, connection states, API versions, requests in
//! flight and coordinators.
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
//! Everything here is a state machine. Events go in, then the caller polls out actions and
//! responses until none is left. [`Cluster::next_deadline`] says when to poll again. Time is an
//! argument.
//!
//! It deliberately does not open sockets, resolve names or read a clock. It knows the meaning only
//! of the few requests that it sends itself (Metadata, `FindCoordinator`).
#![forbid(unsafe_code)]

mod address;
mod allowed_hosts;
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
mod one_shot;
mod principal;
mod request;
mod role;
mod session;
mod throttle;

pub use address::{Address, AddressError};
pub use allowed_hosts::AllowedHosts;
pub use api_versions::ApiVersions;
pub use backoff::Backoff;
pub use cluster::Cluster;
pub use config::ClusterConfig;
pub use coordinators::{Coordinator, CoordinatorType};
pub use error::{Cause, ConnectionError, RequestError, SetupStep, UnsupportedVersion};
pub use event::{Action, ConnectionId, Event};
pub use metadata::{InvalidTopic, Metadata, Node, Partition, SharedMetadata, Topic};
pub use notifier::Notifier;
pub use one_shot::OneShot;
pub use principal::Principal;
pub use request::{Body, Frame, NodeId, Outgoing, Purpose, RequestId, ResponseBody};
pub use role::{Idle, Job, NoJob, Role};
pub use session::SaslSession;
