//! The cluster core in virtual time: every rule by the events and actions that show it.

mod bootstrap;
mod connections;
mod coordinators;
mod frames;
mod hints;
mod metadata;
mod metrics;
mod requests;
mod support;
