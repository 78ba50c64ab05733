//! GSSAPI with Kerberos (RFC 4752, RFC 4121): the client's side.
//!
//! ```text
//!   ticket for the broker's service  ─▶
//!                                    ◀─ proof that the broker has the key of the service
//!   (empty)                          ─▶
//!                                    ◀─ wrapped: the security layers that the broker offers
//!   wrapped: no security layer       ─▶
//!                                    ◀─ (empty)
//! ```
//! The system's Kerberos library does the cryptography and talks to the KDC. [`library`] loads it
//! when the first client needs it, so that thalweg also runs where there is none. [`Exchange`] only
//! sees it as a [`Provider`].
//!
//! A call of the library may wait for DNS, the KDC and files. So every step of an exchange runs on
//! a blocking thread, and a client has [`CALLS_MAX`] of them at a time. Kafka has no security layer
//! of its own, so after the exchange the library does nothing.

// Systems without a library make no contexts.
#![cfg_attr(not(all(unix, not(target_vendor = "apple"))), allow(dead_code))]

mod exchange;
mod explain;
#[cfg(all(unix, not(target_vendor = "apple")))]
mod library;
#[cfg(not(all(unix, not(target_vendor = "apple"))))]
#[path = "unsupported.rs"]
mod library;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io;
use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;

use super::password::locked;
use super::shown;
use exchange::Exchange;
use explain::Failure;

/// The number of calls of the Kerberos library at a time, however many connections log in. The
/// others wait. A call to a KDC that does not respond outlives the attempt that needed it.
const CALLS_MAX: usize = 4;

/// The options of GSSAPI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GssapiConfig {
    /// `sasl_kerberos_service_name`: the first part of the principal of every broker.
    pub service_name: String,
    /// `sasl_kerberos_domain_name`: the host in that principal, in place of the broker's.
    pub host: Option<String>,
    /// `sasl_kerberos_name`: the name of the service, in place of both.
    pub name: Option<String>,
    /// `sasl_kerberos_principal`: who the client is. `None`: the library chooses.
    pub principal: Option<String>,
    /// `sasl_kerberos_keytab`: a file with the key of the principal. `None`: the ticket cache.
    pub keytab: Option<String>,
}

impl Default for GssapiConfig {
    fn default() -> Self {
        Self {
            service_name: "kafka".to_owned(),
            host: None,
            name: None,
            principal: None,
            keytab: None,
        }
    }
}

impl GssapiConfig {
    /// Loads the Kerberos library, and looks for the keytab. It may wait for the disk. The error
    /// says what is missing.
    pub fn check(&self) -> Result<(), String> {
        self.keytab.as_deref().map_or(Ok(()), check_keytab)?;
        library::load()
    }

    /// Returns the user name that Kafka's default rules derive from the principal.
    pub(crate) fn user(&self) -> Option<&str> {
        let principal = self.principal.as_deref()?;
        principal.split(['/', '@']).next()
    }

    fn service(&self, host: &str) -> Service {
        match &self.name {
            Some(name) if name.contains('/') => Service::Principal(name.clone()),
            Some(name) => Service::HostBased(name.clone()),
            None => {
                let host = self.host.as_deref().unwrap_or(host);
                Service::HostBased(format!("{}@{host}", self.service_name))
            }
        }
    }
}

/// The name of a broker's service.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Service {
    /// `kafka@host`. The library finds the realm of the host.
    HostBased(String),
    /// `kafka/host@REALM`.
    Principal(String),
}

impl Service {
    fn as_str(&self) -> &str {
        match self {
            Self::HostBased(name) | Self::Principal(name) => name,
        }
    }
}

/// A Kerberos library with the credentials of one client.
trait Provider: Send + Sync {
    /// Gets the credentials, and begins a context for one connection. It may wait for the KDC.
    fn begin(&self, service: &Service) -> Result<Box<dyn Context>, Failure>;
}

/// A security context (RFC 2743): what the two sides of one connection know of each other.
trait Context: Send {
    /// Handles a token of the broker, and makes the client's next one. The first call gets an empty
    /// token. It may wait for the KDC.
    fn initiate(&mut self, received: &[u8]) -> Result<Initiated, Failure>;

    /// Checks a message of the broker, and returns what is in it.
    fn unwrap(&mut self, received: &[u8]) -> Result<Vec<u8>, Failure>;

    /// Protects a message against changes, but does not encrypt it.
    fn wrap(&mut self, message: &[u8]) -> Result<Vec<u8>, Failure>;

    /// Returns the client's own principal, if the library knows it.
    fn principal(&mut self) -> Option<String>;
}

/// What a call of [`Context::initiate`] returns.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Initiated {
    /// The token for the broker. It may be empty at the end.
    token: Vec<u8>,
    progress: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// The broker must send another token.
    Continues,
    /// The context is complete. `mutual` says whether the broker has proved who it is.
    Established { mutual: bool },
}

/// What all connections of a client share.
pub(crate) struct Kerberos {
    config: GssapiConfig,
    provider: Box<dyn Provider>,
    calls: Arc<Semaphore>,
    /// The principal of the last exchange, for errors.
    principal: Mutex<Option<String>>,
}

impl Kerberos {
    /// Makes what the connections of a client share. See [`GssapiConfig::check`] for the errors.
    pub(super) fn new(config: GssapiConfig) -> Result<Self, String> {
        config.check()?;
        let provider = library::provider(&config)?;
        Ok(Self::with(config, provider))
    }

    fn with(config: GssapiConfig, provider: Box<dyn Provider>) -> Self {
        Self {
            principal: Mutex::new(config.principal.clone()),
            config,
            provider,
            calls: Arc::new(Semaphore::new(CALLS_MAX)),
        }
    }

    pub(super) fn principal(&self) -> Option<String> {
        locked(&self.principal).clone()
    }

    /// Starts an exchange with the broker at `host`. It calls the library only in the steps.
    pub(super) fn start(self: &Arc<Self>, host: &str) -> Exchange {
        Exchange::new(Arc::clone(self), self.config.service(host))
    }
}

/// Opens the keytab, so that the constructor reports one that is missing.
fn check_keytab(keytab: &str) -> Result<(), String> {
    let path = keytab.strip_prefix("FILE:").unwrap_or(keytab);
    // The library knows keytabs that are not files, such as MEMORY:name.
    if path.contains(':') && !path.starts_with('/') {
        return Ok(());
    }
    let opened = fs::metadata(path).and_then(|found| {
        if found.is_file() {
            return File::open(path).map(drop);
        }
        // To open a pipe could take forever.
        Err(io::Error::other("it is not a file"))
    });
    opened.map_err(|error| {
        let path = shown(path);
        format!(
            "sasl_kerberos_keytab: cannot read {path}: {error}. Name a file with the keys of the \
             client's principal"
        )
    })
}
