//! A consumer's heartbeats: converts Python's description of them, and their results.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use thalweg_network::{HeartbeatNews, HeartbeatPlan, Request};

use crate::client;
use crate::convert::options::duration_ms;
use crate::convert::{errors, values};

/// An API's name and its body.
type Named<'py> = (String, Bound<'py, PyAny>);

/// A response or an exception (the other one is `None`), and whether it belongs to the current
/// heartbeats.
type Notable<'py> = (Option<Bound<'py, PyAny>>, Option<PyErr>, bool);

/// `thalweg.coordinator.steps.Heartbeats` in Python, which documents the fields.
#[derive(FromPyObject)]
pub(crate) struct Heartbeats<'py> {
    api: String,
    body: Bound<'py, PyAny>,
    interval_ms: f64,
    leave: Option<Named<'py>>,
    max_poll_interval_ms: f64,
    response_timeout_ms: Option<f64>,
}

impl Heartbeats<'_> {
    /// Returns what the core sends to the node repeatedly.
    pub(crate) fn plan(&self, node: &Bound<'_, PyAny>) -> PyResult<HeartbeatPlan> {
        for (name, value) in [
            ("interval_ms", self.interval_ms),
            ("max_poll_interval_ms", self.max_poll_interval_ms),
            (
                "response_timeout_ms",
                self.response_timeout_ms.unwrap_or(1.0),
            ),
        ] {
            if value.is_nan() || value < 1.0 {
                return Err(PyValueError::new_err(format!("{name} must be at least 1")));
            }
        }
        let leave = self.leave.as_ref();
        Ok(HeartbeatPlan {
            target: client::target(Some(node))?,
            request: client::named_request(&self.api, &self.body)?,
            interval: duration_ms(self.interval_ms),
            response_timeout: self.response_timeout_ms.map(duration_ms),
            leave: leave
                .map(|(api, body)| client::named_request(api, body))
                .transpose()?,
            max_poll_interval: duration_ms(self.max_poll_interval_ms),
        })
    }

    /// Returns a `JoinGroup` for the node, and the heartbeats that follow it.
    pub(crate) fn after(
        &self,
        join: &Bound<'_, PyAny>,
        timeout_ms: f64,
        node: &Bound<'_, PyAny>,
    ) -> PyResult<(Request, HeartbeatPlan)> {
        let plan = self.plan(node)?;
        let named = client::named_request("JoinGroup", join)?;
        let mut request = named.into_request(plan.target.clone());
        request.timeout = Some(duration_ms(timeout_ms));
        Ok((request, plan))
    }
}

/// Converts the results that contain something new.
pub(crate) fn notable(
    py: Python<'_>,
    taken: impl IntoIterator<Item = HeartbeatNews>,
) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for news in taken {
        list.append(converted(py, news)?)?;
    }
    Ok(list)
}

fn converted(py: Python<'_>, news: HeartbeatNews) -> PyResult<Notable<'_>> {
    Ok(match news.outcome {
        Ok(body) => (Some(values::to_py(py, &body)?), None, news.is_current),
        Err(error) => (None, Some(errors::client(py, &error)), news.is_current),
    })
}
