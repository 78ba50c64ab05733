//! The extension module `thalweg._core`. It only converts and delegates.
//!
//! ```text
//! Python ── extract ──▶ the crates (producer, consumer, columns, broker) ── results ──▶ Python
//!    interpreter/gil.rs: releases the GIL to wait      convert/errors.rs: the only error map
//!
//! producing/     the producer of both APIs        client/        any API by name
//! consuming/     the consumer of both APIs        broker/        the embedded broker
//! asyncio/       both clients for asyncio         convert/       Python objects <-> Rust types
//! operation/     calls that may have to wait      interpreter/   the GIL, callbacks, exit
//! ```
//! Code here that decides about Kafka's semantics is a bug: it belongs in the crate of its topic.

// Arguments of Python methods arrive by value, and methods have a self even if they do not use it.
// Threads, waits and deadlines are the job of this crate: it passes `now` to the cores.
#![allow(clippy::needless_pass_by_value, clippy::unused_self)]
#![allow(clippy::disallowed_methods)]

use pyo3::prelude::*;

mod asyncio;
mod broker;
mod client;
mod consuming;
mod convert;
mod interpreter;
mod operation;
mod producing;

#[pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use crate::asyncio::completions::Completions;
    #[pymodule_export]
    use crate::asyncio::consumer::AsyncConsumer;
    #[pymodule_export]
    use crate::asyncio::coroutine::{ConsumerCoroutine, ProducerCoroutine};
    #[pymodule_export]
    use crate::asyncio::producer::AsyncProducer;
    #[pymodule_export]
    use crate::asyncio::record_future::RecordFuture;
    #[pymodule_export]
    use crate::broker::{BrokerFaults, BrokerGroups, BrokerSecurity, EmbeddedBroker};
    #[pymodule_export]
    use crate::client::cluster::ClusterMetadata;
    #[pymodule_export]
    use crate::client::metrics::{Timer, call_every};
    #[pymodule_export]
    use crate::client::{Client, PendingRequest};
    #[pymodule_export]
    use crate::consuming::consumer::Consumer;
    #[pymodule_export]
    use crate::consuming::reader::RangeReader;
    #[pymodule_export]
    use crate::convert::kerberos::check_kerberos;
    #[pymodule_export]
    use crate::convert::passwords::PasswordReply;
    #[pymodule_export]
    use crate::convert::records::ConsumerRecord;
    #[pymodule_export]
    use crate::convert::signing::sign_jwt;
    #[pymodule_export]
    use crate::convert::tables::{ArrowBatch, RecordTable};
    #[pymodule_export]
    use crate::convert::tls::PreparedTls;
    #[pymodule_export]
    use crate::convert::tokens::TokenReply;
    #[pymodule_export]
    use crate::interpreter::runtime::{
        begin_exit, call_after_callbacks, set_log_level, stop_threads, wait_for_callbacks,
    };
    #[pymodule_export]
    use crate::producing::batch_futures::FutureBatchMetadata;
    #[pymodule_export]
    use crate::producing::batch_metadata::BatchMetadata;
    #[pymodule_export]
    use crate::producing::futures::FutureRecordMetadata;
    #[pymodule_export]
    use crate::producing::producer::Producer;

    #[pymodule_init]
    fn init(py: pyo3::Python<'_>) {
        thalweg_consumer::run_lock_waits(crate::interpreter::gil::wait_for_lock);
        crate::asyncio::awaiting::set_send_slot::<ProducerCoroutine>(py);
        crate::asyncio::awaiting::set_send_slot::<ConsumerCoroutine>(py);
        crate::asyncio::awaiting::set_send_slot::<RecordFuture>(py);
    }

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// Whether this build is fast enough for a benchmark to mean anything.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const is_optimized: bool = !cfg!(debug_assertions);
}
