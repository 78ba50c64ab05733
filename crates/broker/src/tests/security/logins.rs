//! SASL on a connection: who may log in, when, and what else the broker then accepts. The tests of
//! the crate `network` log in with SCRAM.

use std::collections::BTreeMap;

use thalweg_protocol::ApiKey;
use thalweg_protocol::messages::api_versions::ApiVersionsRequest;
use thalweg_protocol::messages::metadata::MetadataRequest;
use thalweg_protocol::messages::sasl_authenticate::{
    SaslAuthenticateRequest, SaslAuthenticateResponse,
};
use thalweg_protocol::messages::sasl_handshake::{SaslHandshakeRequest, SaslHandshakeResponse};
use thalweg_security::Secret;

use super::*;
use crate::{FaultAction, FaultMatch, SaslMechanism, SecurityConfig, SecurityProtocol};

/// Signed with nothing: {"alg":"none"} and {"sub":"carol","exp":1750000005}, 5 s after `NOW_MS`.
const TOKEN: &str = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJjYXJvbCIsImV4cCI6MTc1MDAwMDAwNX0.";

struct Client {
    bench: Bench,
    connection: Connection,
}

impl Client {
    fn new(mechanisms: &[&str], options: &[(&str, &str)]) -> Self {
        let mut bench = Bench::with_options(1, options);
        let users = [("alice", "s3cret"), ("bob", "secret2")];
        let mechanisms = mechanisms
            .iter()
            .map(|name| SaslMechanism::from_name(name).unwrap());
        bench.core.secure(&SecurityConfig {
            protocol: SecurityProtocol::SaslPlaintext,
            mechanisms: mechanisms.collect(),
            users: users
                .map(|(user, word)| (user.to_owned(), Secret::new(word)))
                .into(),
            ..SecurityConfig::default()
        });
        let connection = bench.core.connect(1, "/127.0.0.1".to_owned());
        Self { bench, connection }
    }

    fn send<R: Request>(&mut self, request: &R, version: i16) -> Outcome {
        let frame = frame::encode_request(request, version, 7, Some("test")).unwrap();
        self.bench
            .handle_on(&mut self.connection, Bytes::from(frame).slice(4..))
    }

    fn handshake(&mut self, mechanism: &str) -> (Response, SaslHandshakeResponse) {
        let request = SaslHandshakeRequest {
            mechanism: mechanism.into(),
        };
        answered::<SaslHandshakeRequest>(self.send(&request, 1), 1)
    }

    fn authenticate(&mut self, message: &[u8]) -> (Response, SaslAuthenticateResponse) {
        let request = SaslAuthenticateRequest {
            auth_bytes: Bytes::copy_from_slice(message),
        };
        answered::<SaslAuthenticateRequest>(self.send(&request, 2), 2)
    }

    /// Logs in, and returns the lifetime of the session.
    fn log_in(&mut self, mechanism: &str, message: &[u8]) -> i64 {
        assert_eq!(self.handshake(mechanism).1.error_code, 0);
        let (_, response) = self.authenticate(message);
        assert_eq!(response.error_code, 0, "{:?}", response.error_message);
        response.session_lifetime_ms
    }

    fn is_served(&mut self) -> bool {
        !matches!(self.send(&MetadataRequest::default(), 12), Outcome::Close)
    }
}

/// Returns the response of a broker, with what it does to the connection.
fn answered<R: Request>(outcome: Outcome, version: i16) -> (Response, R::Response) {
    let Outcome::Response(response) = outcome else {
        panic!("no response: {outcome:?}");
    };
    let copy = Response {
        pieces: response.pieces.clone(),
        ..response
    };
    let message = decode::<R>(Outcome::Response(copy), version);
    (response, message)
}

fn code_of(response: &SaslAuthenticateResponse) -> ErrorCode {
    ErrorCode(response.error_code)
}

#[test]
fn only_a_client_that_has_logged_in_is_served() {
    let mut client = Client::new(&["PLAIN"], &[]);
    assert!(!client.connection.is_authenticated());
    assert!(!client.is_served());
    assert!(matches!(
        client.send(&ApiVersionsRequest::default(), 0),
        Outcome::Response(_)
    ));
    let early = SaslAuthenticateRequest::default();
    assert!(matches!(client.send(&early, 2), Outcome::Close));
    assert_eq!(client.handshake("PLAIN").1.mechanisms, ["PLAIN"]);
    // Between the two, nothing else is accepted.
    assert!(!client.is_served());
    assert!(matches!(
        client.send(&ApiVersionsRequest::default(), 0),
        Outcome::Close
    ));
    let handshake = SaslHandshakeRequest::default();
    assert!(matches!(client.send(&handshake, 1), Outcome::Close));
    let (_, response) = client.authenticate(b"\0alice\0s3cret");
    assert_eq!((response.error_code, response.session_lifetime_ms), (0, 0));
    assert!(client.connection.is_authenticated());
    assert_eq!(client.connection.principal().to_string(), "User:alice");
    assert!(client.is_served());
}

#[test]
fn a_wrong_password_and_an_unknown_user_get_the_same_response_later_and_the_end() {
    for login in ["\0alice\0wrong", "\0mallory\0s3cret"] {
        let mut client = Client::new(&["PLAIN"], &[]);
        client.handshake("PLAIN");
        let (response, message) = client.authenticate(login.as_bytes());
        assert_eq!(code_of(&message), ErrorCode::SASL_AUTHENTICATION_FAILED);
        let words = "Authentication failed: Invalid username or password";
        assert_eq!(message.error_message.as_deref(), Some(words));
        let later = client.bench.now + Duration::from_millis(100);
        assert_eq!((response.is_last, response.not_before), (true, Some(later)));
        assert!(!client.connection.is_authenticated());
        assert!(!client.is_served());
        assert!(matches!(
            client.send(&SaslHandshakeRequest::default(), 1),
            Outcome::Close
        ));
    }
}

#[test]
fn a_mechanism_that_is_not_offered_is_answered_with_those_that_are() {
    let mut client = Client::new(&["PLAIN", "SCRAM-SHA-512"], &[]);
    let (response, message) = client.handshake("SCRAM-SHA-256");
    assert!(response.is_last);
    assert_eq!(
        ErrorCode(message.error_code),
        ErrorCode::UNSUPPORTED_SASL_MECHANISM
    );
    assert_eq!(message.mechanisms, ["PLAIN", "SCRAM-SHA-512"]);
    assert!(!client.is_served());
}

#[test]
fn scram_fails_alike_for_unknown_users_and_wrong_proofs() {
    let words = "Authentication failed during authentication due to invalid credentials with SASL \
                 mechanism SCRAM-SHA-256";
    for user in ["alice", "mallory"] {
        let mut client = Client::new(&["SCRAM-SHA-256"], &[]);
        client.handshake("SCRAM-SHA-256");
        let first = format!("n,,n={user},r=nonce");
        let (_, challenge) = client.authenticate(first.as_bytes());
        assert_eq!(challenge.error_code, 0);
        let text = str::from_utf8(&challenge.auth_bytes).unwrap().to_owned();
        let (nonce, rest) = text.split_once(',').unwrap();
        assert!(
            nonce.starts_with("r=nonce") && rest.ends_with(",i=4096"),
            "{text}"
        );
        let last = format!("c=biws,{nonce},p={}=", "A".repeat(43));
        let (response, message) = client.authenticate(last.as_bytes());
        assert!(response.is_last);
        assert_eq!(code_of(&message), ErrorCode::SASL_AUTHENTICATION_FAILED);
        assert_eq!(message.error_message.as_deref(), Some(words), "{user}");
        assert!(message.auth_bytes.is_empty());
    }
}

#[test]
fn a_token_is_accepted_until_it_expires() {
    let message = format!("n,,\x01auth=Bearer {TOKEN}\x01\x01");
    let mut client = Client::new(&["OAUTHBEARER"], &[]);
    assert_eq!(client.log_in("OAUTHBEARER", message.as_bytes()), 5000);
    assert_eq!(client.connection.principal().name(), "carol");
    client.bench.pass(Duration::from_millis(4999));
    assert!(client.is_served());
    client.bench.pass(Duration::from_millis(1));
    assert!(!client.is_served());
}

#[test]
fn a_refused_token_is_explained_in_json_and_confirmed_by_the_client() {
    let mut client = Client::new(&["OAUTHBEARER"], &[]);
    client.bench.pass(Duration::from_secs(5));
    client.handshake("OAUTHBEARER");
    let message = format!("n,,\x01auth=Bearer {TOKEN}\x01\x01");
    let (response, refusal) = client.authenticate(message.as_bytes());
    assert_eq!((response.is_last, refusal.error_code), (false, 0));
    assert_eq!(&refusal.auth_bytes[..], br#"{"status":"invalid_token"}"#);
    let (response, end) = client.authenticate(b"\x01");
    assert!(response.is_last);
    assert_eq!(code_of(&end), ErrorCode::SASL_AUTHENTICATION_FAILED);
    assert_eq!(
        end.error_message.as_deref(),
        Some(r#"{"status":"invalid_token"}"#)
    );
}

#[test]
fn a_session_ends_unless_the_client_logs_in_again() {
    let mut client = Client::new(&["PLAIN"], &[("connections.max.reauth.ms", "3000")]);
    assert_eq!(client.log_in("PLAIN", b"\0alice\0s3cret"), 3000);
    client.bench.pass(Duration::from_millis(2999));
    assert!(client.is_served());
    assert_eq!(client.log_in("PLAIN", b"\0alice\0s3cret"), 3000);
    client.bench.pass(Duration::from_secs(3));
    // The session has ended, but the client may still log in.
    assert!(!client.is_served());
    assert_eq!(client.log_in("PLAIN", b"\0alice\0s3cret"), 3000);
    assert!(client.is_served());
}

#[test]
fn the_user_and_the_mechanism_of_a_connection_cannot_change() {
    let options = [("connections.max.reauth.ms", "3000")];
    let mut client = Client::new(&["PLAIN"], &options);
    client.log_in("PLAIN", b"\0alice\0s3cret");
    client.handshake("PLAIN");
    let (response, message) = client.authenticate(b"\0bob\0secret2");
    assert!(response.is_last);
    let words = "Cannot change principals during re-authentication from User.alice: User.bob";
    assert_eq!(message.error_message.as_deref(), Some(words));
    assert!(!client.is_served());

    let mut client = Client::new(&["PLAIN", "SCRAM-SHA-256"], &options);
    client.log_in("PLAIN", b"\0alice\0s3cret");
    assert_eq!(client.handshake("SCRAM-SHA-256").1.error_code, 0);
    let (response, message) = client.authenticate(b"n,,n=alice,r=nonce");
    assert!(response.is_last);
    let words = "SASL mechanism 'SCRAM-SHA-256' requested by client is not supported for \
                 re-authentication of mechanism 'PLAIN'";
    assert_eq!(message.error_message.as_deref(), Some(words));
}

#[test]
fn a_login_too_early_or_without_need_is_refused_and_the_session_continues() {
    let mut client = Client::new(&["PLAIN"], &[("connections.max.reauth.ms", "3000")]);
    client.log_in("PLAIN", b"\0alice\0s3cret");
    client.log_in("PLAIN", b"\0alice\0s3cret");
    let (response, message) = client.handshake("PLAIN");
    assert_eq!(ErrorCode(message.error_code), ErrorCode::ILLEGAL_SASL_STATE);
    assert!(!response.is_last);
    assert!(client.is_served());
    client.bench.pass(Duration::from_secs(1));
    client.log_in("PLAIN", b"\0alice\0s3cret");

    for mut client in [Client::new(&["PLAIN"], &[]), Client::open()] {
        if !client.connection.is_authenticated() {
            client.log_in("PLAIN", b"\0alice\0s3cret");
        }
        let (_, message) = client.handshake("PLAIN");
        assert_eq!(ErrorCode(message.error_code), ErrorCode::ILLEGAL_SASL_STATE);
        assert!(message.mechanisms.is_empty());
        let (_, message) = client.authenticate(b"\0alice\0s3cret");
        assert_eq!(code_of(&message), ErrorCode::ILLEGAL_SASL_STATE);
        assert!(client.is_served());
    }
}

impl Client {
    /// A client of a broker without SASL.
    fn open() -> Self {
        let bench = Bench::new(1);
        let connection = bench.core.connect(1, "/127.0.0.1".to_owned());
        Self { bench, connection }
    }
}

#[test]
fn a_fault_refuses_a_login_that_is_right() {
    let mut client = Client::new(&["PLAIN"], &[]);
    let matches = FaultMatch {
        api: Some(ApiKey::SASL_AUTHENTICATE),
        ..FaultMatch::default()
    };
    let action = FaultAction::Fail(ErrorCode::SASL_AUTHENTICATION_FAILED);
    client.bench.core.faults.add(matches, action, Some(1));
    client.handshake("PLAIN");
    let (response, message) = client.authenticate(b"\0alice\0s3cret");
    assert!(response.is_last);
    assert_eq!(code_of(&message), ErrorCode::SASL_AUTHENTICATION_FAILED);
    assert!(!client.is_served());
}

#[test]
fn debug_of_the_security_shows_no_secret() {
    let client = Client::new(&["PLAIN", "SCRAM-SHA-512"], &[]);
    let users: BTreeMap<String, Secret> = [("alice".to_owned(), Secret::new("s3cret"))].into();
    let config = SecurityConfig {
        users,
        ..SecurityConfig::default()
    };
    let shown = format!("{:?} {config:?}", client.bench.core.security);
    assert!(
        !shown.contains("s3cret") && !shown.contains("secret2"),
        "{shown}"
    );
}

/// alice with her password as the secret key, for the host localhost, at `NOW_MS`.
const SIGNED: &str = r#"{"version":"2020_10_22","host":"localhost","user-agent":"x","action":"kafka-cluster:Connect","x-amz-algorithm":"AWS4-HMAC-SHA256","x-amz-credential":"alice/20250615/us-east-1/kafka-cluster/aws4_request","x-amz-date":"20250615T150640Z","x-amz-expires":"900","x-amz-signedheaders":"host","x-amz-signature":"2503d2d9f2c40327d4d1cc243598134fd3654e8fc26a20323f9e761a78f102de"}"#;

#[test]
fn aws_credentials_log_in_with_a_signature() {
    let mut client = Client::new(&["AWS_MSK_IAM"], &[]);
    assert_eq!(client.log_in("AWS_MSK_IAM", SIGNED.as_bytes()), 0);
    assert!(client.is_served());
    for wrong in [
        SIGNED.replace("alice", "bob"),
        SIGNED.replace("alice", "eve"),
        "{}".to_owned(),
    ] {
        let mut client = Client::new(&["AWS_MSK_IAM"], &[]);
        assert_eq!(client.handshake("AWS_MSK_IAM").1.error_code, 0);
        let (_, response) = client.authenticate(wrong.as_bytes());
        assert_eq!(response.error_code, 58);
        assert!(
            response
                .error_message
                .expect("words")
                .ends_with("]: Access denied")
        );
        assert!(!client.is_served());
    }
}
