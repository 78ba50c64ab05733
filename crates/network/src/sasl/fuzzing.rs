//! What `crate::fuzzing` calls for SASL.

use std::sync::{Arc, OnceLock};

use thalweg_security::Salts;
use thalweg_security::scram::{ClientFirst, Credential};

use super::scram::{Credentials, Scram};
use super::{SaslError, ScramConfig, ScramHash, Secret, Session, oauthbearer};

const NONCE: &str = "fyko+d2lbbFgONRv9qkxdawL";
/// The smallest number that a client accepts, so that a good message does not cost much time.
const ITERATIONS: u32 = 4096;

fn client() -> Scram {
    // One for all inputs: it keeps the keys of the last salt.
    static CREDENTIALS: OnceLock<Arc<Credentials>> = OnceLock::new();
    let make = || {
        let mut config = ScramConfig::new(ScramHash::Sha256, "alice", Secret::new("s3cret"));
        config.iterations_max = ITERATIONS;
        Arc::new(Credentials::new(config))
    };
    let credentials = CREDENTIALS.get_or_init(make);
    Scram::new(Arc::clone(credentials), NONCE.to_owned())
}

/// Returns a client that waits for server-final.
fn challenged() -> Result<Scram, SaslError> {
    static KNOWN: OnceLock<Credential> = OnceLock::new();
    let derive = || {
        let salts = Salts::new(&[7; 32]);
        Credential::derive(ScramHash::Sha256, "alice", &Secret::new("s3cret"), &salts)
    };
    let mut client = client();
    let first = client.step(b"")?.unwrap_or_default();
    let Ok(first) = ClientFirst::parse(&first) else {
        unreachable!("the client's own message");
    };
    let (message, _) = first.challenge(KNOWN.get_or_init(derive).clone(), "more");
    client.step(&message)?;
    Ok(client)
}

pub(crate) fn scram_client(data: &[u8]) {
    let place = data.iter().position(|byte| *byte == b'\n');
    let (first, last) = data.split_at(place.unwrap_or(data.len()));
    let last = last.get(1..).unwrap_or_default();
    let mut client = client();
    let _ = client.step(b"");
    if client.step(first).is_ok() {
        assert!(client.step(last).is_err(), "a broker without the password");
    }
    let mut client = challenged().expect("both sides know the password");
    assert!(client.step(last).is_err(), "a broker without the password");
    assert!(client.step(b"").is_err(), "a message after the end");
}

pub(crate) fn oauthbearer_client(data: &[u8]) {
    let text = oauthbearer::refusal(data);
    assert!(!text.chars().any(char::is_control), "{text:?}");
}
