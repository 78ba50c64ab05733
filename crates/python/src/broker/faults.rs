//! Faults of the embedded broker.

use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use thalweg_broker::{FaultAction, FaultMatch, TlsVersion};
use thalweg_protocol::{ErrorCode, Str};

use super::api_key;
use super::state::Shared;

/// The faults of an embedded broker.
#[pyclass(frozen, module = "thalweg._core")]
pub(crate) struct BrokerFaults(pub(super) Arc<Shared>);

#[pymethods]
impl BrokerFaults {
    /// Adds a fault and returns its ID.
    ///
    /// If `api` is None, the fault applies to any API. If `times` is None, it stays until you
    /// remove it. At most one fault hits a request: the first that matches, in the order in which
    /// you added them.
    #[pyo3(signature = (api, action, node = None, topic = None, error_code = 0, delay_ms = 0, times = Some(1), iterations = 0))]
    #[allow(clippy::too_many_arguments)]
    fn add(
        &self,
        py: Python<'_>,
        api: Option<&str>,
        action: &str,
        node: Option<i32>,
        topic: Option<String>,
        error_code: i16,
        delay_ms: u64,
        times: Option<u32>,
        iterations: u32,
    ) -> PyResult<u64> {
        let matches = FaultMatch {
            api: api.map(api_key).transpose()?,
            node,
            topic: topic.map(Str::from),
        };
        let action = match action {
            "fail" => FaultAction::Fail(ErrorCode(error_code)),
            "delay" => FaultAction::Delay(Duration::from_millis(delay_ms)),
            "disconnect" => FaultAction::Disconnect,
            "apply_then_disconnect" => FaultAction::ApplyThenDisconnect,
            "silence" => FaultAction::Silence,
            "bad_server_signature" => FaultAction::BadServerSignature,
            "scram_iterations" => FaultAction::ScramIterations(iterations),
            "close_in_tls_handshake" => FaultAction::CloseInTlsHandshake,
            "only_tls_1_2" => FaultAction::TlsVersion(TlsVersion::V1_2),
            "only_tls_1_3" => FaultAction::TlsVersion(TlsVersion::V1_3),
            other => {
                return Err(PyValueError::new_err(format!(
                    "unknown fault action {other:?}"
                )));
            }
        };
        self.0
            .ask(py, |core| Ok(core.faults().add(matches, action, times).0))
    }

    /// Removes a fault. If there is no fault with this ID, it does nothing.
    fn remove(&self, py: Python<'_>, fault: u64) -> PyResult<()> {
        self.0.ask(py, |core| {
            core.faults().remove(thalweg_broker::FaultId(fault));
            Ok(())
        })
    }

    /// Removes all faults.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.0.ask(py, |core| {
            core.faults().clear();
            Ok(())
        })
    }

    /// Returns how many requests the fault has hit, even after it is used up.
    fn hits(&self, py: Python<'_>, fault: u64) -> PyResult<u64> {
        self.0.ask(py, |core| {
            Ok(core
                .faults()
                .hits(thalweg_broker::FaultId(fault))
                .unwrap_or(0))
        })
    }
}
