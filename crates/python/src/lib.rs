//! The extension module `thalweg._core`. It only converts and delegates.
//!
//! ```text
//! Python ── extract ──▶ the crates (producer, consumer, columns, broker) ── results ──▶ Python
//!              gil.rs: releases the GIL to wait      errors.rs: the only error map
//! ```
//! Code here that decides about Kafka's semantics is a bug: it belongs in the crate of its topic.

// Arguments of Python methods arrive by value, and methods have a self even if they do not use it.
// Threads, waits and deadlines are the job of this crate: it passes `now` to the cores.
#![allow(clippy::needless_pass_by_value, clippy::unused_self)]
#![allow(clippy::disallowed_methods)]

use pyo3::prelude::*;

mod append;
mod async_consumer;
mod async_producer;
mod awaiting;
mod batch_futures;
mod batch_metadata;
mod broker;
mod broker_groups;
mod call;
mod callbacks;
mod capsules;
mod client;
mod cluster;
mod completions;
mod config;
mod consumer;
mod consumer_arguments;
mod consumer_core;
mod errors;
mod foreign;
mod futures;
mod gil;
mod heartbeats;
mod hooks;
mod job;
mod list_source;
mod lookups;
mod loop_queue;
mod metrics;
mod operation;
mod outgoing;
mod polling;
mod producer;
mod producer_core;
mod reader;
mod record_future;
mod record_waits;
mod records;
mod running_loop;
mod runtime;
mod send_many;
mod sending;
mod settings;
mod sink;
mod sleepers;
mod tables;
mod topics;
mod transactions;
mod types;
mod untracked;
mod usage;
mod values;

#[pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use crate::async_consumer::AsyncConsumer;
    #[pymodule_export]
    use crate::async_producer::AsyncProducer;
    #[pymodule_export]
    use crate::batch_futures::FutureBatchMetadata;
    #[pymodule_export]
    use crate::batch_metadata::BatchMetadata;
    #[pymodule_export]
    use crate::broker::EmbeddedBroker;
    #[pymodule_export]
    use crate::call::{Call, JobCall};
    #[pymodule_export]
    use crate::client::{Client, PendingRequest};
    #[pymodule_export]
    use crate::cluster::ClusterMetadata;
    #[pymodule_export]
    use crate::completions::Completions;
    #[pymodule_export]
    use crate::consumer::Consumer;
    #[pymodule_export]
    use crate::futures::FutureRecordMetadata;
    #[pymodule_export]
    use crate::metrics::{Timer, call_every};
    #[pymodule_export]
    use crate::producer::Producer;
    #[pymodule_export]
    use crate::reader::PartitionReader;
    #[pymodule_export]
    use crate::record_future::RecordFuture;
    #[pymodule_export]
    use crate::records::ConsumerRecord;
    #[pymodule_export]
    use crate::runtime::{
        begin_exit, runtime_threads, set_log_level, stop_threads, wait_for_callbacks,
    };
    #[pymodule_export]
    use crate::tables::{ArrowBatch, RecordTable};

    #[pymodule_init]
    fn init(py: pyo3::Python<'_>) {
        thalweg_consumer::run_lock_waits(crate::gil::wait_for_lock);
        crate::awaiting::set_send_slot::<Call>(py);
        crate::awaiting::set_send_slot::<JobCall>(py);
        crate::awaiting::set_send_slot::<RecordFuture>(py);
    }

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
