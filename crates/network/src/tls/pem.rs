//! Reads certificates, keys and revocation lists from PEM. Errors name the option.

use std::fmt;

use rustls_pki_types::pem::{self, PemObject as _};
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

use super::{Pem, refuse};
use crate::error::ClientError;

fn text(option: &str, pem: &Pem) -> Result<String, ClientError> {
    match pem {
        Pem::Inline(text) => Ok(text.clone()),
        Pem::File(path) => {
            std::fs::read_to_string(path).map_err(|error| refuse_in(option, pem, &error))
        }
    }
}

/// Makes the error for an option whose PEM is wrong. It names the file if there is one.
fn refuse_in(option: &str, pem: &Pem, problem: &dyn fmt::Display) -> ClientError {
    match pem {
        Pem::Inline(_) => refuse(option, problem),
        Pem::File(path) if is_blob(&path.to_string_lossy()) => {
            let problem =
                "is neither the path of a file nor PEM text, which has BEGIN and END lines";
            refuse(option, &problem)
        }
        Pem::File(path) => refuse(option, &format_args!("{}: {problem}", path.display())),
    }
}

/// Whether this is probably a key or certificate without its BEGIN and END lines, and not a path.
/// It may be secret, so it must not be shown. `thalweg._config.pem` has the same rule.
fn is_blob(text: &str) -> bool {
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=_-".contains(byte);
    let is_key = |run: &[u8]| {
        let count = |kind: fn(&u8) -> bool| run.iter().filter(|byte| kind(byte)).count();
        run.len() >= 40
            && count(u8::is_ascii_uppercase) >= 6
            && count(u8::is_ascii_lowercase) >= 6
            && count(u8::is_ascii_digit) >= 1
    };
    let mut runs = text.as_bytes().split(|byte| !is_base64(byte));
    text.contains(['\n', '\r']) || runs.any(is_key)
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

pub(super) fn certificates(
    option: &str,
    pem: &Pem,
) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let text = text(option, pem)?;
    let found = CertificateDer::pem_slice_iter(text.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| refuse_in(option, pem, &problem(&error)))?;
    if found.is_empty() {
        return Err(refuse_in(
            option,
            pem,
            &"contains no PEM certificate (BEGIN CERTIFICATE)",
        ));
    }
    Ok(found)
}

pub(super) fn revocation_lists(
    option: &str,
    pem: &Pem,
) -> Result<Vec<CertificateRevocationListDer<'static>>, ClientError> {
    let text = text(option, pem)?;
    let found = CertificateRevocationListDer::pem_slice_iter(text.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| refuse_in(option, pem, &problem(&error)))?;
    if found.is_empty() {
        // With an empty list nothing would be checked.
        return Err(refuse_in(
            option,
            pem,
            &"contains no PEM revocation list (BEGIN X509 CRL)",
        ));
    }
    Ok(found)
}

pub(super) fn private_key(option: &str, pem: &Pem) -> Result<PrivateKeyDer<'static>, ClientError> {
    let text = text(option, pem)?;
    if text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED") {
        let problem = "the private key is encrypted, which is not supported yet. Decrypt it with \
                       `openssl pkcs8 -topk8 -nocrypt`";
        return Err(refuse_in(option, pem, &problem));
    }
    PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|error| match error {
        pem::Error::NoItemsFound => refuse_in(
            option,
            pem,
            &"contains no PEM private key (BEGIN PRIVATE KEY)",
        ),
        other => refuse_in(option, pem, &problem(&other)),
    })
}
