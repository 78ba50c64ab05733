//! Which certificates of `ssl_cafile` the client trusts, and for what.
//!
//! ```text
//!   CA:TRUE                                 ──> an authority: trusted, and so is what it has issued
//!   X.509 version 1, has signed itself      ──> an authority, because version 1 has no CA:TRUE
//!   any other that names itself as issuer   ──> pinned: trusted as a broker's own certificate
//!   any other                               ──> ignored, as a client's certificate in a folder
//! ```
//! webpki does not ask whether a trust anchor is an authority. Otherwise the key of one pinned broker
//! could issue certificates for all hosts.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm};

use super::certificate::Certificate;
use super::loading::Loader;
use super::verifier::{Checks, Pinned, Verifier};
use super::{Pem, RevocationList, TlsConfig, refuse};
use crate::error::ClientError;

/// What the client trusts.
pub(super) struct Anchors {
    authorities: RootCertStore,
    pinned: Vec<CertificateDer<'static>>,
}

impl Anchors {
    pub(super) fn load(
        config: &TlsConfig,
        loader: &mut Loader<'_>,
        provider: &CryptoProvider,
    ) -> Result<Self, ClientError> {
        let mut found = Self {
            authorities: RootCertStore::empty(),
            pinned: Vec::new(),
        };
        let Some(ca) = &config.ca else {
            // Some of a system's roots are always unreadable, but no root at all is an error.
            let system = rustls_native_certs::load_native_certs().certs;
            found.authorities.add_parsable_certificates(system);
            if found.authorities.is_empty() {
                let problem = "this system has no trusted root certificates: set ssl_cafile";
                return Err(ClientError::Configuration(problem.to_owned()));
            }
            return Ok(found);
        };
        let algorithms = provider.signature_verification_algorithms.all;
        let certificates = loader.authorities(ca)?;
        let is_any = !certificates.is_empty();
        for certificate in certificates {
            match trust(&certificate, algorithms) {
                Trust::Authority => found
                    .authorities
                    .add(certificate)
                    .map_err(|error| refuse("ssl_cafile", &error))?,
                Trust::Pinned => found.pinned.push(certificate),
                Trust::Nothing => {}
            }
        }
        if is_any && found.authorities.is_empty() && found.pinned.is_empty() {
            let problem = "contains no certificate of an authority (basicConstraints CA:TRUE), \
                           and none that signed itself";
            return Err(refuse("ssl_cafile", &problem));
        }
        Ok(found)
    }

    /// Says where the trusted authorities come from, for errors.
    pub(super) fn describe(&self, config: &TlsConfig) -> String {
        let plural = |count| if count == 1 { "" } else { "s" };
        let (count, pinned) = (self.authorities.len(), self.pinned.len());
        let pinned = match pinned {
            0 => String::new(),
            _ => format!(
                ", and {pinned} without basicConstraints CA:TRUE, which can be a broker's own \
                 certificate{} but cannot issue others",
                plural(pinned)
            ),
        };
        let counts = format!("{count} certificate{}{pinned}", plural(count));
        match &config.ca {
            _ if config.from_context => format!("those in ssl_context ({counts})"),
            None => format!("the system's ({counts})"),
            Some(Pem::Inline(_)) => format!("those in ssl_cafile ({counts})"),
            Some(Pem::File(path)) => format!("those in ssl_cafile {} ({counts})", path.display()),
        }
    }

    pub(super) fn verifier(
        self,
        crl: Option<&[RevocationList]>,
        provider: &Arc<CryptoProvider>,
        checks: Checks,
    ) -> Result<Verifier, ClientError> {
        let trusting = |roots: RootCertStore| {
            if roots.is_empty() {
                return Ok(None);
            }
            let mut builder =
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
            if let Some(crl) = crl {
                builder = builder
                    .with_crls(crl.iter().cloned())
                    .only_check_end_entity_revocation()
                    // An expired list does not include certificates that were revoked since.
                    .enforce_revocation_expiration();
            }
            builder.build().map(Some).map_err(|error| match error {
                VerifierBuilderError::InvalidCrl(problem) => {
                    let text =
                        format!("contains a revocation list that cannot be used: {problem:?}");
                    refuse("ssl_crlfile", &text)
                }
                other => refuse("ssl_cafile", &other),
            })
        };
        let authorities = trusting(self.authorities)?;
        let mut pinned = Vec::with_capacity(self.pinned.len());
        for certificate in self.pinned {
            let mut alone = RootCertStore::empty();
            alone
                .add(certificate.clone())
                .map_err(|error| refuse("ssl_cafile", &error))?;
            if let Some(verifier) = trusting(alone)? {
                pinned.push(Pinned {
                    certificate,
                    verifier,
                });
            }
        }
        Ok(Verifier {
            authorities,
            pinned,
            algorithms: provider.signature_verification_algorithms,
            checks,
        })
    }
}

enum Trust {
    Authority,
    Pinned,
    Nothing,
}

fn trust(der: &[u8], algorithms: &[&dyn SignatureVerificationAlgorithm]) -> Trust {
    match Certificate::read(der) {
        Ok(it) if it.is_authority() => Trust::Authority,
        Ok(it) if it.issuer != it.subject => Trust::Nothing,
        Ok(it) if it.version == 1 && it.signed(der, algorithms) => Trust::Authority,
        Ok(_) => Trust::Pinned,
        Err(_) => Trust::Nothing,
    }
}
