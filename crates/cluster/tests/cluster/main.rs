//! The cluster core in virtual time: each rule is tested by its events and actions.

mod advertised;
mod bootstrap;
mod connections;
mod coordinators;
mod frames;
mod hints;
mod metadata;
mod metrics;
mod requests;
mod sessions;
mod support;
