//! How batches are sent: requests, retries, sequences, and the order within a partition.

mod draining;
mod expiry;
mod idempotence;
mod idle_topics;
mod ordering;
mod recreated_topics;
mod retries;
mod unanswered_batches;
