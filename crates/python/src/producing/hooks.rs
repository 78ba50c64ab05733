//! `send` with Python steps: interceptors, serializers, a partitioner, acknowledgement hooks.
//!
//! The order is Java's: `on_send`, checks, metadata, `serialize`, `partition`, append. All waits
//! of one send share one `max_block_ms`.

use std::sync::Arc;
use std::time::Instant;

use pyo3::PyTraverseError;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyString};
use thalweg_producer::{AppendRefusal, Appended, Record, TopicEntry};
use thalweg_records::Headers;

use crate::client::cluster::ClusterMetadata;
use crate::convert::options::now_ms;
use crate::convert::types::Sizes;
use crate::interpreter::failures;
use crate::interpreter::foreign::Foreign;
use crate::producing::append::Waits;
use crate::producing::futures::{Awaited, SentRecord, when_batch_done};
use crate::producing::open_producer::OpenProducer;
use crate::producing::outgoing;
use crate::producing::outgoing::{Data, HeaderList, header_refs, header_size, need_key_or_value};
use crate::producing::sending::{Given, sent};

/// The Python steps of a producer. Each is optional.
pub(crate) struct Hooks {
    on_send: Option<Py<PyAny>>,
    serialize: Option<Py<PyAny>>,
    partition: Option<Py<PyAny>>,
    on_new_batch: Option<Py<PyAny>>,
    on_acknowledgement: Option<Py<PyAny>>,
}

/// The output of the serializers.
type KeyAndValue<'py> = (Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

/// The progress of one record through the Python steps.
#[derive(Default)]
pub(crate) struct Steps {
    intercepted: bool,
    prepared: Option<Prepared>,
}

/// A record after the serializers and the partitioner.
struct Prepared {
    key: Option<Py<PyAny>>,
    value: Option<Py<PyAny>>,
    headers: HeaderList,
    partition: Option<i32>,
    timestamp_ms: i64,
    /// KIP-480: the partitioner is asked again if the append would open a batch.
    choose_again: bool,
}

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

    /// Shows the hooks to the garbage collector: serializers, interceptors and partitioners often
    /// belong to the object that has the producer, which forms a cycle.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(self.on_send.as_ref())?;
        visit.call(self.serialize.as_ref())?;
        visit.call(self.partition.as_ref())?;
        visit.call(self.on_new_batch.as_ref())?;
        visit.call(self.on_acknowledgement.as_ref())
    }

    pub(crate) fn has_serializer(&self) -> bool {
        self.serialize.is_some()
    }

    /// Whether each element of a column needs a Python step other than the serializer.
    pub(crate) fn is_per_record(&self) -> bool {
        self.on_send.is_some() || self.partition.is_some() || self.on_acknowledgement.is_some()
    }

    /// Runs the remaining steps of a record. Returns `None` if it must wait first.
    pub(crate) fn send(
        &self,
        py: Python<'_>,
        core: &OpenProducer,
        given: &mut Given,
        steps: &mut Steps,
        waits: &mut Waits,
    ) -> PyResult<Option<SentRecord>> {
        if !steps.intercepted {
            steps.intercepted = true;
            if let Some(hook) = &self.on_send {
                *given = intercepted(py, hook, given)?;
            }
        }
        if steps.prepared.is_none() {
            steps.prepared = self.prepared(py, core, given, waits)?;
        }
        match &mut steps.prepared {
            Some(prepared) => self.append(py, core, given, prepared, waits),
            None => Ok(None),
        }
    }

    /// Serializes a record and chooses its partition. Returns `None` if it must wait for the
    /// metadata of its topic first.
    fn prepared(
        &self,
        py: Python<'_>,
        core: &OpenProducer,
        given: &Given,
        waits: &mut Waits,
    ) -> PyResult<Option<Prepared>> {
        core.check_open(py)?;
        let _foreign = Foreign::begin(py)?;
        let present =
            |data: &Option<Py<PyAny>>| data.as_ref().is_some_and(|data| !data.is_none(py));
        need_key_or_value(present(&given.key), present(&given.value))?;
        if let Some(timestamp_ms) = given.timestamp_ms {
            outgoing::check_timestamp(given.topic.bind(py), timestamp_ms)?;
        }
        let topic = core.topic(given.topic.bind(py))?;
        if topic.partition_count() == 0 {
            core.wait_for_topic(&topic, waits);
            return Ok(None);
        }
        let headers = header_objects(py, given.headers.as_ref())?;
        let (key, value) = self.serialized(py, given, &headers)?;
        let mut prepared = Prepared {
            key: key.map(Bound::unbind),
            value: value.map(Bound::unbind),
            headers: HeaderList::new(headers.as_any())?,
            partition: given.partition,
            timestamp_ms: given.timestamp_ms.unwrap_or_else(now_ms),
            choose_again: false,
        };
        let (has_key, _) = prepared.data(py)?;
        if prepared.partition.is_none() && self.partition.is_some() {
            prepared.choose_again = self.on_new_batch.is_some() && has_key.as_slice().is_none();
            prepared.partition = Some(self.partition_of(py, core, given, &prepared)?);
        }
        Ok(Some(prepared))
    }

    fn append(
        &self,
        py: Python<'_>,
        core: &OpenProducer,
        given: &Given,
        prepared: &mut Prepared,
        waits: &mut Waits,
    ) -> PyResult<Option<SentRecord>> {
        if std::mem::take(&mut prepared.choose_again) {
            let topic = core.topic(given.topic.bind(py))?;
            let append = |record: &Record<'_>| Ok(append_to_open_batch(py, core, &topic, record));
            let (appended, sizes) = prepared.with_record(py, append)?;
            match appended {
                Ok(appended) => return Ok(Some(sent(appended, prepared.timestamp_ms, sizes))),
                Err(AppendRefusal::NewBatch) => {}
                Err(refusal) => {
                    core.wait_after(py, &topic, prepared.partition, refusal, waits)?;
                    return Ok(None);
                }
            }
            drop(topic);
            self.choose_again(py, core, given, prepared)?;
        }
        let topic = core.topic(given.topic.bind(py))?;
        let append = |record: &Record<'_>| core.append(py, &topic, record, waits);
        let (appended, sizes) = prepared.with_record(py, append)?;
        Ok(appended.map(|appended| sent(appended, prepared.timestamp_ms, sizes)))
    }

    /// Has the partitioner choose again, because the record needs a new batch (KIP-480).
    fn choose_again(
        &self,
        py: Python<'_>,
        core: &OpenProducer,
        given: &Given,
        prepared: &mut Prepared,
    ) -> PyResult<()> {
        let _foreign = Foreign::begin(py)?;
        if let Some(hook) = &self.on_new_batch {
            let cluster = ClusterMetadata::new(core.view().metadata().snapshot());
            hook.call1(py, (&given.topic, cluster, prepared.partition))?;
        }
        prepared.partition = Some(self.partition_of(py, core, given, prepared)?);
        Ok(())
    }

    fn serialized<'py>(
        &self,
        py: Python<'py>,
        given: &Given,
        headers: &Bound<'py, PyList>,
    ) -> PyResult<KeyAndValue<'py>> {
        let Some(hook) = &self.serialize else {
            let bound = |data: &Option<Py<PyAny>>| data.as_ref().map(|data| data.bind(py).clone());
            return Ok((bound(&given.key), bound(&given.value)));
        };
        let (key, value): (Bound<'py, PyAny>, Bound<'py, PyAny>) = hook
            .bind(py)
            .call1((&given.topic, headers, &given.key, &given.value))?
            .extract()?;
        Ok((Some(key), Some(value)))
    }

    fn partition_of(
        &self,
        py: Python<'_>,
        core: &OpenProducer,
        given: &Given,
        prepared: &Prepared,
    ) -> PyResult<i32> {
        let (key, value) = (&prepared.key, &prepared.value);
        let hook = self
            .partition
            .as_ref()
            .expect("the caller checked that there is a partitioner");
        let cluster = ClusterMetadata::new(core.view().metadata().snapshot());
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

    /// Calls `on_acknowledgement` once the record is done, even if the application drops its
    /// future.
    pub(crate) fn hear_of(&self, py: Python<'_>, sent: &SentRecord) {
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
                    failures::report(py, "on_acknowledgement", error);
                }
            }),
        );
    }

    pub(crate) fn tell_failure<'py, E>(&self, py: Python<'py>, error: &Bound<'py, E>) {
        let Some(hook) = &self.on_acknowledgement else {
            return;
        };
        // At exit, no application code may start.
        let Ok(_foreign) = Foreign::begin(py) else {
            return;
        };
        if let Err(raised) = hook.call1(py, (py.None(), error.as_any())) {
            failures::report(py, "on_acknowledgement", raised);
        }
    }
}

impl Prepared {
    fn data<'a>(&'a self, py: Python<'a>) -> PyResult<(Data<'a>, Data<'a>)> {
        let key = Data::new(self.key.as_ref().map(|key| key.bind(py)), "key")?;
        let value = Data::new(self.value.as_ref().map(|value| value.bind(py)), "value")?;
        Ok((key, value))
    }

    /// Passes the record as slices, and the sizes of its parts.
    fn with_record<T>(
        &self,
        py: Python<'_>,
        append: impl FnOnce(&Record<'_>) -> PyResult<T>,
    ) -> PyResult<(T, Sizes)> {
        let (key, value) = self.data(py)?;
        let headers = self.headers.data(py)?;
        let refs = header_refs(&headers);
        let record = Record {
            partition: self.partition,
            timestamp_ms: self.timestamp_ms,
            key: key.as_slice(),
            value: value.as_slice(),
            headers: Headers::List(&refs),
        };
        let appended = append(&record)?;
        let sizes = Sizes {
            key: key.size(),
            value: value.size(),
            headers: header_size(&refs),
        };
        Ok((appended, sizes))
    }
}

/// Appends a record, unless it needs a new batch: then the partitioner chooses again first. This is
/// not in the core, because the partitioner is the application's code.
fn append_to_open_batch(
    py: Python<'_>,
    core: &OpenProducer,
    topic: &Arc<TopicEntry>,
    record: &Record<'_>,
) -> Result<Appended, AppendRefusal> {
    let accumulator = &core.accumulator;
    match accumulator.try_append_to_open_batch(topic, record, Instant::now) {
        // A bulk append may hold the partition's lock for some time, so this waits without the GIL.
        Err(AppendRefusal::Contended) => {
            py.detach(|| accumulator.append_to_open_batch(topic, record, Instant::now))
        }
        result => result,
    }
}

static PRODUCER_RECORD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Creates the record that interceptors see.
fn producer_record<'py>(py: Python<'py>, given: &Given) -> PyResult<Bound<'py, PyAny>> {
    let class = PRODUCER_RECORD.get_or_try_init(py, || {
        py.import("thalweg.interceptor")?
            .getattr("ProducerRecord")
            .map(Bound::unbind)
    })?;
    class.bind(py).call1((
        &given.topic,
        &given.value,
        &given.key,
        &given.headers,
        given.partition,
        given.timestamp_ms,
    ))
}

fn intercepted(py: Python<'_>, hook: &Py<PyAny>, given: &Given) -> PyResult<Given> {
    let _foreign = Foreign::begin(py)?;
    let record = producer_record(py, given)?;
    let changed = hook.bind(py).call1((record,))?;
    let optional = |name: &str| -> PyResult<Option<Py<PyAny>>> {
        let value = changed.getattr(name)?;
        Ok((!value.is_none()).then(|| value.unbind()))
    };
    Ok(Given {
        topic: topic_name(&changed.getattr("topic")?)?.unbind(),
        value: optional("value")?,
        key: optional("key")?,
        headers: optional("headers")?,
        partition: outgoing::partition(&changed.getattr("partition")?)?,
        timestamp_ms: outgoing::timestamp_ms(&changed.getattr("timestamp_ms")?)?,
    })
}

/// Creates a list that serializers may append to.
fn header_objects<'py>(
    py: Python<'py>,
    headers: Option<&Py<PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    match headers {
        None => Ok(PyList::empty(py)),
        Some(given) => {
            let given = given.bind(py);
            HeaderList::new(given)?;
            let list = PyList::empty(py);
            for pair in given.try_iter()? {
                list.append(pair?)?;
            }
            Ok(list)
        }
    }
}

/// Returns the topic's name. Its characters are checked when its metadata is requested.
pub(crate) fn topic_name<'py>(topic: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
    topic.cast::<PyString>().cloned().map_err(|_| {
        let kind = outgoing::type_name(topic);
        PyTypeError::new_err(format!("topic must be a str, got {kind}"))
    })
}
