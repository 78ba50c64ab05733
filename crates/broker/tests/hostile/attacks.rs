//! For each API, the most expensive frames for their size.

use bytes::Bytes;
use thalweg_protocol::ApiKey;
use thalweg_protocol::dynamic::Value;

use crate::world::{fields, request, text};
use crate::{groups, records, topics, users};

/// A request that can be made as large as needed.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) key: ApiKey,
    version: i16,
    make: Box<dyn Fn(usize) -> Value>,
    /// The additional memory that a limit of the broker allows, which does not grow with the frame.
    pub(crate) peak_bytes: usize,
}

impl Attack {
    /// Returns the request with the most elements that fit into the frame.
    pub(crate) fn frame(&self, bytes: usize) -> Bytes {
        let encoded = |count| request(self.key, self.version, &(self.make)(count));
        let few = encoded(100).len();
        let more = encoded(200).len();
        let for_each = (more - few).div_ceil(100);
        match for_each {
            0 => encoded(1000),
            for_each => {
                // Later elements may be larger.
                let count = bytes / for_each;
                let frame = encoded(count);
                if frame.len() <= bytes {
                    return frame;
                }
                encoded((count as f64 * bytes as f64 / frame.len() as f64) as usize)
            }
        }
    }

    pub(crate) fn peak(self, peak_bytes: usize) -> Self {
        Self { peak_bytes, ..self }
    }
}

pub(crate) fn attack(
    name: &'static str,
    (key, version): (ApiKey, i16),
    make: impl Fn(usize) -> Value + 'static,
) -> Attack {
    Attack {
        name,
        key,
        version,
        make: Box::new(make),
        peak_bytes: 0,
    }
}

/// A string of almost the maximum length.
pub(crate) fn long() -> Value {
    text(&"n".repeat(32_000))
}

pub(crate) fn named(prefix: &str, index: usize) -> Value {
    text(&format!("{prefix}{index}"))
}

pub(crate) fn one(value: Value) -> Value {
    Value::Array(vec![value])
}

/// A request whose only array of topics has one topic with these partitions.
pub(crate) fn topic(name: Value, partitions: &'static str, of: Value) -> Value {
    one(fields([("Name", name), (partitions, of)]))
}

pub(crate) fn attacks() -> Vec<Attack> {
    let mut all = records::all();
    all.extend(topics::all());
    all.extend(groups::all());
    all.extend(users::all());
    all
}
