//! Passwords: reads them from the options, or asks Python for them each time that one is needed.
//!
//! ```text
//! core       ── blocking thread, GIL ──▶ PasswordSource.request(reply)   starts a Python thread
//!      ▲                                                                           │
//!      └────────────────── reply.password(...), reply.failed(...) ◀────────────────┘
//! ```
//! As for [`tokens`](super::tokens), no Rust frame is below the application's function.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use thalweg_cluster::Cause;
use thalweg_network::sasl::{self, PasswordProvider, PasswordSource, Secret, TokenError};
use thalweg_network::tls::KeyPassword;

use crate::convert::options::{Options, text};
use crate::interpreter::foreign::Foreign;

/// Reads `sasl_plain_password`: the password, or what supplies it.
pub(crate) fn password(options: &mut Options<'_>) -> PyResult<(Secret, Option<PasswordSource>)> {
    Ok(match of_file(options, "sasl_plain_password")? {
        None => (Secret::new(""), None),
        Some(KeyPassword::Fixed(secret)) => (secret, None),
        Some(KeyPassword::Asked(source)) => (Secret::new(""), Some(source)),
    })
}

/// Reads an option for the password of a file: the password, or what supplies it.
pub(crate) fn of_file(
    options: &mut Options<'_>,
    name: &'static str,
) -> PyResult<Option<KeyPassword>> {
    let py = options.py();
    let Some(given) = options.get::<Py<PyAny>>(name)? else {
        return Ok(None);
    };
    if given.bind(py).hasattr("request")? {
        let provider = PythonPasswords {
            source: given,
            option: name,
        };
        return Ok(Some(KeyPassword::Asked(PasswordSource(Arc::new(provider)))));
    }
    let secret = Secret::new(text(name, given.bind(py))?);
    Ok(Some(KeyPassword::Fixed(secret)))
}

/// A `thalweg.auth.password.PasswordSource`.
struct PythonPasswords {
    source: Py<PyAny>,
    option: &'static str,
}

impl PasswordProvider for PythonPasswords {
    fn request(&self, reply: sasl::PasswordReply) {
        // Before the thread waits for the interpreter's lock. The last records may need a password.
        let Some(_foreign) = Foreign::begin_until_wait() else {
            let reason = format!(
                "the function in {} cannot be called, because the interpreter exits",
                self.option
            );
            return reply.send(Err(TokenError::new(&reason, None)));
        };
        let reply = PasswordReply::new(reply);
        // After the end of the interpreter, the reply is dropped, which is an answer as well.
        Python::try_attach(|py| {
            let Ok(reply) = Bound::new(py, reply) else {
                return;
            };
            if let Err(error) = self.source.call_method1(py, "request", (&reply,)) {
                let reason = format!("the function in {} cannot run: {error}", self.option);
                reply.get().fail(&reason, error);
            }
        });
    }
}

/// Takes the answer of a function that supplies passwords, once.
///
/// Dropping it without an answer fails the authentication, too.
#[pyclass(frozen, module = "thalweg._core")]
pub(crate) struct PasswordReply(Mutex<Option<sasl::PasswordReply>>);

impl PasswordReply {
    pub(crate) fn new(reply: sasl::PasswordReply) -> Self {
        Self(Mutex::new(Some(reply)))
    }

    fn answer(&self, answer: Result<Secret, TokenError>) {
        let reply = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(reply) = reply {
            reply.send(answer);
        }
    }

    pub(crate) fn fail(&self, reason: &str, error: PyErr) {
        self.answer(Err(TokenError::new(reason, Some(Cause::new(error)))));
    }
}

#[pymethods]
impl PasswordReply {
    /// Answers with the password.
    fn password(&self, value: String) {
        self.answer(Ok(Secret::new(value)));
    }

    /// Answers with the exception that was raised instead of a password.
    fn failed(&self, reason: &str, error: Bound<'_, PyAny>) {
        self.fail(reason, PyErr::from_value(error));
    }
}
