//! Opening a connection: socket, TLS, `ApiVersions` (KIP-35, KIP-511), SASL (KIP-43, KIP-152).
//!
//! ```text
//!   connect ─▶ [TLS] ─▶ ApiVersions ─▶ [SaslHandshake ─▶ SaslAuthenticate ...] ─▶ ready
//! ```
//! Later, SASL may take place again on the same connection (KIP-368). The cluster limits the time for
//! all of it: it closes attempts that take too long.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use thalweg_cluster::{Address, ApiVersions, ConnectionError, SaslSession, SetupStep};
use thalweg_protocol::messages::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use thalweg_protocol::{ApiKey, ErrorCode, Message, Reader, Request, Str, frame, frame_length};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use zeroize::Zeroizing;

use super::hint::{TLS_PORT, explain, is_tls};
use super::tls::TlsSession;
use crate::sasl::Mechanism;
use crate::tls::Tls;
use crate::transport::{BoxStream, Transport};

const SOFTWARE_NAME: &str = "thalweg";

/// The limit on a response before the connection is handed over. The client has not authenticated
/// the broker yet, so it must not make the client allocate memory.
const RESPONSE_BYTES_MAX: usize = 1 << 20;

/// The first correlation ID of a re-authentication. It differs from those of earlier requests on the
/// connection, so that no late response passes for a response to the re-authentication.
const REAUTHENTICATION_ID: i32 = i32::MAX - 64;

/// Resolves all addresses of a host.
pub(crate) async fn resolve(
    transport: &dyn Transport,
    host: &str,
    port: u16,
) -> Result<Vec<SocketAddr>, ConnectionError> {
    let failed = |reason: String| ConnectionError::Dns {
        host: host.to_owned(),
        reason,
    };
    let found = transport
        .resolve(host, port)
        .await
        .map_err(|error| failed(error.to_string()))?;
    if found.is_empty() {
        return Err(failed("the name has no address".to_owned()));
    }
    Ok(found)
}

/// How all connections of one client are opened.
pub(crate) struct Opener {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) sasl: Option<Arc<Mechanism>>,
    pub(crate) client_id: Option<String>,
    pub(crate) receive_max: usize,
}

/// A connection that is ready for requests.
pub(crate) struct Opened {
    pub(crate) stream: BoxStream,
    /// Where it leads, for errors.
    pub(crate) label: String,
    pub(crate) versions: Arc<ApiVersions>,
    /// `None` without SASL.
    pub(crate) session: Option<SaslSession>,
}

/// Called with each step that waits for code outside of this module.
pub(super) type Awaiting<'a> = &'a (dyn Fn(SetupStep) + Send + Sync);

/// Why an attempt failed.
pub(super) struct Failed {
    pub(super) error: ConnectionError,
    /// Whether the broker refused credentials that the next attempt replaces.
    pub(super) try_again: bool,
}

impl From<ConnectionError> for Failed {
    fn from(error: ConnectionError) -> Self {
        Self {
            error,
            try_again: false,
        }
    }
}

impl Opener {
    /// Opens a connection. It calls `awaiting` for each step that waits for code outside of this
    /// module.
    pub(crate) async fn open(
        &self,
        address: &Address,
        socket: SocketAddr,
        awaiting: Awaiting<'_>,
    ) -> Result<Opened, ConnectionError> {
        let mut opened = self.attempt(address, socket, awaiting).await;
        if let Err(Failed {
            try_again: true, ..
        }) = opened
        {
            opened = self.attempt(address, socket, awaiting).await;
        }
        opened.map_err(|failed| failed.error)
    }

    async fn attempt(
        &self,
        address: &Address,
        socket: SocketAddr,
        awaiting: Awaiting<'_>,
    ) -> Result<Opened, Failed> {
        let label = label(address, socket);
        let plain =
            self.transport
                .connect(socket)
                .await
                .map_err(|error| ConnectionError::Connect {
                    address: label.clone(),
                    reason: error.to_string(),
                })?;
        let tls = self.tls_session().await;
        let mut stream = match &tls {
            None => plain,
            Some(tls) => {
                awaiting(SetupStep::TlsHandshake);
                tls.start(plain, &address.host, &label).await?
            }
        };
        let mut handshake = self.handshake(&mut stream, &label, tls);
        awaiting(SetupStep::ApiVersions);
        let versions = handshake.api_versions().await?;
        let session = match &self.sasl {
            None => None,
            Some(mechanism) => {
                let authentication = handshake.authenticate(mechanism, &versions, awaiting);
                Some(authentication.await?)
            }
        };
        Ok(Opened {
            stream,
            label,
            versions: Arc::new(versions),
            session,
        })
    }

    /// Authenticates again on a connection that has nothing in flight.
    pub(super) async fn reauthenticate(
        &self,
        stream: &mut BoxStream,
        label: &str,
        versions: &ApiVersions,
        awaiting: Awaiting<'_>,
    ) -> Result<SaslSession, ConnectionError> {
        let mut handshake = Handshake {
            correlation_id: REAUTHENTICATION_ID,
            answered: true,
            ..self.handshake(stream, label, self.tls_session().await)
        };
        let Some(mechanism) = &self.sasl else {
            return Err(handshake.unsupported("this client has no credentials".to_owned()));
        };
        let session = handshake.authenticate(mechanism, versions, awaiting).await;
        session.map_err(|failed| failed.error)
    }

    async fn tls_session(&self) -> Option<TlsSession> {
        match &self.tls {
            None => None,
            Some(tls) => Some(TlsSession::new(tls.current().await)),
        }
    }

    fn handshake<'a>(
        &'a self,
        stream: &'a mut BoxStream,
        label: &'a str,
        tls: Option<TlsSession>,
    ) -> Handshake<'a> {
        Handshake {
            stream,
            label,
            client_id: self.client_id.as_deref(),
            receive_max: self.receive_max,
            correlation_id: 0,
            tls,
            answered: false,
        }
    }
}

/// Returns "host:port", followed by the IP address in brackets if the host is a name.
fn label(address: &Address, socket: SocketAddr) -> String {
    if address.host.parse::<std::net::IpAddr>().is_ok() {
        address.to_string()
    } else {
        format!("{address} ({})", socket.ip())
    }
}

/// Returns the host of a label, without the brackets of an IPv6 address.
pub(super) fn host(label: &str) -> &str {
    let address = label.split_once(" (").map_or(label, |(address, _)| address);
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Sends requests one at a time, while nothing else uses the connection.
pub(super) struct Handshake<'a> {
    stream: &'a mut BoxStream,
    pub(super) label: &'a str,
    client_id: Option<&'a str>,
    receive_max: usize,
    correlation_id: i32,
    tls: Option<TlsSession>,
    /// Whether the broker has responded on this connection, so that it speaks our protocol.
    answered: bool,
}

impl Handshake<'_> {
    async fn api_versions(&mut self) -> Result<ApiVersions, ConnectionError> {
        let newest = ApiKey::API_VERSIONS
            .valid_versions()
            .map_or(0, |versions| *versions.end());
        let response = self.ask_versions(newest).await?;
        if !ApiVersions::wants_older(&response) {
            return self.accept_versions(&response);
        }
        // The broker is older. Its response (always in version 0) may name the range that it
        // supports.
        let theirs = ApiVersions::from_response(&response).range(ApiKey::API_VERSIONS);
        let version = theirs.map_or(0, |range| (*range.end()).clamp(0, newest));
        let response = self.ask_versions(version).await?;
        self.accept_versions(&response)
    }

    fn accept_versions(
        &self,
        response: &ApiVersionsResponse,
    ) -> Result<ApiVersions, ConnectionError> {
        let error = ErrorCode(response.error_code);
        if error == ErrorCode::NONE {
            return Ok(ApiVersions::from_response(response));
        }
        Err(self.unsupported(format!("the broker refused ApiVersions: {}", error.name())))
    }

    async fn ask_versions(&mut self, version: i16) -> Result<ApiVersionsResponse, ConnectionError> {
        let request = ApiVersionsRequest {
            client_software_name: Str::from(SOFTWARE_NAME),
            client_software_version: Str::from(env!("CARGO_PKG_VERSION")),
        };
        let mut body = self.exchange(&request, version, 0).await?;
        // The error code comes first in every version. With this code, the response is in version
        // 0.
        let error = body.clone().i16().map(ErrorCode);
        let version = if error == Ok(ErrorCode::UNSUPPORTED_VERSION) {
            0
        } else {
            version
        };
        ApiVersionsResponse::decode(&mut body, version).map_err(|error| self.malformed(&error))
    }

    pub(super) fn require(
        &self,
        versions: &ApiVersions,
        key: ApiKey,
    ) -> Result<i16, ConnectionError> {
        versions.negotiate(key).ok_or_else(|| {
            self.unsupported(format!(
                "the broker supports no version of {} that this client supports",
                key.name()
            ))
        })
    }

    pub(super) fn unsupported(&self, reason: String) -> ConnectionError {
        ConnectionError::Unsupported {
            address: self.label.to_owned(),
            reason,
        }
    }

    pub(super) async fn ask<R: Request>(
        &mut self,
        request: &R,
        version: i16,
    ) -> Result<R::Response, ConnectionError> {
        self.ask_with_room(request, version, 0).await
    }

    /// Sends a request that has a secret of `room` bytes.
    pub(super) async fn ask_with_room<R: Request>(
        &mut self,
        request: &R,
        version: i16,
        room: usize,
    ) -> Result<R::Response, ConnectionError> {
        let mut body = self.exchange(request, version, room).await?;
        R::Response::decode(&mut body, version).map_err(|error| self.malformed(&error))
    }

    /// Sends one request and returns the body of its response.
    async fn exchange<R: Request>(
        &mut self,
        request: &R,
        version: i16,
        room: usize,
    ) -> Result<Reader, ConnectionError> {
        let correlation_id = self.correlation_id;
        self.correlation_id += 1;
        let (id, client) = (correlation_id, self.client_id);
        let bytes = frame::encode_request_with_room(request, version, id, client, room)
            .map(Zeroizing::new)
            .map_err(|error| self.malformed(&error))?;
        let response = match self.round_trip(&bytes).await {
            Ok(prefix) => self.rest_of_frame(prefix).await?,
            Err(error) => return Err(self.broken(&error)),
        };
        let mut reader = Reader::new(response);
        let got = frame::decode_response_header(&mut reader, R::KEY, version)
            .map_err(|error| self.malformed(&error))?;
        if got != correlation_id {
            return Err(ConnectionError::WrongCorrelationId {
                expected: correlation_id,
                got,
            });
        }
        self.answered = true;
        Ok(reader)
    }

    async fn round_trip(&mut self, bytes: &[u8]) -> io::Result<[u8; 4]> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await?;
        let mut prefix = [0; 4];
        self.stream.read_exact(&mut prefix).await?;
        Ok(prefix)
    }

    async fn rest_of_frame(&mut self, prefix: [u8; 4]) -> Result<Bytes, ConnectionError> {
        if self.tls.is_none() && is_tls(prefix) {
            let (address, reason) = (self.label.to_owned(), TLS_PORT.to_owned());
            return Err(ConnectionError::Tls {
                address,
                reason,
                fatal: true,
            });
        }
        let length =
            frame_length(prefix, self.receive_max).map_err(|bad| self.malformed(&explain(bad)))?;
        if length > RESPONSE_BYTES_MAX {
            return Err(self.malformed(&format!(
                "a response of {length} bytes is larger than {RESPONSE_BYTES_MAX}, the limit while \
                 a connection is opened. Check that the port belongs to a Kafka broker"
            )));
        }
        // The buffer grows with the bytes that arrive, because the length is only the peer's claim.
        let mut body = Vec::new();
        let mut frame = (&mut *self.stream).take(length as u64);
        match frame.read_to_end(&mut body).await {
            Ok(read) if read == length => Ok(Bytes::from(body)),
            Ok(_) => Err(self.broken(&io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(self.broken(&error)),
        }
    }

    fn malformed(&self, error: &dyn std::fmt::Display) -> ConnectionError {
        ConnectionError::Malformed(format!("{}: {error}", self.label))
    }

    fn broken(&self, error: &io::Error) -> ConnectionError {
        let tls = self.tls.as_ref();
        if let Some(error) = tls.and_then(|tls| tls.error(self.label, error)) {
            return error;
        }
        let reason = match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset if self.answered => {
                "the broker closed the connection during the SASL authentication".to_owned()
            }
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset if tls.is_none() => {
                "the broker closed the connection during the handshake. If this is a TLS port, set \
                 security_protocol to SSL or SASL_SSL"
                    .to_owned()
            }
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => {
                let hint = tls.and_then(TlsSession::closed);
                let hint = hint.map_or_else(String::new, |hint| format!(". {hint}"));
                format!("the broker closed the connection during the handshake{hint}")
            }
            _ => error.to_string(),
        };
        ConnectionError::Connect {
            address: self.label.to_owned(),
            reason,
        }
    }
}
