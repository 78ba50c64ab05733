//! The steps of one `send`, for both `KafkaProducer` and `AIOKafkaProducer`.
//!
//! ```text
//! attempt ── appended ──▶ SentRecord                            (nearly always, without a wait)
//!    └─ refused ──▶ AppendWait ── poll ──▶ append again, with the memory that it got
//! ```
//! All waits of one send share one `max_block_ms`. The Python steps run once: their results are
//! kept during a wait.

use std::ops::Deref;
use std::task::Waker;
use std::time::Instant;

use pyo3::prelude::*;
use pyo3::types::PyString;
use thalweg_network::{ClientError, Operation};
use thalweg_producer::{Appended, Record};
use thalweg_records::Headers;

use crate::convert::errors;
use crate::convert::options::now_ms;
use crate::convert::types::Sizes;
use crate::operation::{PyOperation, run};
use crate::producing::append::Waits;
use crate::producing::futures::{FutureRecordMetadata, SentRecord};
use crate::producing::hooks::Steps;
use crate::producing::open_producer::OpenProducer;
use crate::producing::outgoing::{
    Data, HeaderList, check_timestamp, header_refs, header_size, need_key_or_value,
};

/// One record as the application passed it.
pub(crate) struct Given {
    pub(crate) topic: Py<PyString>,
    pub(crate) value: Option<Py<PyAny>>,
    pub(crate) key: Option<Py<PyAny>>,
    pub(crate) headers: Option<Py<PyAny>>,
    pub(crate) partition: Option<i32>,
    pub(crate) timestamp_ms: Option<i64>,
}

/// A send that is not finished. Its output is the place of the record in a batch, or the error for
/// its future. Other errors are raised. `C` is a reference to the core: borrowed by a call that
/// blocks, shared by a coroutine.
pub(crate) struct Sending<C> {
    core: C,
    given: Given,
    /// The progress of the Python steps, if there are any.
    steps: Steps,
    waits: Waits,
}

impl<C: Deref<Target = OpenProducer>> Sending<C> {
    #[inline]
    pub(crate) fn new(core: C, given: Given) -> Self {
        Self {
            core,
            given,
            steps: Steps::default(),
            waits: Waits::default(),
        }
    }

    /// Tells the acknowledgement hook that the record is not sent.
    #[cold]
    fn tell(&self, py: Python<'_>, error: &PyErr) {
        if let Some(hooks) = &self.core.hooks {
            hooks.tell_failure(py, error.value(py));
        }
    }

    /// Ends a send whose wait failed. If the brokers refuse the topic, only its future reports it.
    #[cold]
    fn wait_failed(
        &self,
        py: Python<'_>,
        error: &ClientError,
    ) -> PyResult<Result<SentRecord, Py<PyAny>>> {
        let raised = errors::client(py, error);
        self.tell(py, &raised);
        if !matches!(error, ClientError::Broker { .. }) {
            return Err(raised);
        }
        // A transaction must know of it too.
        let text = raised.value(py).to_string();
        self.core.accumulator.note_refused(&text);
        Ok(Err(raised.into_value(py).into_any()))
    }
}

impl<C: Deref<Target = OpenProducer>> PyOperation for Sending<C> {
    type Output = Result<SentRecord, Py<PyAny>>;

    fn check(&self, py: Python<'_>) -> PyResult<()> {
        OpenProducer::check(&self.core, py)
    }

    /// Continues to the end or to the next wait.
    #[inline]
    fn attempt(&mut self, py: Python<'_>) -> PyResult<Option<Self::Output>> {
        let core: &OpenProducer = &self.core;
        let (given, waits) = (&mut self.given, &mut self.waits);
        let sent = match &core.hooks {
            None => send_plain(py, core, given, waits),
            Some(hooks) => hooks.send(py, core, given, &mut self.steps, waits),
        };
        let sent = sent.inspect_err(|error| self.tell(py, error))?;
        if let (Some(sent), Some(hooks)) = (&sent, &core.hooks) {
            hooks.hear_of(py, sent);
        }
        Ok(sent.map(Ok))
    }

    fn poll(&mut self, py: Python<'_>, waker: &Waker) -> PyResult<Option<Self::Output>> {
        loop {
            if let Some(wait) = self.waits.current.as_deref_mut() {
                let Some(found) = Operation::poll(wait, waker) else {
                    return Ok(None);
                };
                self.waits.current = None;
                match found {
                    Ok(memory) => self.waits.memory = memory,
                    Err(error) => return self.wait_failed(py, &error).map(Some),
                }
            }
            if let Some(outcome) = self.attempt(py)? {
                return Ok(Some(outcome));
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        Operation::deadline(self.waits.current.as_deref()?)
    }

    fn give_up(&mut self, py: Python<'_>, error: &PyErr) {
        if self.waits.current.is_some() {
            self.tell(py, error);
        }
    }
}

/// Implements `KafkaProducer.send`.
#[inline]
pub(crate) fn send(
    py: Python<'_>,
    core: &OpenProducer,
    given: Given,
) -> PyResult<FutureRecordMetadata> {
    run(py, &mut Sending::new(core, given)).map(FutureRecordMetadata::new)
}

/// Sends a record without Python steps. Returns `None` if it must wait first.
#[inline]
fn send_plain(
    py: Python<'_>,
    core: &OpenProducer,
    given: &mut Given,
    waits: &mut Waits,
) -> PyResult<Option<SentRecord>> {
    let timestamp_ms = *given.timestamp_ms.get_or_insert_with(now_ms);
    check_timestamp(given.topic.bind(py), timestamp_ms)?;
    let key = Data::new(given.key.as_ref().map(|key| key.bind(py)), "key")?;
    let value = Data::new(given.value.as_ref().map(|value| value.bind(py)), "value")?;
    need_key_or_value(key.as_slice().is_some(), value.as_slice().is_some())?;
    let topic = core.topic(given.topic.bind(py))?;
    let record = Record {
        partition: given.partition,
        timestamp_ms,
        key: key.as_slice(),
        value: value.as_slice(),
        headers: Headers::default(),
    };
    let (appended, headers) = match &given.headers {
        None => (core.append(py, &topic, &record, waits)?, -1),
        Some(headers) => {
            let held = HeaderList::new(headers.bind(py))?;
            let data = held.data(py)?;
            let refs = header_refs(&data);
            let record = Record {
                headers: Headers::List(&refs),
                ..record
            };
            let appended = core.append(py, &topic, &record, waits)?;
            (appended, header_size(&refs))
        }
    };
    let sizes = Sizes {
        key: key.size(),
        value: value.size(),
        headers,
    };
    Ok(appended.map(|appended| sent(appended, timestamp_ms, sizes)))
}

#[inline]
pub(crate) fn sent(appended: Appended, timestamp_ms: i64, sizes: Sizes) -> SentRecord {
    SentRecord {
        completion: appended.completion,
        index: appended.index,
        timestamp_ms,
        sizes,
    }
}
