//! Reads certificates and keys before a client starts, in the application's thread.
//!
//! Keys may be encrypted, and the application may supply their password. So this may take seconds,
//! without the GIL, and signals end it.

use std::time::Instant;

use pyo3::prelude::*;
use thalweg_cluster::Cause;
use thalweg_network::ClientConfig;
use thalweg_network::tls::Prepared;
use thalweg_network::wait::Blocked;

use crate::convert::options::Options;
use crate::convert::{errors, settings};
use crate::interpreter::gil;

/// Reads the files of a client that uses TLS, unless that was done before.
pub(crate) fn prepare(py: Python<'_>, config: &mut ClientConfig) -> PyResult<()> {
    if !config.security_protocol.uses_tls() || config.tls_prepared.is_some() {
        return Ok(());
    }
    let limit = config.socket_connection_setup_timeout_max;
    let (mut cause, mut raised): (Option<Cause>, Option<PyErr>) = (None, None);
    let prepared = py.detach(|| {
        config.tls.prepare(&mut |source| {
            let mut interrupted = || gil::signalled(&mut raised);
            match source.wait(Instant::now() + limit, &mut interrupted) {
                Ok(answer) => answer.map_err(|error| {
                    cause = error.cause().cloned();
                    error.to_string()
                }),
                Err(Blocked::Interrupted) => Err("interrupted".to_owned()),
                Err(Blocked::TimedOut) => Err(format!(
                    "the function returned no password within {} s",
                    limit.as_secs_f64()
                )),
            }
        })
    });
    if let Some(raised) = raised {
        return Err(raised);
    }
    config.tls_prepared = Some(prepared.map_err(|error| {
        let error = errors::client(py, &error);
        if let Some(raised) = cause.as_ref().and_then(errors::raised_by) {
            error.set_cause(py, Some(raised.clone_ref(py)));
        }
        error
    })?);
    Ok(())
}

/// The certificates and keys of a client, read from their files.
///
/// The constructor reads the files. It may take seconds, because a private key may be encrypted.
/// The clients of asyncio do it outside of their event loop. Other clients do not need it: they
/// read the files when they open.
///
/// Raises:
///     `KafkaConfigurationError`: If some of the files cannot be used.
#[pyclass(frozen, module = "thalweg._core")]
pub(crate) struct PreparedTls(Option<Prepared>);

impl PreparedTls {
    pub(crate) fn get(&self) -> Option<Prepared> {
        self.0.clone()
    }
}

#[pymethods]
impl PreparedTls {
    #[new]
    fn new(py: Python<'_>, config: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut config = settings::for_tls(&mut Options::new(config)?)?;
        prepare(py, &mut config)?;
        Ok(Self(config.tls_prepared))
    }
}
