//! A consumer's heartbeats: Python's words for what `thalweg_network` repeats, and what it brings.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyAny;
use thalweg_network::{HeartbeatOutcome, HeartbeatPlan};

use crate::client;
use crate::config::duration_ms;
use crate::{errors, values};

/// An API's name and its body.
type Named<'py> = (String, Bound<'py, PyAny>);

/// An answer or an exception; the other one is None.
type Notable<'py> = (Option<Bound<'py, PyAny>>, Option<PyErr>);

pub(crate) fn plan(
    (api, body): Named<'_>,
    node: &Bound<'_, PyAny>,
    interval_ms: u64,
    leave: Option<Named<'_>>,
    max_poll_interval_ms: u64,
    answer_within_ms: Option<u64>,
) -> PyResult<HeartbeatPlan> {
    for (name, value) in [
        ("interval_ms", interval_ms),
        ("max_poll_interval_ms", max_poll_interval_ms),
        ("answer_within_ms", answer_within_ms.unwrap_or(1)),
    ] {
        if value == 0 {
            return Err(PyValueError::new_err(format!("{name} must be at least 1")));
        }
    }
    Ok(HeartbeatPlan {
        target: client::target(Some(node))?,
        request: client::named_request(&api, &body)?,
        interval: duration_ms(interval_ms as f64),
        answer_within: answer_within_ms.map(|ms| duration_ms(ms as f64)),
        leave: leave
            .map(|(api, body)| client::named_request(&api, &body))
            .transpose()?,
        max_poll_interval: duration_ms(max_poll_interval_ms as f64),
    })
}

pub(crate) fn notable(py: Python<'_>, outcome: HeartbeatOutcome) -> PyResult<Notable<'_>> {
    Ok(match outcome {
        Ok(body) => (Some(values::to_py(py, &body)?), None),
        Err(error) => (None, Some(errors::client(py, &error))),
    })
}
