//! The client's own certificate, and the brokers that get to see it.

use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;

use super::certificate::Certificate;
use super::details::{self, Shown};

/// Shows the certificate only to brokers that name one of its issuers, or that name no authority.
///
/// A certificate contains the client's name, so another broker should not see it. Java's clients do
/// the same.
#[derive(Debug)]
pub(super) struct NamedAuthorities {
    pub(super) key: Arc<CertifiedKey>,
}

/// Whether the key belongs to its certificate, if that can be found out.
///
/// rustls cannot compare those of the X.509 version 1, which brokers accept from clients.
pub(super) fn is_pair(key: &CertifiedKey) -> Option<bool> {
    let own = Certificate::read(key.cert.first()?).ok()?;
    Some(key.key.public_key()?.as_ref() == own.public_key)
}

impl NamedAuthorities {
    /// Whether an authority has issued a certificate of the chain.
    fn is_issued_by(&self, authorities: &[&[u8]]) -> bool {
        self.key.cert.iter().any(|each| {
            Certificate::read(each).is_ok_and(|each| authorities.contains(&each.issuer))
        })
    }
}

impl ResolvesClientCert for NamedAuthorities {
    fn resolve(
        &self,
        authorities: &[&[u8]],
        _schemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        let shown = authorities.is_empty() || self.is_issued_by(authorities);
        details::note_client(if shown {
            Shown::Certificate
        } else {
            Shown::OtherAuthorities(authorities.len())
        });
        shown.then(|| Arc::clone(&self.key))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// The client has no certificate. It only notes that the broker wanted one.
#[derive(Debug)]
pub(super) struct NoCertificate;

impl ResolvesClientCert for NoCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        details::note_client(Shown::HasNone);
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}
