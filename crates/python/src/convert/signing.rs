//! Signatures for the assertions that log in at an identity provider.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use thalweg_network::sasl::{self, JwtAlgorithm};

/// Returns the signature of a JSON Web Token.
///
/// `pem` has the private key, and `message` the header and the payload. The text of a `ValueError`
/// follows the name of an option and a colon.
#[pyfunction]
#[pyo3(signature = (algorithm, pem, passphrase, message))]
pub(crate) fn sign_jwt<'py>(
    py: Python<'py>,
    algorithm: &str,
    pem: &str,
    passphrase: Option<&str>,
    message: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let algorithm = JwtAlgorithm::named(algorithm)
        .ok_or_else(|| PyValueError::new_err("the algorithm is not supported"))?;
    // An RSA key takes milliseconds, and an encrypted one up to seconds.
    let signed = py.detach(|| sasl::sign_jwt(algorithm, pem, passphrase, message));
    match signed {
        Ok(signature) => Ok(PyBytes::new(py, &signature)),
        Err(error) => Err(PyValueError::new_err(error.to_string())),
    }
}
