//! `PendingRequest`: a request of any API that waits for its response.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Instant;

use pyo3::prelude::*;
use thalweg_network::{ClientError, Generation, Response, Ticket};
use thalweg_protocol::dynamic::Value;

use crate::convert::{errors, values};
use crate::interpreter::{callbacks, failures, gil};
use crate::operation::{PyOperation, is_over, run};

struct RequestState {
    ticket: Ticket<Response>,
    generation: Generation,
    /// Held while the result moves from the ticket to `response`, so that a second waiting thread
    /// finds it in one of the two.
    moving: Mutex<()>,
    /// The decoded response, kept so that it can be read several times.
    response: OnceLock<Result<Value, ClientError>>,
}

impl RequestState {
    /// Returns the response if it has arrived. Otherwise its arrival wakes the waker.
    fn poll(&self, waker: &Waker) -> Option<&Result<Value, ClientError>> {
        if self.generation.is_inherited() {
            // Checked first: in a child, threads that do not exist may hold the locks below.
            return Some(self.keep(Err(ClientError::Forked)));
        }
        let _moving = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(response) = self.response.get() {
            return Some(response);
        }
        self.ticket.poll(waker).map(|outcome| self.keep(outcome))
    }

    fn keep(&self, outcome: Result<Response, ClientError>) -> &Result<Value, ClientError> {
        self.response.get_or_init(|| outcome?.decode_by_name())
    }

    fn is_done(&self) -> bool {
        self.response.get().is_some() || self.generation.is_inherited() || self.ticket.is_done()
    }

    /// Returns the size of a response that has arrived and was not read yet, otherwise 0.
    fn response_bytes(&self) -> usize {
        if self.generation.is_inherited() {
            return 0;
        }
        self.ticket.peek(|outcome| match outcome {
            Some(Ok(response)) => response.reader.remaining(),
            _ => 0,
        })
    }
}

/// A request that waits for its response.
#[pyclass(frozen, module = "thalweg._core")]
pub(crate) struct PendingRequest(Arc<RequestState>);

impl PendingRequest {
    pub(crate) fn of(ticket: Ticket<Response>) -> Self {
        Self(Arc::new(RequestState {
            ticket,
            generation: Generation::current(),
            moving: Mutex::default(),
            response: OnceLock::new(),
        }))
    }

    /// Returns the wait for the response.
    pub(crate) fn response_wait(&self, timeout_ms: Option<f64>) -> ResponseWait {
        ResponseWait {
            pending: Arc::clone(&self.0),
            deadline: gil::deadline_ms(timeout_ms),
        }
    }
}

/// Waits until a request has its response or its error.
pub(crate) struct ResponseWait {
    pending: Arc<RequestState>,
    deadline: Option<Instant>,
}

impl PyOperation for ResponseWait {
    type Output = ();

    fn attempt(&mut self, _: Python<'_>) -> PyResult<Option<()>> {
        Ok(self.pending.response.get().is_some().then_some(()))
    }

    fn poll(&mut self, py: Python<'_>, waker: &Waker) -> PyResult<Option<()>> {
        // Without the GIL, because this decodes the response, which may be long.
        let has_response = py.detach(|| self.pending.poll(waker).is_some());
        if !has_response && is_over(self.deadline) {
            let text = "the request is still in flight";
            return Err(errors::raise(py, "KafkaTimeoutError", text));
        }
        Ok(has_response.then_some(()))
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

impl ResponseWait {
    fn known(&self, py: Python<'_>) -> PyResult<&Value> {
        let response = self.pending.response.get();
        let response = response.expect("read only once the wait is over");
        response.as_ref().map_err(|error| errors::client(py, error))
    }

    /// Converts the response to Python, or raises its error. Call it only once the wait is over.
    pub(crate) fn to_py<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        values::to_py(py, self.known(py)?)
    }
}

#[pymethods]
impl PendingRequest {
    /// Whether the response or an error has arrived.
    #[getter]
    fn is_done(&self) -> bool {
        self.0.is_done()
    }

    /// The size of a response that has arrived and was not read yet, otherwise 0.
    #[getter]
    fn response_bytes(&self) -> usize {
        self.0.response_bytes()
    }

    /// Waits for the response. Raises the errors of `Client.request`.
    #[pyo3(signature = (timeout_ms = None))]
    pub(super) fn result<'py>(
        &self,
        py: Python<'py>,
        timeout_ms: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut wait = self.response_wait(timeout_ms);
        run(py, &mut wait)?;
        // Long responses are read in the background, see `coordinator/driver/_waits.py`.
        values::to_py_in_background(py, wait.known(py)?)
    }

    /// Calls `f(self)` when the response or an error has arrived. f must be short.
    ///
    /// It calls f in a thread that no callback of the application blocks. If the response has
    /// arrived already, it calls f at once in this thread.
    fn add_done_callback(slf: &Bound<'_, Self>, f: Py<PyAny>) {
        let py = slf.py();
        let this = slf.clone().unbind();
        let call = move |py: Python<'_>| {
            if let Err(error) = f.call1(py, (this.clone_ref(py),)) {
                failures::report(py, "done callback of a request", error);
            }
        };
        if slf.get().0.is_done() {
            call(py);
            return;
        }
        let thread = callbacks::responses();
        let token = thread.new_token();
        thread.register(token, Box::new(call));
        let waker = callbacks::waker(token, callbacks::responses);
        slf.get().0.ticket.on_done(waker);
    }
}
