//! Converts between Python dicts and the values of the by-name codec, following the schema.
//!
//! A dict may omit fields. A name that the schema does not have is a `ValueError` that says where
//! it was and which names exist.

use std::fmt;

use bytes::Bytes;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString};
use thalweg_protocol::dynamic::{Kind, StructSchema, Value};
use thalweg_protocol::{Str, Uuid};

/// Elements of an array between two chances for other threads to run. They take a few
/// milliseconds.
const ELEMENTS_AT_ONCE: usize = 1_000;

/// The place of a value in a body. It becomes text only for an error.
#[derive(Clone, Copy)]
enum Path<'a> {
    Body(&'a str),
    Field(&'a Self, &'a str),
    Element(&'a Self, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body(name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Element(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Converts a Python mapping into a body for `schema`.
pub(crate) fn struct_from_py(
    schema: &'static StructSchema,
    body: &Bound<'_, PyAny>,
) -> PyResult<Value> {
    struct_at(schema, body, Path::Body(schema.name))
}

fn struct_at(
    schema: &'static StructSchema,
    body: &Bound<'_, PyAny>,
    path: Path<'_>,
) -> PyResult<Value> {
    let mapping = body
        .cast::<PyMapping>()
        .map_err(|_| wrong_type(&path, "a mapping of field names to values", body))?;
    let mut fields = Vec::with_capacity(mapping.len()?);
    for item in mapping.items()?.iter() {
        let (name, value): (Bound<'_, PyString>, Bound<'_, PyAny>) = item.extract()?;
        let name = name.to_str()?;
        let field = schema
            .field(name)
            .ok_or_else(|| unknown_field(schema, name, &path))?;
        fields.push((
            field.name,
            value_at(field.kind, &value, Path::Field(&path, name))?,
        ));
    }
    Ok(Value::Struct(fields))
}

fn value_at(kind: Kind, value: &Bound<'_, PyAny>, path: Path<'_>) -> PyResult<Value> {
    if value.is_none() {
        return Ok(Value::Null);
    }
    let mismatch = || wrong_type(&path, kind.describe(), value);
    Ok(match kind {
        Kind::Bool => Value::Bool(value.cast::<PyBool>().map_err(|_| mismatch())?.is_true()),
        Kind::Int8 | Kind::Int16 | Kind::Uint16 | Kind::Int32 | Kind::Uint32 | Kind::Int64 => {
            Value::Int(value.extract::<i64>().map_err(|_| mismatch())?)
        }
        Kind::Float64 => Value::Float(value.extract::<f64>().map_err(|_| mismatch())?),
        Kind::String => {
            let text = value.cast::<PyString>().map_err(|_| mismatch())?;
            Value::Str(Str::from(text.to_str()?))
        }
        Kind::Bytes | Kind::Records => Value::Bytes(Bytes::from(
            value.extract::<Vec<u8>>().map_err(|_| mismatch())?,
        )),
        Kind::Uuid => Value::Uuid(uuid(value, &path)?),
        Kind::Struct(schema) => struct_at(schema, value, path)?,
        Kind::Array(element) => {
            let mut values = Vec::new();
            for (index, item) in value.try_iter().map_err(|_| mismatch())?.enumerate() {
                values.push(value_at(*element, &item?, Path::Element(&path, index))?);
            }
            Value::Array(values)
        }
    })
}

fn uuid(value: &Bound<'_, PyAny>, path: &Path<'_>) -> PyResult<Uuid> {
    let text = value
        .cast::<PyString>()
        .map_err(|_| wrong_type(path, "a UUID as str", value))?;
    text.to_str()?.parse().map_err(|_| {
        PyValueError::new_err(format!(
            "{path}: {text} is not a UUID in Kafka's base64 form"
        ))
    })
}

pub(crate) fn wrong_type(path: &dyn fmt::Display, wanted: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let actual = value
        .get_type()
        .name()
        .map_or_else(|_| "?".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("{path}: expected {wanted}, got {actual}"))
}

fn unknown_field(schema: &StructSchema, name: &str, path: &Path<'_>) -> PyErr {
    let known: Vec<&str> = schema.fields.iter().map(|field| field.name).collect();
    PyValueError::new_err(format!(
        "{path} has no field {name:?}; it has {}",
        known.join(", ")
    ))
}

/// Creates Python values from ours.
#[derive(Default)]
struct Maker<'py> {
    /// The field names of structs as Python strings, each created once.
    names: Vec<(&'static str, Bound<'py, PyString>)>,
    /// Releases the interpreter's lock for a moment now and then. Getting it back takes long while
    /// other threads compute, so a thread that polls does not do it.
    lets_others_run: bool,
}

impl<'py> Maker<'py> {
    fn name(&mut self, py: Python<'py>, name: &'static str) -> Bound<'py, PyString> {
        // The same field of the same schema is the same `str`, so it is enough to compare
        // addresses.
        let known = self
            .names
            .iter()
            .find(|(known, _)| std::ptr::eq(*known, name));
        if let Some((_, text)) = known {
            return text.clone();
        }
        let text = PyString::intern(py, name);
        self.names.push((name, text.clone()));
        text
    }

    fn value(&mut self, py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
        Ok(match value {
            Value::Null => py.None().into_bound(py),
            Value::Bool(flag) => PyBool::new(py, *flag).to_owned().into_any(),
            Value::Int(number) => PyInt::new(py, *number).into_any(),
            Value::Float(number) => PyFloat::new(py, *number).into_any(),
            Value::Str(text) => PyString::new(py, text).into_any(),
            Value::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
            Value::Uuid(id) => PyString::new(py, &id.to_string()).into_any(),
            Value::Array(values) => {
                let list = PyList::empty(py);
                for (index, element) in values.iter().enumerate() {
                    if self.lets_others_run && index % ELEMENTS_AT_ONCE == ELEMENTS_AT_ONCE - 1 {
                        py.detach(|| {});
                    }
                    list.append(self.value(py, element)?)?;
                }
                list.into_any()
            }
            Value::Struct(fields) => {
                let dict = PyDict::new(py);
                for (name, field) in fields {
                    let key = self.name(py, name);
                    dict.set_item(key, self.value(py, field)?)?;
                }
                dict.into_any()
            }
        })
    }
}

/// Converts a value to Python's types: dict, list, bytes, str (also for UUIDs), int, float, bool,
/// None.
pub(crate) fn to_py<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Maker::default().value(py, value)
}

/// Works like [`to_py`], for background threads. Other threads run during the conversion, so the
/// caller must not hold one of our locks.
pub(crate) fn to_py_in_background<'py>(
    py: Python<'py>,
    value: &Value,
) -> PyResult<Bound<'py, PyAny>> {
    let mut maker = Maker {
        lets_others_run: true,
        ..Maker::default()
    };
    maker.value(py, value)
}
