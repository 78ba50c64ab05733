//! The consumer core against a scripted broker, in virtual time.

mod batches;
mod broker;
mod draining;
mod world;
