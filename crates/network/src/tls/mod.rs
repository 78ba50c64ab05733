//! Builds a rustls configuration from TLS settings with Kafka's names.
//!
//! PEM comes from a file or inline (KIP-651). Without `ca` the client trusts the system's roots.

mod pem;
mod verifier;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

use crate::error::ClientError;
use verifier::AnyHostname;

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);
type RevocationList = CertificateRevocationListDer<'static>;

/// PEM text from a file or given inline. Its contents are never shown.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    File(PathBuf),
    Inline(String),
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "File({})", path.display()),
            Self::Inline(_) => f.write_str("Inline(..)"),
        }
    }
}

/// Kafka's `ssl.*` options.
#[derive(Debug, Clone)]
pub struct TlsConfig {
    /// `ssl_cafile`: the authorities that sign brokers' certificates. `None` means the system's
    /// roots.
    pub ca: Option<Pem>,
    /// `ssl_certfile`: the client's own certificate chain.
    pub cert: Option<Pem>,
    /// `ssl_keyfile`: the key of `cert`. `None` means that it is in the same PEM.
    pub key: Option<Pem>,
    /// `ssl_check_hostname`.
    pub check_hostname: bool,
    /// `ssl_crlfile`: revocation lists for the brokers' own certificates.
    pub crl: Option<Pem>,
}

impl Default for TlsConfig {
    fn default() -> Self {
        Self {
            ca: None,
            cert: None,
            key: None,
            check_hostname: true,
            crl: None,
        }
    }
}

impl TlsConfig {
    /// Reads the files and checks everything now, so that wrong settings fail in the constructor.
    /// One error lists all of them.
    pub(crate) fn build(&self) -> Result<Arc<ClientConfig>, ClientError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (ca, crl, identity) = (self.roots(), self.revocation_lists(), self.identity());
        let (ca, crl, identity) = match (ca, crl, identity) {
            (Ok(ca), Ok(crl), Ok(identity)) => (ca, crl, identity),
            (ca, crl, identity) => {
                let problems = [ca.err(), identity.err(), crl.err()];
                return Err(all(problems.into_iter().flatten()));
            }
        };
        let verifier = self.verifier(ca, crl, &provider)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| refuse("TLS versions", &error))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| refuse(self.key_option(), &error))?,
        };
        Ok(Arc::new(config))
    }

    fn key_option(&self) -> &'static str {
        if self.key.is_some() {
            "ssl_keyfile"
        } else {
            "ssl_certfile"
        }
    }

    /// Returns the client's own certificates and key.
    fn identity(&self) -> Result<Option<Identity>, ClientError> {
        let Some(cert) = &self.cert else {
            return match self.key {
                None => Ok(None),
                Some(_) => Err(ClientError::Configuration(
                    "ssl_keyfile is set without ssl_certfile: set both".into(),
                )),
            };
        };
        let chain = pem::certificates("ssl_certfile", cert);
        let key = pem::private_key(self.key_option(), self.key.as_ref().unwrap_or(cert));
        match (chain, key) {
            (Ok(chain), Ok(key)) => Ok(Some((chain, key))),
            // If one file contains both, one problem is enough.
            (Err(problem), Err(_)) if self.key.is_none() => Err(problem),
            (chain, key) => Err(all([chain.err(), key.err()].into_iter().flatten())),
        }
    }

    fn revocation_lists(&self) -> Result<Option<Vec<RevocationList>>, ClientError> {
        let read = |crl| pem::revocation_lists("ssl_crlfile", crl);
        self.crl.as_ref().map(read).transpose()
    }

    fn verifier(
        &self,
        roots: RootCertStore,
        crl: Option<Vec<RevocationList>>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, ClientError> {
        let mut builder =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        if let Some(crl) = crl {
            builder = builder
                .with_crls(crl)
                .only_check_end_entity_revocation()
                // An expired list does not include certificates that were revoked since.
                .enforce_revocation_expiration();
        }
        let verifier = builder.build().map_err(|error| match error {
            VerifierBuilderError::InvalidCrl(problem) => {
                let text = format!("contains a revocation list that cannot be used: {problem:?}");
                refuse("ssl_crlfile", &text)
            }
            other => refuse("ssl_cafile", &other),
        })?;
        Ok(if self.check_hostname {
            verifier
        } else {
            Arc::new(AnyHostname(verifier))
        })
    }

    fn roots(&self) -> Result<RootCertStore, ClientError> {
        let mut roots = RootCertStore::empty();
        if let Some(ca) = &self.ca {
            for certificate in pem::certificates("ssl_cafile", ca)? {
                roots
                    .add(certificate)
                    .map_err(|error| refuse("ssl_cafile", &error))?;
            }
            return Ok(roots);
        }
        // Some of a system's roots are always unreadable, but no root at all is an error.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            let problem = "this system has no trusted root certificates: set ssl_cafile";
            return Err(ClientError::Configuration(problem.to_owned()));
        }
        Ok(roots)
    }
}

/// Combines several errors into one.
fn all(problems: impl Iterator<Item = ClientError>) -> ClientError {
    let texts: Vec<String> = problems
        .map(|problem| match problem {
            ClientError::Configuration(text) => text,
            other => other.to_string(),
        })
        .collect();
    ClientError::Configuration(texts.join("; "))
}

fn refuse(option: &str, error: &dyn fmt::Display) -> ClientError {
    ClientError::Configuration(format!("{option}: {error}"))
}
