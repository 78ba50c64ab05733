//! TLS of the listeners: certificates from PEM texts, and the users of client certificates.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::{WebPkiClientVerifier, danger::ClientCertVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion};
use thalweg_security::certificate;
use tokio_rustls::TlsAcceptor;

use crate::options::ClientAuth;
use crate::{BrokerError, TlsFiles, TlsVersion};

/// The TLS of all nodes.
pub(crate) struct Tls {
    files: TlsFiles,
    client_auth: ClientAuth,
    /// Replaced when a certificate is revoked. So no session of TLS that began before continues.
    acceptors: Mutex<Acceptors>,
}

struct Acceptors {
    any: TlsAcceptor,
    tls12: TlsAcceptor,
    tls13: TlsAcceptor,
}

impl Tls {
    /// The errors contain no key.
    pub(crate) fn new(files: TlsFiles, client_auth: ClientAuth) -> Result<Self, BrokerError> {
        let acceptors = Mutex::new(Acceptors::new(&files, client_auth, None)?);
        Ok(Self {
            files,
            client_auth,
            acceptors,
        })
    }

    /// Returns what accepts a connection.
    pub(crate) fn acceptor(&self, version: Option<TlsVersion>) -> TlsAcceptor {
        let acceptors = self.acceptors.lock();
        let acceptors = acceptors.unwrap_or_else(PoisonError::into_inner);
        match version {
            None => acceptors.any.clone(),
            Some(TlsVersion::V1_2) => acceptors.tls12.clone(),
            Some(TlsVersion::V1_3) => acceptors.tls13.clone(),
        }
    }

    /// Refuses the client certificates on a list from now on. Connections stay.
    pub(crate) fn revoke(
        &self,
        list: &CertificateRevocationListDer<'static>,
    ) -> Result<(), BrokerError> {
        if self.client_auth == ClientAuth::None {
            return Err(refused(
                "ssl.client.auth",
                "is none, so the broker does not request client certificates. Start it with \
                 configs={'ssl.client.auth': 'required'}",
            ));
        }
        let acceptors = Acceptors::new(&self.files, self.client_auth, Some(list))?;
        *self
            .acceptors
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = acceptors;
        Ok(())
    }
}

impl Acceptors {
    fn new(
        files: &TlsFiles,
        client_auth: ClientAuth,
        revoked: Option<&CertificateRevocationListDer<'static>>,
    ) -> Result<Self, BrokerError> {
        let of = |versions: &[&'static SupportedProtocolVersion]| {
            acceptor(files, client_auth, revoked, versions)
        };
        Ok(Self {
            any: of(&[&TLS13, &TLS12])?,
            tls12: of(&[&TLS12])?,
            tls13: of(&[&TLS13])?,
        })
    }
}

fn acceptor(
    files: &TlsFiles,
    client_auth: ClientAuth,
    revoked: Option<&CertificateRevocationListDer<'static>>,
    versions: &[&'static SupportedProtocolVersion],
) -> Result<TlsAcceptor, BrokerError> {
    let chain = certificates("ssl_certfile", &files.chain)?;
    let key = PrivateKeyDer::from_pem_slice(files.key.reveal().as_bytes()).map_err(|error| {
        let problem = match error {
            pem::Error::NoItemsFound => {
                "contains no unencrypted PEM private key (BEGIN PRIVATE KEY). To decrypt a key: \
                 `openssl pkey -in old.key -out new.key`"
                    .to_owned()
            }
            other => other.to_string(),
        };
        refused("ssl_keyfile", &problem)
    })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .map_err(|error| refused("TLS", &error.to_string()))?;
    let authorities = files.client_authorities.as_deref();
    let builder = match verifier(authorities, client_auth, revoked)? {
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
    revoked: Option<&CertificateRevocationListDer<'static>>,
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
    let builder = builder.with_crls(revoked.cloned());
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
