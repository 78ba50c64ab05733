//! TLS of the listeners: certificates from PEM texts, and the users of client certificates.

use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{WebPkiClientVerifier, danger::ClientCertVerifier};
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use thalweg_security::certificate;
use tokio_rustls::TlsAcceptor;

use crate::options::ClientAuth;
use crate::{BrokerError, TlsFiles};

/// Makes the acceptor of all nodes. The errors contain no key.
pub(crate) fn acceptor(
    files: &TlsFiles,
    client_auth: ClientAuth,
) -> Result<TlsAcceptor, BrokerError> {
    let chain = certificates("ssl_certfile", &files.chain)?;
    let key = PrivateKeyDer::from_pem_slice(files.key.reveal().as_bytes()).map_err(|error| {
        let problem = match error {
            pem::Error::NoItemsFound => {
                "contains no PEM private key (BEGIN PRIVATE KEY) that is not encrypted".to_owned()
            }
            other => other.to_string(),
        };
        refused("ssl_keyfile", &problem)
    })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| refused("TLS", &error.to_string()))?;
    let builder = match verifier(files.client_authorities.as_deref(), client_auth)? {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let config = builder.with_single_cert(chain, key).map_err(|error| {
        refused(
            "ssl_certfile and ssl_keyfile",
            &format!("do not fit together: {error}"),
        )
    })?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn verifier(
    authorities: Option<&str>,
    client_auth: ClientAuth,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, BrokerError> {
    if client_auth == ClientAuth::None {
        return Ok(None);
    }
    let authorities = authorities.ok_or_else(|| {
        refused(
            "ssl.client.auth",
            "needs ssl_cafile, with the authorities of the clients",
        )
    })?;
    let mut roots = RootCertStore::empty();
    for each in certificates("ssl_cafile", authorities)? {
        let added = roots.add(each);
        added.map_err(|error| refused("ssl_cafile", &error.to_string()))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = match client_auth {
        ClientAuth::Requested => builder.allow_unauthenticated(),
        ClientAuth::None | ClientAuth::Required => builder,
    };
    let verifier = builder.build();
    verifier
        .map(Some)
        .map_err(|error| refused("ssl_cafile", &error.to_string()))
}

fn certificates(option: &str, text: &str) -> Result<Vec<CertificateDer<'static>>, BrokerError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let found = found.map_err(|error| refused(option, &error.to_string()))?;
    if found.is_empty() {
        return Err(refused(
            option,
            "contains no PEM certificate (BEGIN CERTIFICATE)",
        ));
    }
    Ok(found)
}

fn refused(option: &str, problem: &str) -> BrokerError {
    BrokerError::Config(format!("{option}: {problem}"))
}

/// Returns the subject of the client's certificate, which is verified already.
pub(super) fn subject(connection: &ServerConnection) -> Option<String> {
    let chain = connection.peer_certificates()?;
    certificate::subject(chain.first()?).filter(|subject| !subject.is_empty())
}
