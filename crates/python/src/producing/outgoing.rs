//! Converts the application's arguments for a record to slices. Only data that is not `bytes` is
//! copied.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use thalweg_records::HeaderRef;

/// A key or value: borrowed from a `bytes`, or copied from another buffer.
pub(crate) enum Data<'a> {
    None,
    Borrowed(&'a [u8]),
    Copied(Vec<u8>),
}

impl<'a> Data<'a> {
    /// Accepts bytes, bytearray, memoryview or None.
    #[inline]
    pub(crate) fn new(object: Option<&'a Bound<'_, PyAny>>, what: &str) -> PyResult<Self> {
        let Some(object) = object else {
            return Ok(Self::None);
        };
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self::Borrowed(bytes.as_bytes()));
        }
        Self::other(object, what)
    }

    #[cold]
    fn other(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Self> {
        if object.is_none() {
            return Ok(Self::None);
        }
        if let Ok(buffer) = PyBuffer::<u8>::get(object) {
            return Ok(Self::Copied(buffer.to_vec(object.py())?));
        }
        let kind = object.get_type();
        let serializer = match what {
            "key" | "value" => {
                format!(". To send other types, set a {what}_serializer that returns bytes")
            }
            _ => String::new(),
        };
        Err(PyTypeError::new_err(format!(
            "{what} must be bytes, bytearray, memoryview or None, got {}{serializer}",
            kind.name()?
        )))
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> Option<&[u8]> {
        match self {
            Self::None => None,
            Self::Borrowed(bytes) => Some(bytes),
            Self::Copied(bytes) => Some(bytes),
        }
    }

    /// Returns the length, -1 for none.
    #[inline]
    pub(crate) fn size(&self) -> i32 {
        self.as_slice().map_or(-1, |bytes| bytes.len() as i32)
    }
}

/// The given headers, kept so that their bytes can be borrowed.
pub(crate) struct HeaderList(Vec<(Py<PyString>, Option<Py<PyAny>>)>);

impl HeaderList {
    /// Accepts a list (or tuple) of `(str, bytes)` pairs. A value may be None.
    pub(crate) fn new(headers: &Bound<'_, PyAny>) -> PyResult<Self> {
        if !headers.is_instance_of::<PyList>() && !headers.is_instance_of::<PyTuple>() {
            return Err(wrong_headers(headers));
        }
        let mut pairs = Vec::new();
        for (index, item) in headers.try_iter()?.enumerate() {
            let item = item?;
            let pair: (Bound<'_, PyString>, Bound<'_, PyAny>) =
                item.extract().map_err(|_| wrong_header(index, &item))?;
            let value = (!pair.1.is_none()).then(|| pair.1.unbind());
            pairs.push((pair.0.unbind(), value));
        }
        Ok(Self(pairs))
    }

    pub(crate) fn empty() -> Self {
        Self(Vec::new())
    }

    /// Returns the pairs as slices for the append.
    pub(crate) fn data<'a>(&'a self, py: Python<'a>) -> PyResult<Vec<(&'a str, Data<'a>)>> {
        let pair = |(name, value): &'a (Py<PyString>, Option<Py<PyAny>>)| {
            let (name, value) = (name.bind(py), value.as_ref().map(|value| value.bind(py)));
            let data = Data::new(value, "header value").map_err(|error| match value {
                Some(value) if error.is_instance_of::<PyTypeError>(py) => wrong_value(name, value),
                _ => error,
            })?;
            Ok((name.to_str()?, data))
        };
        self.0.iter().map(pair).collect()
    }
}

/// Returns the name of an object's type, for error messages.
pub(crate) fn type_name(object: &Bound<'_, PyAny>) -> String {
    let name = object.get_type().name();
    name.map_or_else(|_| "?".to_owned(), |name| name.to_string())
}

fn wrong_headers(headers: &Bound<'_, PyAny>) -> PyErr {
    let shown = type_name(headers);
    let hint = if headers.is_instance_of::<PyDict>() {
        ". Convert a dict with list(headers.items())"
    } else {
        ""
    };
    PyTypeError::new_err(format!(
        "headers must be a list of (str, bytes or None) tuples, got {shown}{hint}"
    ))
}

fn wrong_header(index: usize, header: &Bound<'_, PyAny>) -> PyErr {
    let shown = match header.cast::<PyTuple>() {
        Ok(tuple) => {
            let types: Vec<String> = tuple.iter().map(|item| type_name(&item)).collect();
            format!("({})", types.join(", "))
        }
        Err(_) => type_name(header),
    };
    PyTypeError::new_err(format!(
        "headers must be a list of (str, bytes or None) tuples, but headers[{index}] is {shown}"
    ))
}

fn wrong_value(name: &Bound<'_, PyString>, value: &Bound<'_, PyAny>) -> PyErr {
    let hint = if value.is_instance_of::<PyString>() {
        "; encode it: value.encode()"
    } else {
        ""
    };
    PyTypeError::new_err(format!(
        "the value of header {name:?} must be bytes, bytearray, memoryview or None, got {}{hint}",
        type_name(value)
    ))
}

/// Converts the timestamp argument of a record: an int, or None. `time.time()` is a common
/// mistake.
pub(crate) fn timestamp_ms(given: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if given.is_none() {
        return Ok(None);
    }
    given.extract::<i64>().map(Some).map_err(|error| {
        if !error.is_instance_of::<PyTypeError>(given.py()) {
            return error;
        }
        let shown = given
            .repr()
            .map_or_else(|_| String::new(), |text| format!(" {text}"));
        PyTypeError::new_err(format!(
            "timestamp_ms must be an int, milliseconds since 1970 (int(time.time() * 1000) is now), got \
             {}{shown}",
            type_name(given)
        ))
    })
}

/// Refuses times before 1970, as Java's `ProducerRecord`: -1 would mean that there is no
/// timestamp.
#[inline]
pub(crate) fn check_timestamp(topic: &Bound<'_, PyString>, timestamp_ms: i64) -> PyResult<()> {
    if timestamp_ms >= 0 {
        return Ok(());
    }
    Err(negative_timestamp(topic, timestamp_ms))
}

#[cold]
fn negative_timestamp(topic: &Bound<'_, PyString>, timestamp_ms: i64) -> PyErr {
    PyValueError::new_err(format!(
        "timestamp_ms {timestamp_ms} of a record of topic {topic}: a timestamp is 0 or more"
    ))
}

/// Converts the partition argument of a record: an int, or None.
pub(crate) fn partition(given: &Bound<'_, PyAny>) -> PyResult<Option<i32>> {
    if given.is_none() {
        return Ok(None);
    }
    given.extract::<i32>().map(Some).map_err(|error| {
        if error.is_instance_of::<PyTypeError>(given.py()) {
            let shown = type_name(given);
            return PyTypeError::new_err(format!("partition must be an int, got {shown}"));
        }
        if error.is_instance_of::<PyOverflowError>(given.py()) {
            let most = i32::MAX;
            let text = format!("partition must be an int from 0 to {most}, got {given}");
            return PyValueError::new_err(text);
        }
        error
    })
}

/// Converts borrowed pairs to the form that the encoder needs.
pub(crate) fn header_refs<'a>(data: &'a [(&'a str, Data<'a>)]) -> Vec<HeaderRef<'a>> {
    data.iter()
        .map(|(name, value)| HeaderRef {
            key: name.as_bytes(),
            value: value.as_slice(),
        })
        .collect()
}

/// Returns the bytes of names and values, -1 for no headers.
pub(crate) fn header_size(headers: &[HeaderRef<'_>]) -> i32 {
    if headers.is_empty() {
        return -1;
    }
    headers
        .iter()
        .map(|h| (h.key.len() + h.value.map_or(0, <[u8]>::len)) as i32)
        .sum()
}

/// Checks, as kafka-python does, that a record has a key or a value.
pub(crate) fn need_key_or_value(key: bool, value: bool) -> PyResult<()> {
    if key || value {
        return Ok(());
    }
    Err(PyValueError::new_err("Need at least one: key or value"))
}
