//! The client's side of each mechanism against the broker's.

use thalweg_security::scram::{ClientFirst, Credential};
use thalweg_security::{Nonces, Refusal, Salts, oauthbearer, plain};

use super::plain::Plain;
use super::scram::{Credentials, Scram};
use super::{SaslError, ScramConfig, ScramHash, Secret, Session, scram};

const HASHES: [ScramHash; 2] = [ScramHash::Sha256, ScramHash::Sha512];

/// Why an exchange ended.
#[derive(Debug, PartialEq)]
enum End {
    /// Both sides have accepted each other.
    Accepted,
    ByBroker(Refusal),
    ByClient(SaslError),
}

fn salts() -> Salts {
    Salts::new(&[7; 32])
}

fn sent(session: &mut impl Session, received: &[u8]) -> Result<Option<Vec<u8>>, End> {
    session.step(received).map_err(End::ByClient)
}

/// Runs SCRAM. The broker may know another password than the client.
fn scram_exchange(hash: ScramHash, user: &str, password: &str, known: &Credential) -> End {
    let run = || -> Result<(), End> {
        let config = ScramConfig::new(hash, user, Secret::new(password));
        let nonce = scram::nonce().map_err(End::ByClient)?;
        let mut client = Scram::new(Credentials::new(config).into(), nonce);
        let message = sent(&mut client, b"")?.expect("client-first");
        let first = ClientFirst::parse(&message).map_err(End::ByBroker)?;
        assert_eq!(first.user(), user);
        let nonce = Nonces::new(salts()).nonce();
        let (message, challenged) = first.challenge(known.clone(), &nonce);
        let message = sent(&mut client, &message)?.expect("client-final");
        let message = challenged.finish(&message).map_err(End::ByBroker)?;
        assert_eq!(sent(&mut client, &message)?, None);
        Ok(())
    };
    run().map_or_else(|end| end, |()| End::Accepted)
}

#[test]
fn scram_accepts_the_same_password_on_both_sides() {
    let long = "x".repeat(1000);
    for hash in HASHES {
        for (user, password) in [
            ("alice", "s3cret"),
            ("a=b,c", ",=\"\\ '%"),
            ("=2C", "p\u{e4}ssw\u{f6}rd \u{2603}"),
            ("\u{2603}", long.as_str()),
        ] {
            let known = Credential::derive(hash, user, &Secret::new(password), &salts());
            assert_eq!(scram_exchange(hash, user, password, &known), End::Accepted);
            let end = scram_exchange(hash, user, "another", &known);
            assert!(matches!(end, End::ByBroker(_)), "{end:?}");
        }
    }
}

#[test]
fn scram_refuses_users_that_do_not_exist() {
    for hash in HASHES {
        let nobody = Credential::of_nobody(hash, "alice", &salts());
        let end = scram_exchange(hash, "alice", "s3cret", &nobody);
        assert!(matches!(end, End::ByBroker(_)), "{end:?}");
    }
}

/// As an administrator creates it with `AlterUserScramCredentials`.
#[test]
fn scram_accepts_a_salted_password_with_other_iterations() {
    for hash in HASHES {
        for iterations in [4096, 16_384] {
            let count = std::num::NonZeroU32::new(iterations).expect("not 0");
            let mut bytes = vec![0; hash.digest().output_len()];
            let algorithm = match hash {
                ScramHash::Sha256 => ring::pbkdf2::PBKDF2_HMAC_SHA256,
                ScramHash::Sha512 => ring::pbkdf2::PBKDF2_HMAC_SHA512,
            };
            ring::pbkdf2::derive(algorithm, count, b"salt", b"s3cret", &mut bytes);
            let known = Credential::from_salted(hash, &bytes, b"salt", iterations);
            assert_eq!(
                scram_exchange(hash, "alice", "s3cret", &known),
                End::Accepted
            );
        }
    }
}

#[test]
fn the_client_refuses_a_broker_that_does_not_know_the_password() {
    let known = Credential::derive(ScramHash::Sha256, "u", &Secret::new("p"), &salts());
    let config = ScramConfig::new(ScramHash::Sha256, "u", Secret::new("p"));
    let nonce = scram::nonce().expect("random");
    let mut client = Scram::new(Credentials::new(config).into(), nonce);
    let message = client.step(b"").expect("no error").expect("client-first");
    let first = ClientFirst::parse(&message).expect("well formed");
    let (message, _) = first.challenge(known, "added");
    client
        .step(&message)
        .expect("no error")
        .expect("client-final");
    let forged = client.step(b"v=AAAA").expect_err("not the signature");
    assert!(matches!(forged, SaslError::ByClient(_)), "{forged:?}");
}

#[test]
fn plain_arrives_as_it_was_sent() {
    let mut client = Plain::new("alice".into(), Secret::new("s3cret"));
    let message = client.step(b"").expect("no error").expect("a message");
    let login = plain::parse(&message).expect("well formed");
    assert_eq!(
        (login.user.as_str(), login.password.reveal()),
        ("alice", "s3cret")
    );
}

#[test]
fn a_token_arrives_with_its_extensions() {
    let token = super::Token {
        value: Secret::new("a.b-c=="),
        expires_at_ms: None,
        principal: None,
        extensions: vec![("traceId".to_owned(), "1 2".to_owned())],
    };
    let message = super::oauthbearer::client_first(&token);
    let first = oauthbearer::ClientFirst::parse(&message).expect("well formed");
    assert_eq!(first.token, token.value);
    assert_eq!(first.extensions, token.extensions);
}
