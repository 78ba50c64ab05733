//! The only error map: every Rust error becomes a class of `thalweg.errors`, by name.

use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyModule};
use thalweg_cluster::{Address, Cause, ConnectionError, RequestError};
use thalweg_consumer::ConsumerError;
use thalweg_network::ClientError;
use thalweg_producer::{FailureKind, ProducerError, TransactionFailure};
use thalweg_protocol::{EncodeError, ErrorCode};

use crate::convert::types;

static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

fn module(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    Ok(ERRORS
        .get_or_try_init(py, || py.import("thalweg.errors").map(Bound::unbind))?
        .bind(py))
}

/// Returns an instance of `thalweg.errors.<class>(message)`, to raise or to keep in a future.
pub(crate) fn instance<'py>(
    py: Python<'py>,
    class: &str,
    message: &str,
) -> PyResult<Bound<'py, PyAny>> {
    module(py)?.getattr(class)?.call1((message,))
}

/// Returns an instance with keyword fields after the message.
pub(crate) fn instance_with<'py>(
    py: Python<'py>,
    class: &str,
    message: &str,
    fields: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    module(py)?.getattr(class)?.call((message,), Some(fields))
}

/// Returns an instance for a broker's error code.
pub(crate) fn for_code<'py>(
    py: Python<'py>,
    code: i16,
    message: &str,
) -> PyResult<Bound<'py, PyAny>> {
    module(py)?
        .getattr("for_code")?
        .call1((code,))?
        .call1((message,))
}

/// Returns `thalweg.errors.<class>(message)` as an error to raise.
pub(crate) fn raise(py: Python<'_>, class: &str, message: &str) -> PyErr {
    match instance(py, class, message) {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

/// Returns whether Python would catch the error with `except IllegalStateError`.
pub(crate) fn is_illegal_state(py: Python<'_>, error: &PyErr) -> bool {
    module(py)
        .and_then(|module| module.getattr("IllegalStateError"))
        .is_ok_and(|class| error.matches(py, class).unwrap_or(false))
}

/// Returns the error to raise: the given instance, or what creating it raised.
pub(crate) fn raised(made: PyResult<Bound<'_, PyAny>>) -> PyErr {
    match made {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

/// Converts an error of the client's core into one to raise.
pub(crate) fn client(py: Python<'_>, error: &ClientError) -> PyErr {
    let text = error.to_string();
    match error {
        ClientError::NoBrokersAvailable(causes) => raised(no_brokers(py, causes, &text)),
        ClientError::TimedOut(_) => raise(py, "KafkaTimeoutError", &text),
        ClientError::Connection(cause)
        | ClientError::Request(RequestError::Disconnected { cause, .. }) => {
            raised(connection_instance(py, cause, &text))
        }
        ClientError::Request(RequestError::NotReady { .. }) => {
            raise(py, "NodeNotReadyError", &text)
        }
        ClientError::Request(RequestError::UnsupportedVersion(_)) => {
            raise(py, "IncompatibleBrokerVersion", &text)
        }
        ClientError::Encode(error) => encode(py, error, &text),
        ClientError::Decode(_) => raise(py, "KafkaProtocolError", &text),
        ClientError::InvalidTopic(_) => raise(py, "InvalidTopicError", &text),
        ClientError::Broker { code, .. } => raised(for_code(py, code.0, &text)),
        ClientError::UnknownNode(_) => raise(py, "UnknownBrokerIdError", &text),
        ClientError::Configuration(_) => raise(py, "KafkaConfigurationError", &text),
        ClientError::System(_) => PyOSError::new_err(text),
        ClientError::Failed(_) => raise(py, "KafkaError", &text),
        ClientError::UnknownPartition { .. } => PyValueError::new_err(text),
        ClientError::Producer(cause) => raised(producer(py, cause)),
        ClientError::Consumer(cause) => consumer(py, cause),
        ClientError::Closed | ClientError::Forked => raise(py, "IllegalStateError", &text),
    }
}

/// Converts an error of encoding a request: the broker is too old, or the caller's values do not
/// fit into any version of the request.
pub(crate) fn encode(py: Python<'_>, error: &EncodeError, text: &str) -> PyErr {
    let class = match error {
        EncodeError::UnsupportedVersion { .. }
        | EncodeError::UnsupportedField { .. }
        | EncodeError::UnexpectedNull { .. } => "UnsupportedVersionError",
        _ => "IllegalArgumentError",
    };
    raise(py, class, text)
}

/// Returns what a signal's handler raised, or `KeyboardInterrupt` if it raised nothing.
pub(crate) fn interrupted(py: Python<'_>) -> PyErr {
    match py.check_signals() {
        Err(error) => error,
        Ok(()) => PyKeyboardInterrupt::new_err(()),
    }
}

fn no_brokers<'py>(
    py: Python<'py>,
    causes: &[(Address, String)],
    text: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let addresses = PyDict::new(py);
    for (address, cause) in causes {
        addresses.set_item(address.to_string(), cause)?;
    }
    let fields = PyDict::new(py);
    fields.set_item("addresses", addresses)?;
    instance_with(py, "NoBrokersAvailable", text, &fields)
}

/// Returns the error of a connection, with a text that may say more than its own.
fn connection_instance<'py>(
    py: Python<'py>,
    error: &ConnectionError,
    text: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let made = instance(py, connection_class(error), text)?;
    match error {
        ConnectionError::Authentication { code: None, .. } => made.setattr("by_client", true)?,
        ConnectionError::NoCredentials { error: cause, .. } => {
            if let Some(raised) = cause.as_ref().and_then(raised_by) {
                made.setattr("__cause__", raised.value(py))?;
            }
        }
        _ => {}
    }
    Ok(made)
}

/// Returns what the application's own code raised.
pub(crate) fn raised_by(cause: &Cause) -> Option<&PyErr> {
    cause.downcast_ref::<PyErr>()
}

fn connection_class(error: &ConnectionError) -> &'static str {
    match error {
        ConnectionError::Authentication { code, .. } => match *code {
            Some(ErrorCode::UNSUPPORTED_SASL_MECHANISM) => "UnsupportedSaslMechanismError",
            Some(ErrorCode::ILLEGAL_SASL_STATE) => "IllegalSaslStateError",
            _ => "SaslAuthenticationFailedError",
        },
        ConnectionError::NoCredentials { .. } => "NoCredentialsError",
        ConnectionError::Unsupported { .. } => "UnsupportedVersionError",
        ConnectionError::Malformed(_) => "KafkaProtocolError",
        ConnectionError::WrongCorrelationId { .. } | ConnectionError::Unsolicited(_) => {
            "CorrelationIdError"
        }
        ConnectionError::RequestTimedOut { .. }
        | ConnectionError::SetupTimedOut { .. }
        | ConnectionError::StepTimedOut { .. }
        | ConnectionError::Unanswered { .. } => "KafkaTimeoutError",
        ConnectionError::ClientClosed => "IllegalStateError",
        _ => "KafkaConnectionError",
    }
}

/// Returns the error of a record without acknowledgement, to keep in its future.
pub(crate) fn producer<'py>(py: Python<'py>, error: &ProducerError) -> PyResult<Bound<'py, PyAny>> {
    let made = producer_instance(py, error)?;
    if error.possibly_written() {
        made.setattr("possibly_written", true)?;
    }
    Ok(made)
}

fn producer_instance<'py>(py: Python<'py>, error: &ProducerError) -> PyResult<Bound<'py, PyAny>> {
    let text = error.to_string();
    match error {
        ProducerError::DeliveryTimeout { .. } | ProducerError::ClosedBeforeDelivery { .. } => {
            instance(py, "KafkaTimeoutError", &text)
        }
        ProducerError::Network { .. } => instance(py, "KafkaConnectionError", &text),
        ProducerError::RecordTooLarge { .. } => instance(py, "RecordTooLargeError", &text),
        ProducerError::BufferExhausted => instance(py, "BufferExhaustedError", &text),
        ProducerError::Closed | ProducerError::IllegalState(_) => {
            instance(py, "IllegalStateError", &text)
        }
        ProducerError::TransactionAborted { .. } => instance(py, "TransactionAbortedError", &text),
        ProducerError::TransactionAbortable(failure) => {
            let class = match failure.kind {
                FailureKind::ToldToAbort => "TransactionAbortableError",
                FailureKind::CommitFailed => "TransactionCommitFailedError",
                _ => "AbortableTransactionError",
            };
            transaction(py, class, failure, &text)
        }
        ProducerError::TransactionFatal(failure) => {
            let class = match failure.kind {
                FailureKind::Fenced => "ProducerFencedError",
                FailureKind::NotAuthorized => "TransactionalIdAuthorizationFailedError",
                _ => "FatalTransactionError",
            };
            transaction(py, class, failure, &text)
        }
        ProducerError::Codec { .. } => instance(py, "CorruptRecordError", &text),
        ProducerError::Fatal(_) => instance(py, "KafkaError", &text),
        _ => match error.code() {
            Some(code) => for_code(py, code.0, &text),
            None => instance(py, "KafkaError", &text),
        },
    }
}

/// Returns the error of a transaction. Its origin becomes its `__cause__`.
fn transaction<'py>(
    py: Python<'py>,
    class: &str,
    failure: &TransactionFailure,
    text: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let error = instance(py, class, text)?;
    let cause = match &failure.record {
        Some(record) => Some(producer(py, record)?),
        None if failure.code.is_error() => Some(for_code(py, failure.code.0, &failure.reason)?),
        None => None,
    };
    error.setattr("__cause__", cause)?;
    Ok(error)
}

/// Converts an error about a partition or a lookup into one to raise.
pub(crate) fn consumer(py: Python<'_>, error: &ConsumerError) -> PyErr {
    raised(consumer_instance(py, error))
}

fn consumer_instance<'py>(py: Python<'py>, error: &ConsumerError) -> PyResult<Bound<'py, PyAny>> {
    let text = error.to_string();
    let fields = PyDict::new(py);
    match error {
        ConsumerError::NoOffsetForPartition { partitions } => {
            let list = PyList::empty(py);
            for tp in partitions {
                list.append(types::topic_partition(py, &tp.topic, tp.partition)?)?;
            }
            fields.set_item("partitions", list)?;
            instance_with(py, "NoOffsetForPartitionError", &text, &fields)
        }
        ConsumerError::OffsetOutOfRange {
            partition, offset, ..
        } => {
            let offsets = PyDict::new(py);
            let tp = types::topic_partition(py, &partition.topic, partition.partition)?;
            offsets.set_item(tp, offset)?;
            fields.set_item("offsets", offsets)?;
            instance_with(py, "OffsetOutOfRangeError", &text, &fields)
        }
        ConsumerError::CorruptBatch {
            partition, offset, ..
        } => {
            let tp = types::topic_partition(py, &partition.topic, partition.partition)?;
            fields.set_item("topic_partition", tp)?;
            fields.set_item("offset", offset)?;
            instance_with(py, "CorruptRecordError", &text, &fields)
        }
        ConsumerError::LogTruncation {
            partition,
            offset,
            diverging,
            ..
        } => {
            let tp = types::topic_partition(py, &partition.topic, partition.partition)?;
            let diverging = diverging
                .map(|at| types::offset_and_metadata(py, at.offset, "", at.leader_epoch))
                .transpose()?;
            let divergent_offsets = PyDict::new(py);
            divergent_offsets.set_item(&tp, diverging)?;
            let offsets = PyDict::new(py);
            offsets.set_item(tp, offset)?;
            fields.set_item("offsets", offsets)?;
            module(py)?
                .getattr("LogTruncationError")?
                .call((divergent_offsets, text), Some(&fields))
        }
        ConsumerError::TopicAuthorizationFailed { .. } => {
            instance(py, "TopicAuthorizationFailedError", &text)
        }
        ConsumerError::Broker { code, .. } => for_code(py, code.0, &text),
        ConsumerError::Timeout { .. }
        | ConsumerError::RangeTimeout { .. }
        | ConsumerError::PositionTimeout { .. } => instance(py, "KafkaTimeoutError", &text),
        ConsumerError::Connection { cause, .. } => connection_instance(py, cause, &text),
        ConsumerError::UnsupportedVersion(_) => instance(py, "UnsupportedVersionError", &text),
        ConsumerError::DataLoss { .. } => instance(py, "OffsetOutOfRangeError", &text),
        // NotAssigned, NotSubscribed, Closed, and later errors of the core about a call at the wrong
        // moment.
        _ => instance(py, "IllegalStateError", &text),
    }
}
