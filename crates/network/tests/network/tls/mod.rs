//! TLS, over an in-memory network and with certificates that the tests make.

mod errors;
mod hostile;
mod keys;
mod offers;
mod reload;
mod trust;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose,
    SerialNumber,
};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientCertVerifierBuilder, WebPkiClientVerifier};
use rustls::{
    CipherSuite, HandshakeKind, NamedGroup, ProtocolVersion, RootCertStore, ServerConfig,
    SupportedProtocolVersion,
};
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

/// Makes an issuer whose certificate does not say that it is an authority.
pub(super) fn leaf_that_signs(ca: &Ca) -> Ca {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, "a leaf");
    CertifiedIssuer::signed_by(params, KeyPair::generate().expect("a key"), ca).expect("a leaf")
}

/// Makes a certificate that has signed itself, and does not say that it is an authority.
pub(super) fn self_signed(host: &str) -> Ca {
    let mut params = CertificateParams::new(vec![host.to_owned()]).expect("a host name");
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, host);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a pair")
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
    let server = Server::of(certificate(ca, host, 7));
    match clients {
        None => server.acceptor(),
        Some(ca) => server.wanting(ca, |verifier| verifier).acceptor(),
    }
}

/// A server's side, before it starts.
pub(super) struct Server {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: KeyPair,
    pub(super) provider: CryptoProvider,
    pub(super) versions: Vec<&'static SupportedProtocolVersion>,
    pub(super) clients: Option<Arc<dyn ClientCertVerifier>>,
    pub(super) resumes: bool,
}

impl Server {
    /// Takes the certificate as PEM, with its key.
    pub(super) fn of((pem, key): (String, KeyPair)) -> Self {
        let chain = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>();
        Self {
            chain: chain.expect("PEM"),
            key,
            provider: rustls::crypto::ring::default_provider(),
            versions: rustls::ALL_VERSIONS.to_vec(),
            clients: None,
            resumes: true,
        }
    }

    /// Makes a server that wants certificates of clients from this authority.
    pub(super) fn wanting(
        self,
        ca: CertificateDer<'static>,
        change: impl FnOnce(ClientCertVerifierBuilder) -> ClientCertVerifierBuilder,
    ) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(ca).expect("a CA");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let clients = Some(change(builder).build().expect("a verifier"));
        Self { clients, ..self }
    }

    pub(super) fn acceptor(self) -> TlsAcceptor {
        let builder = ServerConfig::builder_with_provider(Arc::new(self.provider))
            .with_protocol_versions(&self.versions)
            .expect("ring knows them");
        let builder = match self.clients {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(verifier),
        };
        let key = PrivateKeyDer::from_pem_slice(self.key.serialize_pem().as_bytes()).expect("PEM");
        let mut config = builder.with_single_cert(self.chain, key).expect("a pair");
        if !self.resumes {
            config.send_tls13_tickets = 0;
        }
        TlsAcceptor::from(Arc::new(config))
    }
}

/// What the server's side has seen of a handshake.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) version: Option<ProtocolVersion>,
    pub(super) suite: Option<CipherSuite>,
    pub(super) curve: Option<NamedGroup>,
    pub(super) client: Option<CertificateDer<'static>>,
    pub(super) kind: Option<HandshakeKind>,
    /// The name that the client asked for (SNI).
    pub(super) name: Option<String>,
}

/// Starts a broker behind TLS at "broker:9092".
pub(super) fn broker(acceptor: TlsAcceptor) -> Broker {
    seeing(acceptor).0
}

/// Starts a broker behind TLS, and returns what it sees of each handshake.
pub(super) fn seeing(acceptor: TlsAcceptor) -> (Broker, Arc<Mutex<Vec<Seen>>>) {
    seeing_at("broker", acceptor)
}

/// Starts a broker behind TLS at another host.
pub(super) fn seeing_at(host: &str, acceptor: TlsAcceptor) -> (Broker, Arc<Mutex<Vec<Seen>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let broker = Broker::new(|_| Reaction::Usual);
    let mut listener = broker.network.listen(host, 9092);
    let serving = broker.clone();
    tokio::spawn(async move {
        while let Some(stream) = listener.accept().await {
            let (acceptor, serving) = (acceptor.clone(), serving.clone());
            let notes = Arc::clone(&notes);
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    let tls = stream.get_ref().1;
                    notes.lock().expect("no panic").push(Seen {
                        version: tls.protocol_version(),
                        suite: tls.negotiated_cipher_suite().map(|suite| suite.suite()),
                        curve: tls
                            .negotiated_key_exchange_group()
                            .map(SupportedKxGroup::name),
                        client: tls
                            .peer_certificates()
                            .map(|chain| chain[0].clone().into_owned()),
                        kind: tls.handshake_kind(),
                        name: tls.server_name().map(str::to_owned),
                    });
                    serving.connection(stream).await;
                }
            });
        }
    });
    (broker, seen)
}

pub(super) async fn outcome(broker: &Broker, tls: TlsConfig) -> Result<(), ClientError> {
    let security_protocol = SecurityProtocol::Ssl;
    let config = ClientConfig {
        security_protocol,
        tls,
        ..broker.config()
    };
    heartbeat_of(broker, &config).await
}

/// Starts a client, and returns the outcome of one request.
pub(super) async fn heartbeat_of(
    broker: &Broker,
    config: &ClientConfig,
) -> Result<(), ClientError> {
    let client = Client::start_here(broker.parts(config), Idle);
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
