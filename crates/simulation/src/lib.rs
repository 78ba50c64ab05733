//! Runs clients and brokers in one thread and in virtual time, with faults drawn from a seed.
//!
//! ```text
//!   producer, consumer (the code that ships) ── MemoryNetwork ── Broker: thalweg_broker::Core
//!            │ what was sent and acknowledged                      │ faults drawn from the seed
//!            └──────────────▶ History ◀── what was read ───────────┘
//! ```
//! There are three kinds of worlds: [`Scenario`] (one producer, one reader; `lossy` and
//! `unnumbered` are variants), [`TransactionalScenario`], and [`SharingScenario`] (consumers whose
//! partitions move between them). `tests/planted.rs` proves that they find known bugs
//! (`thalweg_protocol::planted`).
//!
//! A run depends only on its seed. The same seed gives the same history, so a failing seed is kept
//! as a line of a test. Virtual time skips all waiting: minutes of retries take milliseconds.
//!
//! There are no real sockets, threads or TLS. Nothing is judged during a run: the history is
//! checked when it is complete.
// This crate provides the time, so it may use clocks.
#![allow(clippy::disallowed_methods)]
#![forbid(unsafe_code)]

mod history;
mod random;
mod scenarios;
mod seeds;
mod world;

pub use history::atomicity::{Broken, Ending, Ledger, TransactionId};
pub use history::losses::Losses;
pub use history::{History, RecordId, Told, Violation};
pub use random::Random;
pub use scenarios::one_reader::{Report, Scenario};
pub use scenarios::sharing::{SharingReport, SharingScenario};
pub use scenarios::transactional::{TransactionalReport, TransactionalScenario};
pub use seeds::{scale, seeds};
pub use world::World;
pub use world::faults::FaultPlan;
pub use world::sessions::SessionCounts;
