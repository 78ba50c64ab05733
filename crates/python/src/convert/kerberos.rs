//! Reads the options of GSSAPI, and checks what they need of this machine.

use pyo3::prelude::*;
use thalweg_network::ClientError;
use thalweg_network::sasl::GssapiConfig;

use crate::convert::errors;
use crate::convert::options::Options;

pub(crate) fn gssapi(options: &mut Options<'_>) -> PyResult<GssapiConfig> {
    let mut config = GssapiConfig::default();
    options.set("sasl_kerberos_service_name", &mut config.service_name)?;
    config.host = options.get("sasl_kerberos_domain_name")?;
    config.name = options.get("sasl_kerberos_name")?;
    config.principal = options.get("sasl_kerberos_principal")?;
    config.keytab = options.get("sasl_kerberos_keytab")?;
    Ok(config)
}

/// Loads the Kerberos library, and looks for the keytab.
///
/// Both may wait for the disk. The clients of asyncio do it outside of their event loop. Other
/// clients do not need it: they do it when they open.
#[pyfunction]
pub(crate) fn check_kerberos(py: Python<'_>, config: &Bound<'_, PyAny>) -> PyResult<()> {
    let config = gssapi(&mut Options::new(config)?)?;
    let checked = py.detach(|| config.check());
    checked.map_err(|reason| errors::client(py, &ClientError::Configuration(reason)))
}
