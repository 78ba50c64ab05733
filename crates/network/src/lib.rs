//! The only client crate that does I/O: sockets, TLS, SASL, timers, threads.
//!
//! ```text
//!  application threads                 the I/O thread (one per process)          codec threads
//!  ───────────────────                 ────────────────────────────────          ─────────────
//!  handle ── commands ──┐        ┌──────────── client actor ────────────┐
//!  accumulator, ...     ├notify─▶│ Cluster  +  one Role (sender, ...)   │── jobs ──▶ run
//!  SharedMetadata ──────┘        └──┬────────────▲──────────────────▲───┘             │
//!        ▲                    frames│            │events             └── results ─────┘
//!        └─ Parker (eventfd) ◀──────┼─ wakers    │
//!                                   ▼            │
//!                            connection tasks (one per socket: framing, vectored writes)
//! ```
//!
//! This crate moves bytes and runs the cores, which decide what to send where and when. It
//! deliberately knows nothing about Python: callers pass a closure where a wait must check for
//! signals.

// The cores must not read clocks or draw random numbers. This crate does it for them.
#![allow(clippy::disallowed_methods)]

mod client;
mod clock;
mod codec_pool;
mod config;
mod connection;
mod error;
mod heartbeats;
pub mod log;
mod metrics;
mod per_process;
mod runtime;
pub mod sasl;
mod signals;
pub mod tls;
mod transactions;
pub mod transport;
pub mod wait;

pub mod admin;
pub mod consumer;
pub mod producer;

pub use client::{
    ASK_TIMEOUT, CLOSE_GRACE, Client, ClientView, EncodeBody, NamedRequest, OnAnswer, Parts,
    Request, RequestTarget, Response, Ticket, VersionChoice,
};
pub use clock::WallClock;
pub use config::{ClientConfig, SecurityProtocol};
pub use error::ClientError;
pub use heartbeats::{HeartbeatNews, HeartbeatOutcome, HeartbeatPlan, PollWatch, Polling};
pub use per_process::PerProcess;
pub use runtime::{Generation, Runtime};
pub use signals::BlockedSignals;
pub use transactions::TransactionCall;
