//! Reads certificates and revocation lists from PEM. Errors name the option.

use rustls_pki_types::pem::{self, PemObject as _};
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};

use super::source::Source;
use crate::error::ClientError;

pub(super) fn certificates(
    source: Source<'_>,
    text: &[u8],
) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let found = CertificateDer::pem_slice_iter(text).collect();
    some(
        source,
        found,
        "contains no PEM certificate (BEGIN CERTIFICATE)",
    )
}

/// Returns the certificates of a file that may also contain none.
pub(super) fn certificates_if_any(
    source: Source<'_>,
    text: &[u8],
) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    CertificateDer::pem_slice_iter(text)
        .collect::<Result<_, _>>()
        .map_err(|error| source.refuse(&problem(&error)))
}

pub(super) fn revocation_lists(
    source: Source<'_>,
    text: &[u8],
) -> Result<Vec<CertificateRevocationListDer<'static>>, ClientError> {
    let found = CertificateRevocationListDer::pem_slice_iter(text).collect();
    // With an empty list nothing would be checked.
    some(
        source,
        found,
        "contains no PEM revocation list (BEGIN X509 CRL)",
    )
}

fn some<T>(
    source: Source<'_>,
    found: Result<Vec<T>, pem::Error>,
    none: &str,
) -> Result<Vec<T>, ClientError> {
    match found {
        Ok(found) if found.is_empty() => Err(source.refuse(&none)),
        Ok(found) => Ok(found),
        Err(error) => Err(source.refuse(&problem(&error))),
    }
}

/// Says what is wrong with PEM text, without the text itself, which may be a key.
fn problem(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } | pem::Error::IllegalSectionStart { .. } => {
            "a BEGIN line has no END line. Check that the text still has its line breaks".to_owned()
        }
        other => other.to_string(),
    }
}
