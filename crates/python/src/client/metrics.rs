//! Metrics as Python dicts, and repeated calls.

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use thalweg_cluster::metrics::MetricGroup;

use crate::convert::options::duration_ms;
use crate::interpreter::callbacks::{self, TimerId};
use crate::interpreter::failures;

/// Returns {group: {name: value}}.
pub(crate) fn groups_dict(py: Python<'_>, groups: Vec<MetricGroup>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for group in groups {
        let values = PyDict::new(py);
        for (name, value) in group.values {
            values.set_item(name, value)?;
        }
        dict.set_item(group.name, values)?;
    }
    Ok(dict)
}

/// A function that the callback thread calls repeatedly, until `cancel`.
#[pyclass(frozen, module = "thalweg._core")]
pub(crate) struct Timer(TimerId);

#[pymethods]
impl Timer {
    /// Stops the calls. A call that already runs continues.
    fn cancel(&self) {
        callbacks::current().cancel(self.0);
    }
}

/// Calls `f()` on the callback thread every `seconds`. Logs what it raises.
///
/// It skips calls that would come too late. Do not call it at exit. A forked child has none of its
/// parent's timers.
#[pyfunction]
pub(crate) fn call_every(seconds: f64, f: Py<PyAny>) -> PyResult<Timer> {
    let every = duration_ms(seconds * 1_000.0);
    if every < Duration::from_millis(1) {
        return Err(PyValueError::new_err("seconds must be at least 0.001"));
    }
    let work = move |py: Python<'_>| {
        if let Err(error) = f.call0(py) {
            failures::report(py, "a function that the client calls repeatedly", error);
        }
    };
    Ok(Timer(callbacks::current().every(every, Box::new(work))?))
}
