//! The only client crate that does I/O: sockets, TLS, SASL, timers, threads.
//!
//! ```text
//!  application threads                 the I/O thread (one a process)            codec threads
//!  ───────────────────                 ──────────────────────────────            ─────────────
//!  handle ── commands ──┐        ┌──────────── client actor ────────────┐
//!  accumulator, ...     ├notify─▶│ Cluster  +  one Role (sender, ...)   │── jobs ──▶ run
//!  SharedMetadata ──────┘        └──┬────────────▲──────────────────▲───┘             │
//!        ▲                    frames│            │events             └── results ─────┘
//!        └─ Parker (eventfd) ◀──────┼─ wakers    │
//!                                   ▼            │
//!                            connection tasks (one a socket: framing, vectored writes)
//! ```
//!
//! It moves bytes and turns the crank; what to send where and when is decided in the cores. It
//! deliberately knows nothing of Python: callers pass a closure where a wait must look for signals.

// The cores may not read clocks or draw random numbers; this crate does it for them.
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
pub use heartbeats::{HeartbeatOutcome, HeartbeatPlan, PollWatch, Polling};
pub use per_process::PerProcess;
pub use runtime::{Generation, Runtime};
pub use signals::BlockedSignals;
pub use transactions::TransactionCall;
