//! The steps of one `send`, for both `KafkaProducer` and `AIOKafkaProducer`.
//!
//! ```text
//! attempt ── appended ──▶ Sent                                  (nearly always, without a wait)
//!    └─ refused ──▶ Waiting ── poll ──▶ attempt again, with the memory that it got
//! ```
//! All waits of one send share one `max_block_ms`. The Python steps run once: their results are
//! kept during a wait.

use std::task::Waker;
use std::time::Instant;

use pyo3::prelude::*;
use pyo3::types::PyString;
use thalweg_producer::{Appended, Record, Reservation};
use thalweg_records::Headers;

use crate::convert::types::Sizes;
use crate::operation::{Operation, is_over};
use crate::producing::append::{Appender, Brought, NotAppended, Refused, Unmet, Waiting, now_ms};
use crate::producing::core::Core;
use crate::producing::futures::{FutureRecordMetadata, Sent};
use crate::producing::hooks::Steps;
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

/// A record in a batch, or the error for its future (other errors are raised).
pub(crate) type Outcome = Result<Sent, Py<PyAny>>;

/// A send that is not finished.
pub(crate) struct Sending {
    given: Given,
    /// The progress of the Python steps, if there are any.
    steps: Steps,
    waiting: Option<Waiting>,
    deadline: Option<Instant>,
}

impl Sending {
    #[inline]
    pub(crate) fn new(given: Given) -> Self {
        Self {
            given,
            steps: Steps::default(),
            waiting: None,
            deadline: None,
        }
    }

    /// Continues to the end or to the next wait.
    #[inline]
    pub(crate) fn attempt(
        &mut self,
        py: Python<'_>,
        core: &Core,
        memory: Option<Reservation>,
    ) -> PyResult<Option<Outcome>> {
        let result = match &core.hooks {
            None => send_plain(py, &core.appender, &mut self.given, memory),
            Some(hooks) => hooks.send(py, &core.appender, &mut self.given, &mut self.steps, memory),
        };
        match result {
            Ok(sent) => {
                if let Some(hooks) = &core.hooks {
                    hooks.hear_of(py, &sent);
                }
                Ok(Some(Ok(sent)))
            }
            Err(Refused::Not(error)) => self.failed(py, core, error),
            Err(Refused::Wait(waiting)) => {
                self.waiting = Some(waiting);
                self.deadline.get_or_insert_with(|| core.appender.budget());
                Ok(None)
            }
        }
    }

    /// Handles a record that is not sent. The acknowledgement hook hears of it too.
    #[cold]
    pub(crate) fn failed(
        &self,
        py: Python<'_>,
        core: &Core,
        error: NotAppended,
    ) -> PyResult<Option<Outcome>> {
        if let Some(hooks) = &core.hooks {
            match &error {
                NotAppended::Fail(error) => hooks.tell_failure(py, error.bind(py)),
                NotAppended::Raise(error) => hooks.tell_failure(py, error.value(py)),
            }
        }
        match error {
            NotAppended::Fail(error) => {
                // Only its future reports it, so a transaction must learn of it.
                core.appender.accumulator.note_refused(&error.to_string());
                Ok(Some(Err(error)))
            }
            NotAppended::Raise(error) => Err(error),
        }
    }
}

impl Operation for Sending {
    type Output = Outcome;

    fn poll(&mut self, py: Python<'_>, core: &Core, waker: &Waker) -> PyResult<Option<Outcome>> {
        loop {
            let mut memory = None;
            if let Some(waiting) = &mut self.waiting {
                let brought: Result<Brought, Unmet> = match waiting.poll(py, &core.appender, waker)
                {
                    Some(brought) => brought,
                    None if !is_over(self.deadline) => return Ok(None),
                    None => Err(waiting.timed_out(py, &core.appender)),
                };
                self.waiting = None;
                match brought {
                    Ok(Brought::Memory(reserved)) => memory = Some(reserved),
                    Ok(Brought::Metadata(_)) => {
                        core.appender.refresh(self.given.topic.bind(py).to_str()?);
                    }
                    Err(unmet) => return self.failed(py, core, unmet.into_error(py)),
                }
            }
            if let Some(outcome) = self.attempt(py, core, memory)? {
                return Ok(Some(outcome));
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Tells the acknowledgement hook that this record is not sent.
    #[cold]
    fn given_up(&self, py: Python<'_>, core: &Core, error: &PyErr) {
        if let Some(hooks) = core.hooks.as_ref().filter(|_| self.waiting.is_some()) {
            hooks.tell_failure(py, error.value(py));
        }
    }
}

/// Implements `KafkaProducer.send`.
#[inline]
pub(crate) fn send(py: Python<'_>, core: &Core, given: Given) -> PyResult<FutureRecordMetadata> {
    let mut sending = Sending::new(given);
    let outcome = match sending.attempt(py, core, None)? {
        Some(outcome) => outcome,
        None => crate::operation::run(py, core, &mut sending)?,
    };
    Ok(match outcome {
        Ok(sent) => FutureRecordMetadata::sent(sent),
        Err(error) => FutureRecordMetadata::refused(error),
    })
}

/// Sends a record without Python steps.
#[inline]
fn send_plain(
    py: Python<'_>,
    appender: &Appender,
    given: &mut Given,
    memory: Option<Reservation>,
) -> Result<Sent, Refused> {
    let timestamp_ms = *given.timestamp_ms.get_or_insert_with(now_ms);
    check_timestamp(given.topic.bind(py), timestamp_ms)?;
    let key = Data::new(given.key.as_ref().map(|key| key.bind(py)), "key")?;
    let value = Data::new(given.value.as_ref().map(|value| value.bind(py)), "value")?;
    need_key_or_value(key.as_slice().is_some(), value.as_slice().is_some())?;
    let topic = appender.topic(given.topic.bind(py))?;
    let record = Record {
        partition: given.partition,
        timestamp_ms,
        key: key.as_slice(),
        value: value.as_slice(),
        headers: Headers::default(),
    };
    let (appended, headers) = match &given.headers {
        None => (appender.append(py, &topic, &record, memory)?, -1),
        Some(headers) => {
            let held = HeaderList::new(headers.bind(py))?;
            let data = held.data(py)?;
            let refs = header_refs(&data);
            let record = Record {
                headers: Headers::List(&refs),
                ..record
            };
            let appended = appender.append(py, &topic, &record, memory)?;
            (appended, header_size(&refs))
        }
    };
    let sizes = Sizes {
        key: key.size(),
        value: value.size(),
        headers,
    };
    Ok(sent(appended, timestamp_ms, sizes))
}

#[inline]
pub(crate) fn sent(appended: Appended, timestamp_ms: i64, sizes: Sizes) -> Sent {
    Sent {
        completion: appended.completion,
        index: appended.index,
        timestamp_ms,
        sizes,
    }
}
