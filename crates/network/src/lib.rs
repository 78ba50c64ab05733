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
//! This crate moves bytes and runs the cores, which decide what to send where and when. A call
//! that may have to wait is an [`Operation`], and the caller decides how it waits. The crate
//! deliberately knows nothing about Python.

// The cores must not read clocks or draw random numbers. This crate does it for them.
#![allow(clippy::disallowed_methods)]

mod client;
mod clock;
mod codec_pool;
mod config;
mod connection;
mod error;
pub mod fuzzing;
mod heartbeats;
pub mod log;
mod metrics;
mod operation;
mod per_process;
mod runtime;
pub mod sasl;
mod signals;
pub mod tls;
pub mod transport;
pub mod wait;

pub mod admin;
pub mod consumer;
pub mod producer;

pub use client::{
    Bootstrap, Client, ClientView, Close, EncodeBody, NamedRequest, Negotiation, OnResponse, Parts,
    Question, Request, RequestTarget, Response, Ticket, VersionChoice,
};
pub use clock::WallClock;
pub use config::{ClientConfig, SecurityProtocol};
pub use error::ClientError;
pub use heartbeats::{HeartbeatNews, HeartbeatOutcome, HeartbeatPlan, PollWatch, Polling};
pub use operation::Operation;
pub use per_process::PerProcess;
pub use runtime::{Generation, Runtime};
pub use signals::BlockedSignals;
