//! The TLS handshake of a connection, and the errors of TLS on it.

use std::io;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use thalweg_cluster::ConnectionError;
use tokio_rustls::TlsConnector;

use crate::tls::{Details, Loaded};
use crate::transport::BoxStream;

/// What errors of a connection can say about its TLS.
#[derive(Clone)]
pub(super) struct TlsSession {
    tls: Arc<Loaded>,
    details: Details,
}

impl TlsSession {
    pub(super) fn new(tls: Arc<Loaded>) -> Self {
        Self {
            tls,
            details: Details::default(),
        }
    }

    pub(super) async fn start(
        &self,
        plain: BoxStream,
        host: &str,
        label: &str,
    ) -> Result<BoxStream, ConnectionError> {
        let name = ServerName::try_from(host.trim_end_matches('.').to_owned()).map_err(|_| {
            let reason = format!("{host:?} is neither a valid DNS name nor an IP address");
            failed(label, reason, true)
        })?;
        let connector = TlsConnector::from(Arc::clone(&self.tls.config));
        let handshake = connector.connect(name, plain);
        match self.details.of(handshake).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(self.error(label, &error).unwrap_or_else(|| {
                if error.kind() != io::ErrorKind::UnexpectedEof {
                    return failed(label, error.to_string(), false);
                }
                let hint = self.closed().unwrap_or_else(|| {
                    "If it is a plaintext port, set security_protocol to PLAINTEXT or \
                     SASL_PLAINTEXT"
                        .to_owned()
                });
                let closed = "the broker closed the connection during the TLS handshake";
                failed(label, format!("{closed}. {hint}"), false)
            })),
        }
    }

    /// Returns the error of TLS inside an I/O error, if there is one.
    ///
    /// In TLS 1.3, a broker refuses the client's certificate only after the handshake.
    pub(super) fn error(&self, label: &str, error: &io::Error) -> Option<ConnectionError> {
        let inner = error.get_ref()?.downcast_ref::<rustls::Error>()?;
        let (reason, fatal) = self.tls.facts.explain(inner, &self.details);
        Some(failed(label, reason, fatal))
    }

    /// Returns a hint for a connection that the broker closed without an alert.
    pub(super) fn closed(&self) -> Option<String> {
        self.tls.facts.closed(&self.details)
    }
}

fn failed(label: &str, reason: String, fatal: bool) -> ConnectionError {
    ConnectionError::Tls {
        address: label.to_owned(),
        reason,
        fatal,
    }
}
