//! Builds a rustls configuration from TLS settings with Kafka's names.
//!
//! ```text
//! TlsConfig ─▶ source.rs reads files ─▶ pem.rs, keys.rs, pkcs12.rs ─▶ loading.rs ─▶ Prepared
//! ```
//! Certificates and keys come from a file or inline (KIP-651), as PEM or PKCS#12. Without `ca` the
//! client trusts the system's roots.

mod certificate;
mod der;
mod encryption;
mod keys;
mod loading;
mod pem;
mod pkcs12;
mod pkcs12_kdf;
mod source;
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
use crate::sasl::{PasswordSource, Secret};
use loading::Loader;
use verifier::AnyHostname;

pub use keys::{KeyError, is_encrypted, private_key};
pub use loading::Ask;

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);
type RevocationList = CertificateRevocationListDer<'static>;

/// Certificates or keys, from a file or given inline as PEM. The contents are never shown.
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

/// The password of a private key or of a key store.
#[derive(Debug, Clone)]
pub enum KeyPassword {
    Fixed(Secret),
    /// The application supplies it, each time that the files are read.
    Asked(PasswordSource),
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
    /// `ssl_password`: of an encrypted key.
    pub password: Option<KeyPassword>,
    /// `ssl_keystore_password`: of a PKCS#12 store in `cert` or `key`, if it is not `password`.
    pub store_password: Option<KeyPassword>,
    /// `ssl_truststore_password`: of a PKCS#12 store in `ca`.
    pub ca_password: Option<KeyPassword>,
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
            password: None,
            store_password: None,
            ca_password: None,
            check_hostname: true,
            crl: None,
        }
    }
}

/// What a [`TlsConfig`] becomes when its files are read.
#[derive(Clone)]
pub struct Prepared(pub(crate) Arc<ClientConfig>);

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Prepared(..)")
    }
}

impl TlsConfig {
    /// Reads the files and checks everything now, so that wrong settings fail in the constructor.
    /// One error lists all of them. `ask` gets the passwords that the application supplies.
    ///
    /// It may take seconds.
    pub fn prepare(&self, ask: Ask<'_>) -> Result<Prepared, ClientError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut loader = Loader { config: self, ask };
        let crl = self.crl.as_ref().map(Loader::revocation_lists).transpose();
        let (ca, identity) = (self.roots(&mut loader), loader.identity());
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
        Ok(Prepared(Arc::new(config)))
    }

    fn key_option(&self) -> &'static str {
        if self.key.is_some() {
            "ssl_keyfile"
        } else {
            "ssl_certfile"
        }
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

    fn roots(&self, loader: &mut Loader<'_>) -> Result<RootCertStore, ClientError> {
        let mut roots = RootCertStore::empty();
        if let Some(ca) = &self.ca {
            for certificate in loader.authorities(ca)? {
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
