//! Reads a resolved configuration: a Python mapping of canonical option names.
//!
//! `thalweg.config` has already converted and checked everything and set the defaults. This only
//! moves each value into its Rust field, and refuses a name that no field takes.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyString};

/// The given options, each taken once. `finish` refuses those that were not taken.
pub(crate) struct Options<'py> {
    values: Bound<'py, PyDict>,
    taken: BTreeSet<&'static str>,
}

impl<'py> Options<'py> {
    pub(crate) fn new(config: &Bound<'py, PyAny>) -> PyResult<Self> {
        let mapping = config.cast::<PyMapping>().map_err(|_| {
            PyTypeError::new_err("config must be a mapping of option names to values")
        })?;
        let values = PyDict::new(config.py());
        values.update(mapping)?;
        Ok(Self {
            values,
            taken: BTreeSet::new(),
        })
    }

    /// Returns the option's value, or `None` if it is absent or None.
    pub(crate) fn get<T>(&mut self, name: &'static str) -> PyResult<Option<T>>
    where
        T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>,
    {
        self.taken.insert(name);
        match self.values.get_item(name)? {
            Some(value) if !value.is_none() => value.extract::<T>().map(Some).map_err(|error| {
                let error: PyErr = error.into();
                PyTypeError::new_err(format!("option {name}: {error}"))
            }),
            _ => Ok(None),
        }
    }

    /// Returns the option's text, which may be a `thalweg.Secret`.
    pub(crate) fn get_text(&mut self, name: &'static str) -> PyResult<Option<String>> {
        let py = self.py();
        let given = self.get::<Py<PyAny>>(name)?;
        given.map(|given| text(name, given.bind(py))).transpose()
    }

    /// Stores the option's value in `field` if it is given.
    pub(crate) fn set<T>(&mut self, name: &'static str, field: &mut T) -> PyResult<()>
    where
        T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>,
    {
        if let Some(value) = self.get(name)? {
            *field = value;
        }
        Ok(())
    }

    /// Stores milliseconds as a duration. Negative ones become zero.
    pub(crate) fn set_ms(&mut self, name: &'static str, field: &mut Duration) -> PyResult<()> {
        if let Some(ms) = self.get::<f64>(name)? {
            *field = duration_ms(ms);
        }
        Ok(())
    }

    pub(crate) fn py(&self) -> Python<'py> {
        self.values.py()
    }

    /// Takes an option that has no effect here.
    pub(crate) fn ignore(&mut self, name: &'static str) {
        self.taken.insert(name);
    }

    /// Refuses names that no field took.
    pub(crate) fn finish(self) -> PyResult<()> {
        let mut unknown = Vec::new();
        for key in self.values.keys() {
            let name = key.cast::<PyString>()?.to_str()?.to_owned();
            if !self.taken.contains(name.as_str()) {
                unknown.push(name);
            }
        }
        if unknown.is_empty() {
            return Ok(());
        }
        unknown.sort();
        Err(PyValueError::new_err(format!(
            "unknown options: {}",
            unknown.join(", ")
        )))
    }
}

/// Returns the text of a str or a `thalweg.Secret`. The error does not show it.
pub(crate) fn text(name: &str, given: &Bound<'_, PyAny>) -> PyResult<String> {
    let revealed = if given.is_instance_of::<PyString>() {
        Ok(given.clone())
    } else {
        given.call_method0("reveal")
    };
    revealed
        .and_then(|text| text.extract::<String>())
        .map_err(|_| PyTypeError::new_err(format!("option {name}: expected a str")))
}

/// Returns the milliseconds since 1970, for the timestamps of records.
#[inline]
pub(crate) fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as i64)
}

/// Converts milliseconds to a duration. "No limit" (infinity and huge values) becomes a century.
pub(crate) fn duration_ms(ms: f64) -> Duration {
    const CENTURY_MS: f64 = 100.0 * 365.25 * 86_400_000.0;
    Duration::from_micros((ms.clamp(0.0, CENTURY_MS) * 1_000.0) as u64)
}
