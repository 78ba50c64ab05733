//! Builds a rustls configuration from TLS settings with Kafka's names.
//!
//! ```text
//! TlsConfig ─▶ source.rs reads files ─▶ pem.rs, keys.rs, pkcs12.rs ─▶ loading.rs ─▶ Prepared
//! ```
//! Certificates and keys come from a file or inline (KIP-651), as PEM or PKCS#12. Without `ca` the
//! client trusts the system's roots.

mod anchors;
mod certificate;
mod client_auth;
mod der;
mod details;
mod ec_keys;
mod encryption;
mod explain;
pub(crate) mod fuzzing;
mod keylog;
mod keys;
mod loading;
mod pem;
mod pkcs12;
mod pkcs12_kdf;
mod reload;
mod source;
mod suites;
mod verifier;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::client::ResolvesClientCert;
use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

use crate::error::ClientError;
use crate::sasl::{PasswordSource, Secret};
use anchors::Anchors;
use certificate::{Certificate, distinguished_name};
use client_auth::{NamedAuthorities, NoCertificate};
use keylog::KeyLogFile;
use loading::Loader;
use verifier::Checks;

pub(crate) use details::Details;
pub(crate) use explain::Facts;
pub use keys::{KeyError, is_encrypted, private_key};
pub use loading::Ask;
pub(crate) use reload::Tls;
pub use suites::Offer;

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
    /// `ssl_verify`. False: any certificate is accepted.
    pub verify: bool,
    /// `ssl_check_hostname`.
    pub check_hostname: bool,
    /// The versions, cipher suites and curves.
    pub offer: Offer,
    /// `ssl_crlfile`: revocation lists for the brokers' own certificates.
    pub crl: Option<Pem>,
    /// `ssl_keylog_file`.
    pub keylog: Option<PathBuf>,
    /// `ssl_reload_interval_ms`: how often to look for changed files. `None` means never.
    pub reload_interval: Option<Duration>,
    /// Whether the settings come from an `ssl.SSLContext`, whose client certificate cannot be read.
    pub from_context: bool,
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
            verify: true,
            check_hostname: true,
            offer: Offer::default(),
            crl: None,
            keylog: None,
            reload_interval: Some(Duration::from_secs(60)),
            from_context: false,
        }
    }
}

/// What a [`TlsConfig`] becomes when its files are read.
#[derive(Clone)]
pub struct Prepared(pub(crate) Arc<Tls>);

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Prepared(..)")
    }
}

/// A configuration of rustls, with what errors say about it.
pub(crate) struct Loaded {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) facts: Facts,
}

impl TlsConfig {
    /// Reads the files and checks everything now, so that wrong settings fail in the constructor.
    /// One error lists all of them. `ask` gets the passwords that the application supplies.
    ///
    /// It may take seconds.
    pub fn prepare(&self, ask: Ask<'_>) -> Result<Prepared, ClientError> {
        // Before the files are read. If they change meanwhile, the client reads them once more.
        let stamps = self.stamps();
        let loaded = self.load(ask)?;
        Ok(Prepared(Arc::new(Tls::new(self, loaded, stamps))))
    }

    fn load(&self, ask: Ask<'_>) -> Result<Loaded, ClientError> {
        let provider = Arc::new(self.offer.provider()?);
        let versions = self.offer.versions()?;
        let mut loader = Loader { config: self, ask };
        let crl = self.crl.as_ref().map(Loader::revocation_lists).transpose();
        let (ca, identity) = (
            Anchors::load(self, &mut loader, &provider),
            loader.identity(),
        );
        let (ca, crl, identity) = match (ca, crl, identity) {
            (Ok(ca), Ok(crl), Ok(identity)) => (ca, crl, identity),
            (ca, crl, identity) => {
                let problems = [ca.err(), identity.err(), crl.err()];
                return Err(all(problems.into_iter().flatten()));
            }
        };
        let facts = Facts {
            authorities: ca.describe(self),
            offer: self.offer.clone(),
            from_context: self.from_context,
            own: identity.as_ref().and_then(|(chain, _)| own_names(chain)),
        };
        let checks = match (self.verify, self.check_hostname) {
            (false, _) => Checks::Nothing,
            (true, false) => Checks::AnyHostname,
            (true, true) => Checks::All,
        };
        let verifier = ca.verifier(crl.as_deref(), &provider, checks)?;
        let own = self.own(identity, &provider)?;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|_| {
                let problem = "none of these suites belongs to a version in ssl_enabled_protocols";
                refuse("ssl_ciphers", &problem)
            })?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_cert_resolver(own);
        if let Some(path) = &self.keylog {
            config.key_log = Arc::new(KeyLogFile::open(path)?);
        }
        let config = Arc::new(config);
        Ok(Loaded { config, facts })
    }

    /// Returns what shows the client's own certificate.
    fn own(
        &self,
        identity: Option<Identity>,
        provider: &CryptoProvider,
    ) -> Result<Arc<dyn ResolvesClientCert>, ClientError> {
        let Some((chain, key)) = identity else {
            return Ok(Arc::new(NoCertificate));
        };
        let another = || {
            let problem = "the private key belongs to another certificate";
            refuse(self.key_option(), &problem)
        };
        let given = key.clone_key();
        let own = chain.first().map_or(&[][..], |own| own);
        let key = ec_keys::completed(key, own);
        let was_completed = key != given;
        let key = provider.key_provider.load_private_key(key);
        let key = key.map_err(|error| match error {
            // ring refuses the public half of another key as it refuses a damaged one.
            _ if was_completed => another(),
            rustls::Error::General(what) => refuse(self.key_option(), &what),
            other => refuse(self.key_option(), &other),
        })?;
        let key = CertifiedKey::new(chain, key);
        match client_auth::is_pair(&key) {
            Some(true) => {}
            Some(false) => return Err(another()),
            None => return Err(refuse("ssl_certfile", &"the certificate cannot be read")),
        }
        Ok(Arc::new(NamedAuthorities { key: Arc::new(key) }))
    }

    fn key_option(&self) -> &'static str {
        if self.key.is_some() {
            "ssl_keyfile"
        } else {
            "ssl_certfile"
        }
    }
}

/// Returns the subject and the issuer of the first certificate.
fn own_names(chain: &[CertificateDer<'_>]) -> Option<(String, String)> {
    let own = Certificate::read(chain.first()?).ok()?;
    Some((
        distinguished_name(own.subject),
        distinguished_name(own.issuer),
    ))
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
