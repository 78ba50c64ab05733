//! `send` with Python steps: interceptors, serializers, a partitioner, acknowledgement hooks.
//!
//! Java's order: `on_send`, checks, metadata, `serialize`, `partition`, append. All waits of one
//! send share one `max_block_ms`.

use std::time::Instant;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use thalweg_producer::{AppendRefusal, Appended, Record};
use thalweg_records::Headers;

use crate::append::{Appender, NotAppended, now_ms};
use crate::cluster::ClusterMetadata;
use crate::futures::{Awaited, FutureRecordMetadata, Sent, when_batch_done};
use crate::outgoing::{Data, HeaderList, header_refs, header_size, need_key_or_value};
use crate::types::Sizes;
use crate::{callbacks, types};

/// The Python steps of a producer; each may be absent.
pub(crate) struct Hooks {
    on_send: Option<Py<PyAny>>,
    serialize: Option<Py<PyAny>>,
    partition: Option<Py<PyAny>>,
    on_new_batch: Option<Py<PyAny>>,
    on_acknowledgement: Option<Py<PyAny>>,
}

/// One record as the application gave it.
pub(crate) struct Given<'py> {
    pub(crate) topic: Bound<'py, PyString>,
    pub(crate) value: Option<Bound<'py, PyAny>>,
    pub(crate) key: Option<Bound<'py, PyAny>>,
    pub(crate) headers: Option<Bound<'py, PyAny>>,
    pub(crate) partition: Option<i32>,
    pub(crate) timestamp_ms: Option<i64>,
}

/// What the serializers made.
type KeyAndValue<'py> = (Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

impl Hooks {
    pub(crate) fn new(hooks: &Bound<'_, PyAny>) -> PyResult<Self> {
        let read = |name: &str| -> PyResult<Option<Py<PyAny>>> {
            let hook = hooks.getattr(name)?;
            Ok((!hook.is_none()).then(|| hook.unbind()))
        };
        Ok(Self {
            on_send: read("on_send")?,
            serialize: read("serialize")?,
            partition: read("partition")?,
            on_new_batch: read("on_new_batch")?,
            on_acknowledgement: read("on_acknowledgement")?,
        })
    }

    pub(crate) fn has_serializer(&self) -> bool {
        self.serialize.is_some()
    }

    /// Whether an element of a column would have to visit Python.
    pub(crate) fn is_per_record(&self) -> bool {
        self.on_send.is_some() || self.partition.is_some() || self.on_acknowledgement.is_some()
    }

    pub(crate) fn send<'py>(
        &self,
        py: Python<'py>,
        appender: &Appender,
        given: Given<'py>,
    ) -> PyResult<FutureRecordMetadata> {
        match self.send_one(py, appender, given) {
            Ok(sent) => Ok(FutureRecordMetadata::sent(sent)),
            Err(NotAppended::Fail(error)) => Ok(FutureRecordMetadata::refused(error)),
            Err(NotAppended::Raise(error)) => Err(error),
        }
    }

    /// One record through all steps; those who want to hear of it do, whatever comes of it.
    pub(crate) fn send_one<'py>(
        &self,
        py: Python<'py>,
        appender: &Appender,
        given: Given<'py>,
    ) -> Result<Sent, NotAppended> {
        let given = match &self.on_send {
            Some(hook) => intercepted(py, hook, given)?,
            None => given,
        };
        let sent = self.try_send(py, appender, &given);
        match &sent {
            Ok(sent) => self.hear_of(py, sent),
            Err(NotAppended::Fail(error)) => self.tell_failure(py, error.bind(py)),
            Err(NotAppended::Raise(error)) => self.tell_failure(py, error.value(py)),
        }
        sent
    }

    fn try_send<'py>(
        &self,
        py: Python<'py>,
        appender: &Appender,
        given: &Given<'py>,
    ) -> Result<Sent, NotAppended> {
        let deadline = appender.budget();
        let present =
            |data: &Option<Bound<'py, PyAny>>| data.as_ref().is_some_and(|d| !d.is_none());
        need_key_or_value(present(&given.key), present(&given.value))?;
        let topic = appender.topic(&given.topic)?;
        if topic.partition_count() == 0 {
            appender.await_partition(py, topic.name(), None, deadline)?;
        }
        let headers = header_objects(py, given.headers.as_ref())?;
        let serialized = self.serialized(py, given, &headers)?;
        let key_data = Data::new(serialized.0.as_ref(), "key")?;
        let value_data = Data::new(serialized.1.as_ref(), "value")?;
        let held = HeaderList::new(headers.as_any())?;
        let header_data = held.data()?;
        let refs = header_refs(&header_data);
        let mut record = Record {
            partition: given.partition,
            timestamp_ms: given.timestamp_ms.unwrap_or_else(now_ms),
            key: key_data.as_slice(),
            value: value_data.as_slice(),
            headers: Headers::List(&refs),
        };
        let chosen = record.partition.is_none() && self.partition.is_some();
        if chosen {
            record.partition = Some(self.partition_of(py, appender, given, &serialized)?);
        }
        let appended = if chosen && self.on_new_batch.is_some() && record.key.is_none() {
            self.append_or_choose_again(py, appender, given, &mut record, &serialized, deadline)?
        } else {
            self.append(py, appender, given, &record, deadline)?
        };
        Ok(Sent {
            completion: appended.completion,
            index: appended.index,
            timestamp_ms: record.timestamp_ms,
            sizes: Sizes {
                key: key_data.size(),
                value: value_data.size(),
                headers: header_size(&refs),
            },
        })
    }

    fn append(
        &self,
        py: Python<'_>,
        appender: &Appender,
        given: &Given<'_>,
        record: &Record<'_>,
        deadline: Instant,
    ) -> Result<Appended, NotAppended> {
        let topic = appender.topic(&given.topic)?;
        match appender.accumulator.try_append(topic, record, Instant::now) {
            Ok(appended) => Ok(appended),
            Err(refusal) => appender.wait_and_append(py, topic, record, refusal, deadline),
        }
    }

    /// KIP-480: an append that would open a new batch lets the partitioner choose once more.
    fn append_or_choose_again<'py>(
        &self,
        py: Python<'py>,
        appender: &Appender,
        given: &Given<'py>,
        record: &mut Record<'_>,
        serialized: &KeyAndValue<'py>,
        deadline: Instant,
    ) -> Result<Appended, NotAppended> {
        let topic = appender.topic(&given.topic)?;
        let accumulator = &appender.accumulator;
        let tried = accumulator.try_append_to_open_batch(topic, record, Instant::now);
        let appended = match tried {
            // A bulk append may hold the partition's lock for a while, and it waits without the GIL.
            Err(AppendRefusal::Contended) => {
                py.detach(|| accumulator.append_to_open_batch(topic, record, Instant::now))
            }
            other => other,
        };
        match appended {
            Ok(appended) => Ok(appended),
            Err(AppendRefusal::NewBatch) => {
                if let Some(hook) = &self.on_new_batch {
                    let cluster = ClusterMetadata::new(appender.metadata.snapshot());
                    hook.call1(py, (&given.topic, cluster, record.partition))?;
                }
                record.partition = Some(self.partition_of(py, appender, given, serialized)?);
                self.append(py, appender, given, record, deadline)
            }
            Err(refusal) => appender.wait_and_append(py, topic, record, refusal, deadline),
        }
    }

    fn serialized<'py>(
        &self,
        py: Python<'py>,
        given: &Given<'py>,
        headers: &Bound<'py, PyList>,
    ) -> PyResult<KeyAndValue<'py>> {
        let Some(hook) = &self.serialize else {
            return Ok((given.key.clone(), given.value.clone()));
        };
        let (key, value): (Bound<'py, PyAny>, Bound<'py, PyAny>) = hook
            .bind(py)
            .call1((&given.topic, headers, &given.key, &given.value))?
            .extract()?;
        Ok((Some(key), Some(value)))
    }

    fn partition_of<'py>(
        &self,
        py: Python<'py>,
        appender: &Appender,
        given: &Given<'py>,
        serialized: &KeyAndValue<'py>,
    ) -> PyResult<i32> {
        let (key, value) = serialized;
        let hook = self
            .partition
            .as_ref()
            .expect("asked for only with a partitioner");
        let cluster = ClusterMetadata::new(appender.metadata.snapshot());
        let chosen =
            hook.bind(py)
                .call1((&given.topic, &given.key, key, &given.value, value, cluster))?;
        if chosen.is_none() {
            return Err(PyValueError::new_err(format!(
                "the partitioner chose no partition for a record of topic {}",
                given.topic
            )));
        }
        chosen.extract()
    }

    /// Every record is told of, whether or not the application looks at its future.
    fn hear_of(&self, py: Python<'_>, sent: &Sent) {
        let Some(hook) = &self.on_acknowledgement else {
            return;
        };
        let (hook, known) = (hook.clone_ref(py), sent.clone());
        when_batch_done(
            py,
            &sent.completion,
            sent.index,
            Box::new(move |py| {
                let told = known.outcome(py).and_then(|outcome| match outcome {
                    Ok(metadata) => hook.call1(py, (metadata, py.None())),
                    Err(error) => hook.call1(py, (py.None(), error)),
                });
                if let Err(error) = told {
                    callbacks::report(py, "on_acknowledgement", error);
                }
            }),
        );
    }

    fn tell_failure<'py, E>(&self, py: Python<'py>, error: &Bound<'py, E>) {
        let Some(hook) = &self.on_acknowledgement else {
            return;
        };
        if let Err(raised) = hook.call1(py, (py.None(), error.as_any())) {
            callbacks::report(py, "on_acknowledgement", raised);
        }
    }
}

fn intercepted<'py>(py: Python<'py>, hook: &Py<PyAny>, given: Given<'py>) -> PyResult<Given<'py>> {
    let record = types::producer_record(py, &given)?;
    let changed = hook.bind(py).call1((record,))?;
    let optional = |name: &str| -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = changed.getattr(name)?;
        Ok((!value.is_none()).then_some(value))
    };
    Ok(Given {
        topic: topic_name(&changed.getattr("topic")?)?,
        value: optional("value")?,
        key: optional("key")?,
        headers: optional("headers")?,
        partition: changed.getattr("partition")?.extract()?,
        timestamp_ms: changed.getattr("timestamp_ms")?.extract()?,
    })
}

/// A list that serializers may append to.
fn header_objects<'py>(
    py: Python<'py>,
    headers: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    match headers {
        None => Ok(PyList::empty(py)),
        Some(given) => {
            HeaderList::new(given)?;
            let list = PyList::empty(py);
            for pair in given.try_iter()? {
                list.append(pair?)?;
            }
            Ok(list)
        }
    }
}

/// A topic's name as given; its characters are checked where its metadata is asked for.
pub(crate) fn topic_name<'py>(topic: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
    topic.cast::<PyString>().cloned().map_err(|_| {
        let kind = topic
            .get_type()
            .name()
            .map_or_else(|_| "?".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!("topic must be a str, got {kind}"))
    })
}
