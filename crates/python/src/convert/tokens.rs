//! Tokens for OAUTHBEARER: passes the network crate's questions to Python, and the answers back.
//!
//! ```text
//! keeper of tokens ── blocking thread, GIL ──▶ TokenSource.request(reply)   wakes a Python thread
//!        ▲                                                                             │
//!        └──────────────────── reply.token(...), reply.failed(...) ◀───────────────────┘
//! ```
//! The provider runs in a Python thread that has no Rust frames below it (`thalweg.auth.worker`). So
//! the interpreter can end that thread at exit, however long the provider hangs.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use thalweg_cluster::Cause;
use thalweg_network::sasl::{
    self, OAuthBearerConfig, RefreshConfig, Secret, Token, TokenError, TokenProvider,
};

use crate::convert::options::{Options, duration_ms};
use crate::interpreter::foreign::Foreign;

/// Reads the options of OAUTHBEARER. Returns `None` without a provider of tokens.
pub(crate) fn oauthbearer(options: &mut Options<'_>) -> PyResult<Option<OAuthBearerConfig>> {
    let mut refresh = RefreshConfig::default();
    options.set(
        "sasl_login_refresh_window_factor",
        &mut refresh.window_factor,
    )?;
    options.set(
        "sasl_login_refresh_window_jitter",
        &mut refresh.window_jitter,
    )?;
    if let Some(seconds) = options.get::<f64>("sasl_login_refresh_min_period_seconds")? {
        refresh.min_period = duration_ms(seconds * 1_000.0);
    }
    if let Some(seconds) = options.get::<f64>("sasl_login_refresh_buffer_seconds")? {
        refresh.buffer = duration_ms(seconds * 1_000.0);
    }
    let source: Option<Py<PyAny>> = options.get("sasl_oauth_token_provider")?;
    Ok(source.map(|source| OAuthBearerConfig {
        provider: Arc::new(PythonTokens(source)),
        refresh,
    }))
}

/// A `thalweg.auth.provider.TokenSource`.
struct PythonTokens(Py<PyAny>);

impl TokenProvider for PythonTokens {
    fn request(&self, reply: sasl::TokenReply) {
        // Before the thread waits for the interpreter's lock. The last records may need a token.
        let Some(_foreign) = Foreign::begin_until_wait() else {
            let reason = "the token provider cannot be called, because the interpreter exits";
            return reply.send(Err(TokenError::new(reason, None)));
        };
        let reply = TokenReply(Mutex::new(Some(reply)));
        // After the end of the interpreter, the reply is dropped, which is an answer as well.
        Python::try_attach(|py| {
            let Ok(reply) = Bound::new(py, reply) else {
                return;
            };
            if let Err(error) = self.0.call_method1(py, "request", (&reply,)) {
                reply.get().fail(py, &error);
            }
        });
    }
}

/// Takes the answer of a token provider, once.
///
/// Dropping it without an answer fails the authentication, too.
#[pyclass(frozen, module = "thalweg._core")]
pub(crate) struct TokenReply(Mutex<Option<sasl::TokenReply>>);

impl TokenReply {
    fn answer(&self, answer: Result<Token, TokenError>) {
        let reply = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(reply) = reply {
            reply.send(answer);
        }
    }

    fn fail(&self, py: Python<'_>, error: &PyErr) {
        let reason = format!("the token provider cannot be called: {error}");
        let cause = Cause::new(error.clone_ref(py));
        self.answer(Err(TokenError::new(&reason, Some(cause))));
    }
}

#[pymethods]
impl TokenReply {
    /// Answers with a token. `expires_at` is in Unix seconds.
    #[pyo3(signature = (value, expires_at, principal, extensions))]
    fn token(
        &self,
        value: String,
        expires_at: Option<f64>,
        principal: Option<String>,
        extensions: Vec<(String, String)>,
    ) {
        self.answer(Ok(Token {
            value: Secret::new(value),
            expires_at_ms: expires_at.map(|seconds| (seconds * 1_000.0) as i64),
            principal,
            extensions,
        }));
    }

    /// Answers with the exception that was raised instead of a token.
    fn failed(&self, reason: &str, error: Bound<'_, PyAny>) {
        let cause = Cause::new(PyErr::from_value(error));
        self.answer(Err(TokenError::new(reason, Some(cause))));
    }
}
