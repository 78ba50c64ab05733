//! TLS, over an in-memory network and with certificates that the tests make.

mod keys;
mod trust;

use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose,
    SerialNumber,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use thalweg_cluster::{ConnectionError, Idle};
use thalweg_network::tls::{Pem, TlsConfig};
use thalweg_network::{
    Client, ClientConfig, ClientError, Request, RequestTarget, SecurityProtocol,
};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use crate::broker::{Broker, Reaction};
use crate::requests::heartbeat;

pub(super) type Ca = CertifiedIssuer<'static, KeyPair>;

pub(super) fn authority(name: &str) -> Ca {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a CA")
}

/// Makes a certificate and its key for a host, signed by `ca`.
pub(super) fn certificate(ca: &Ca, host: &str, serial: u8) -> (String, KeyPair) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec![host.to_owned()]).expect("a host name");
    params.serial_number = Some(SerialNumber::from(vec![serial]));
    (params.signed_by(&key, ca).expect("signed").pem(), key)
}

pub(super) fn server(ca: &Ca, host: &str, clients: Option<&Ca>) -> TlsAcceptor {
    server_for(ca, host, clients.map(|ca| ca.der().clone()))
}

/// Makes the server's side. It wants certificates of clients from the authority `clients`.
pub(super) fn server_for(
    ca: &Ca,
    host: &str,
    clients: Option<CertificateDer<'static>>,
) -> TlsAcceptor {
    let (cert, key) = certificate(ca, host, 7);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("ring knows them");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            roots.add(ca).expect("a CA");
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.expect("a verifier"))
        }
    };
    let chain = vec![CertificateDer::from_pem_slice(cert.as_bytes()).expect("PEM")];
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).expect("PEM");
    TlsAcceptor::from(Arc::new(
        builder.with_single_cert(chain, key).expect("a pair"),
    ))
}

/// Starts a broker behind TLS at "broker:9092".
pub(super) fn broker(acceptor: TlsAcceptor) -> Broker {
    let broker = Broker::new(|_| Reaction::Usual);
    let mut listener = broker.network.listen("broker", 9092);
    let serving = broker.clone();
    tokio::spawn(async move {
        while let Some(stream) = listener.accept().await {
            let (acceptor, serving) = (acceptor.clone(), serving.clone());
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    serving.connection(stream).await;
                }
            });
        }
    });
    broker
}

pub(super) async fn outcome(broker: &Broker, tls: TlsConfig) -> Result<(), ClientError> {
    let security_protocol = SecurityProtocol::Ssl;
    let config = ClientConfig {
        security_protocol,
        tls,
        ..broker.config()
    };
    let client = Client::start_here(broker.parts(&config), Idle);
    let timeout = Some(Duration::from_secs(5));
    let request = Request {
        timeout,
        ..heartbeat(RequestTarget::LeastLoaded)
    };
    client.view().request(request).await.map(drop)
}

pub(super) fn trusting(ca: &Ca) -> TlsConfig {
    TlsConfig {
        ca: Some(Pem::Inline(ca.pem())),
        ..TlsConfig::default()
    }
}

/// Returns the TLS error that ended the request, which must come quickly.
pub(super) async fn refusal(broker: &Broker, tls: TlsConfig) -> String {
    let start = Instant::now();
    let error = outcome(broker, tls).await.expect_err("refused");
    assert!(
        start.elapsed() < Duration::from_secs(1),
        "scenario 24: fails fast: {error}"
    );
    let ClientError::Connection(cause) = &error else {
        panic!("{error}")
    };
    assert!(
        matches!(**cause, ConnectionError::Tls { fatal: true, .. }),
        "{error}"
    );
    error.to_string()
}

/// Returns the constructor's error.
pub(super) fn refused_settings(tls: TlsConfig) -> String {
    let config = ClientConfig {
        security_protocol: SecurityProtocol::Ssl,
        tls,
        ..ClientConfig::plaintext("h:1").expect("a good address")
    };
    let error = thalweg_network::Parts::new(&config).err();
    error.expect("a bad setting").to_string()
}
