//! Converts drained records to Python under the GIL: `{TopicPartition: [ConsumerRecord]}`.

use std::collections::BTreeMap;
use std::sync::Arc;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use thalweg_consumer::{BatchInfo, Offer, RecordSink, TopicPartition};
use thalweg_records::{RawHeaders, RecordRef, TimestampType};

use crate::convert::records::{
    ConsumerRecord, Headers, RawHeaders as KeptHeaders, RecordRun, header_pair,
};
use crate::convert::types;
use crate::interpreter::foreign::Foreign;
use crate::interpreter::untracked::untracked;

/// A consumer that reads many short-lived topics must not keep the objects of all of them.
const PARTITION_OBJECTS_MAX: usize = 100_000;

/// Python objects of one consumer's partitions, each created once.
#[derive(Default)]
struct PartitionObjects(BTreeMap<TopicPartition, (Py<PyString>, Py<PyAny>)>);

impl PartitionObjects {
    /// Returns the topic's name and the `TopicPartition`.
    fn get(
        &mut self,
        py: Python<'_>,
        partition: &TopicPartition,
    ) -> PyResult<(Py<PyString>, Py<PyAny>)> {
        if let Some((topic, object)) = self.0.get(partition) {
            return Ok((topic.clone_ref(py), object.clone_ref(py)));
        }
        let object = types::topic_partition(py, &partition.topic, partition.partition)?;
        let topic = object.getattr("topic")?.cast_into::<PyString>()?.unbind();
        let made = (topic.clone_ref(py), object.clone().unbind());
        if self.0.len() >= PARTITION_OBJECTS_MAX {
            self.0.clear();
        }
        self.0.insert(partition.clone(), (topic, object.unbind()));
        Ok(made)
    }
}

type KeyAndValue = (Py<PyAny>, Py<PyAny>);

/// Python deserializers, called while a record is built.
pub(crate) struct Deserializers {
    pub(crate) key: Option<Py<PyAny>>,
    pub(crate) value: Option<Py<PyAny>>,
}

impl Deserializers {
    pub(crate) fn any(&self) -> bool {
        self.key.is_some() || self.value.is_some()
    }

    fn run(
        &self,
        py: Python<'_>,
        topic: &Py<PyString>,
        key: &Py<PyAny>,
        value: &Py<PyAny>,
        headers: &Bound<'_, PyList>,
    ) -> Result<KeyAndValue, (&'static str, PyErr)> {
        let apply = |hook: &Option<Py<PyAny>>, data: &Py<PyAny>| match hook {
            Some(hook) => hook.call1(py, (topic, headers, data)),
            None => Ok(data.clone_ref(py)),
        };
        let key = apply(&self.key, key).map_err(|error| ("key", error))?;
        let value = apply(&self.value, value).map_err(|error| ("value", error))?;
        Ok((key, value))
    }
}

/// A record whose deserializer raised. It stays in the buffer, with the position before it.
pub(crate) struct Poison {
    pub(crate) partition: TopicPartition,
    pub(crate) offset: i64,
    pub(crate) timestamp: i64,
    pub(crate) key: Option<Py<PyAny>>,
    pub(crate) value: Option<Py<PyAny>>,
    pub(crate) headers: Py<PyAny>,
    pub(crate) part: &'static str,
    pub(crate) cause: PyErr,
}

/// Creates record objects. It is kept between drains, and used by all sinks.
#[derive(Default)]
pub(crate) struct RecordMaker {
    objects: PartitionObjects,
    /// The last run. Most runs have the same partition, leader epoch and timestamp type.
    run: Option<(TopicPartition, Arc<RecordRun>)>,
}

impl RecordMaker {
    fn begin(&mut self, py: Python<'_>, batch: &BatchInfo<'_>) -> PyResult<&Arc<RecordRun>> {
        let kind = timestamp_type(batch.timestamp_type);
        let same = self.run.as_ref().is_some_and(|(partition, run)| {
            run.leader_epoch == batch.leader_epoch
                && run.timestamp_type == kind
                && partition == batch.partition
        });
        if !same {
            let (topic, _) = self.objects.get(py, batch.partition)?;
            let run = RecordRun {
                topic,
                partition: batch.partition.partition,
                leader_epoch: batch.leader_epoch,
                timestamp_type: kind,
            };
            self.run = Some((batch.partition.clone(), Arc::new(run)));
        }
        Ok(&self.run.as_ref().expect("the run was set above").1)
    }

    fn current(&self) -> &(TopicPartition, Arc<RecordRun>) {
        self.run
            .as_ref()
            .expect("a run begins before its first record")
    }

    /// Creates the record object. `Err(Ok(poison))`: a deserializer raised.
    fn make<'py>(
        &self,
        py: Python<'py>,
        deserializers: &Deserializers,
        record: &RecordRef<'_>,
    ) -> Result<Bound<'py, ConsumerRecord>, Result<Box<Poison>, PyErr>> {
        let mut key = bytes(py, record.key);
        let mut value = bytes(py, record.value);
        let mut headers = kept_headers(record.headers);
        let (partition, run) = self.current();
        if deserializers.any() {
            let _foreign = Foreign::begin(py).map_err(Err)?;
            let list = header_list(py, record.headers).map_err(Err)?;
            match deserializers.run(py, &run.topic, &key, &value, &list) {
                Ok(made) => {
                    (key, value) = made;
                    headers = Headers::Made(list.into_any().unbind());
                }
                // Ctrl-C is not an error of the record.
                Err((_, cause)) if !cause.is_instance_of::<PyException>(py) => {
                    return Err(Err(cause));
                }
                Err((part, cause)) => {
                    return Err(Ok(Box::new(Poison {
                        partition: partition.clone(),
                        offset: record.offset,
                        timestamp: record.timestamp,
                        key: record.key.map(|_| key),
                        value: record.value.map(|_| value),
                        headers: list.into_any().unbind(),
                        part,
                        cause,
                    })));
                }
            }
        }
        let made = ConsumerRecord {
            run: Arc::clone(run),
            offset: record.offset,
            timestamp: record.timestamp,
            key,
            value,
            header_size: header_size(record.headers),
            headers,
            checksum: None,
            key_size: size(record.key),
            value_size: size(record.value),
        };
        untracked(py, made).map_err(Err)
    }
}

/// Why a drain ended early, if the sink was not full.
#[derive(Default)]
pub(crate) struct Ended {
    pub(crate) failure: Option<PyErr>,
    pub(crate) poison: Option<Box<Poison>>,
}

impl Ended {
    fn refuse(&mut self, why: Result<Box<Poison>, PyErr>) -> Offer {
        match why {
            Ok(poison) => self.poison = Some(poison),
            Err(error) => self.failure = Some(error),
        }
        Offer::Refused
    }
}

/// Builds `{TopicPartition: [ConsumerRecord]}`, the result of `poll`.
pub(crate) struct DictSink<'a, 'py> {
    py: Python<'py>,
    maker: &'a mut RecordMaker,
    deserializers: &'a Deserializers,
    pub(crate) dict: Bound<'py, PyDict>,
    /// The list of the current partition, and its `TopicPartition`.
    list: Bound<'py, PyList>,
    object: Option<Py<PyAny>>,
    listed: Option<TopicPartition>,
    pub(crate) ended: Ended,
}

impl<'a, 'py> DictSink<'a, 'py> {
    pub(crate) fn new(
        py: Python<'py>,
        maker: &'a mut RecordMaker,
        deserializers: &'a Deserializers,
    ) -> Self {
        let (dict, list) = (PyDict::new(py), PyList::empty(py));
        Self {
            py,
            maker,
            deserializers,
            dict,
            list,
            object: None,
            listed: None,
            ended: Ended::default(),
        }
    }

    fn begin(&mut self, batch: &BatchInfo<'_>) -> PyResult<()> {
        self.maker.begin(self.py, batch)?;
        if self.listed.as_ref() == Some(batch.partition) {
            return Ok(());
        }
        let (_, object) = self.maker.objects.get(self.py, batch.partition)?;
        self.list = match self.dict.get_item(&object)? {
            Some(list) => list.cast_into::<PyList>()?,
            None => PyList::empty(self.py),
        };
        self.object = Some(object);
        self.listed = Some(batch.partition.clone());
        Ok(())
    }

    /// Adds a record. The first one also adds the list to the dict, because a batch may have no
    /// record to return, or none that a deserializer can read.
    #[inline]
    fn put(&mut self, record: Bound<'py, ConsumerRecord>) -> PyResult<()> {
        self.list.append(record)?;
        if self.list.len() == 1 {
            self.dict.set_item(&self.object, &self.list)?;
        }
        Ok(())
    }
}

impl RecordSink for DictSink<'_, '_> {
    fn begin_batch(&mut self, batch: &BatchInfo<'_>) -> Offer {
        match self.begin(batch) {
            Ok(()) => Offer::Taken,
            Err(error) => self.ended.refuse(Err(error)),
        }
    }

    #[inline]
    fn record(&mut self, record: &RecordRef<'_>) -> Offer {
        match self.maker.make(self.py, self.deserializers, record) {
            Ok(made) => match self.put(made) {
                Ok(()) => Offer::Taken,
                Err(error) => self.ended.refuse(Err(error)),
            },
            Err(why) => self.ended.refuse(why),
        }
    }
}

/// Takes one record, for an iteration.
pub(crate) struct OneSink<'a, 'py> {
    py: Python<'py>,
    maker: &'a mut RecordMaker,
    deserializers: &'a Deserializers,
    pub(crate) record: Option<Bound<'py, ConsumerRecord>>,
    pub(crate) ended: Ended,
}

impl<'a, 'py> OneSink<'a, 'py> {
    pub(crate) fn new(
        py: Python<'py>,
        maker: &'a mut RecordMaker,
        deserializers: &'a Deserializers,
    ) -> Self {
        Self {
            py,
            maker,
            deserializers,
            record: None,
            ended: Ended::default(),
        }
    }
}

impl RecordSink for OneSink<'_, '_> {
    fn begin_batch(&mut self, batch: &BatchInfo<'_>) -> Offer {
        match self.maker.begin(self.py, batch) {
            Ok(_) => Offer::Taken,
            Err(error) => self.ended.refuse(Err(error)),
        }
    }

    fn record(&mut self, record: &RecordRef<'_>) -> Offer {
        match self.maker.make(self.py, self.deserializers, record) {
            Ok(made) => {
                self.record = Some(made);
                Offer::Taken
            }
            Err(why) => self.ended.refuse(why),
        }
    }
}

impl RecordMaker {
    /// Returns the `TopicPartition` of the last run.
    pub(crate) fn partition_object(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let partition = self.current().0.clone();
        Ok(self.objects.get(py, &partition)?.1)
    }
}

fn bytes(py: Python<'_>, data: Option<&[u8]>) -> Py<PyAny> {
    data.map_or_else(
        || py.None(),
        |bytes| PyBytes::new(py, bytes).into_any().unbind(),
    )
}

fn timestamp_type(kind: TimestampType) -> i8 {
    match kind {
        TimestampType::LogAppendTime => 1,
        _ => 0,
    }
}

fn size(data: Option<&[u8]>) -> i32 {
    data.map_or(-1, |bytes| bytes.len() as i32)
}

fn header_size(headers: RawHeaders<'_>) -> i32 {
    if headers.is_empty() {
        return -1;
    }
    headers
        .iter()
        .map(|h| (h.key.len() + h.value.map_or(0, <[u8]>::len)) as i32)
        .sum()
}

/// Stores the raw section after its count, so that one box holds everything.
fn kept_headers(headers: RawHeaders<'_>) -> Headers {
    if headers.is_empty() {
        return Headers::None;
    }
    let mut section = Vec::with_capacity(4 + headers.as_bytes().len());
    section.extend_from_slice(&headers.count().to_le_bytes());
    section.extend_from_slice(headers.as_bytes());
    Headers::Raw(Box::new(KeptHeaders::new(
        section.into_boxed_slice(),
        parse_headers,
    )))
}

fn parse_headers(py: Python<'_>, section: &[u8]) -> PyResult<Py<PyList>> {
    let (count, bytes) = section
        .split_first_chunk::<4>()
        .expect("kept_headers wrote a count");
    Ok(header_list(py, RawHeaders::new(u32::from_le_bytes(*count), bytes))?.unbind())
}

fn header_list<'py>(py: Python<'py>, headers: RawHeaders<'_>) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for header in headers {
        list.append(header_pair(py, header.key, header.value)?)?;
    }
    Ok(list)
}
