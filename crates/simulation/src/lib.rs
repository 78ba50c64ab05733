//! Clients and brokers in one thread and in virtual time, with faults from a seed.
//!
//! ```text
//!   producer, consumer (the code that ships) ── MemoryNetwork ── Broker: thalweg_broker::Core
//!            │ what was sent and acknowledged                      │ faults drawn from the seed
//!            └──────────────▶ History ◀── what was read ───────────┘
//! ```
//! Three worlds share this: [`Scenario`] (one producer, one reader; `lossy` and `unnumbered` are variants),
//! [`TransactionalScenario`], and [`SharingScenario`] (consumers whose partitions change hands).
//! `tests/planted.rs` proves that they catch known bugs (`thalweg_protocol::planted`).
//!
//! A run is a function of its seed: the same seed gives the same history, so a failing one is kept
//! as a line of a test. Virtual time jumps over all waiting: minutes of retries take milliseconds.
//!
//! Deliberately not here: real sockets, threads, TLS. And no judgement while it runs: the history is
//! checked when it is complete.
// This crate is the one that says what time it is.
#![allow(clippy::disallowed_methods)]
#![forbid(unsafe_code)]

mod atomicity;
mod broker;
mod clients;
mod content;
mod disturbance;
mod faults;
mod group_offset;
mod history;
mod lanes;
mod losses;
mod member;
mod random;
mod scenario;
mod seeds;
mod sending;
mod sharing;
mod transactional;
mod world;
mod writers;

pub use atomicity::{Broken, Ending, Ledger, TransactionId};
pub use faults::FaultPlan;
pub use history::{History, RecordId, Told, Violation};
pub use losses::Losses;
pub use random::Random;
pub use scenario::{Report, Scenario};
pub use seeds::{scale, seeds};
pub use sharing::{SharingReport, SharingScenario};
pub use transactional::{TransactionalReport, TransactionalScenario};
pub use world::World;
