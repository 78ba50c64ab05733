//! Entry points for fuzzing: plain functions that accept any bytes from a client.
//!
//! They must return, whatever the bytes are. The fuzzer calls these functions, and an ordinary test
//! runs them over the committed corpus.

use std::sync::OnceLock;

use crate::acl::{Acl, AclFilter, Operation, PatternType, Permission, ResourceType};
use crate::oauthbearer::{self, unsecured};
use crate::scram::{ClientFirst, Credential, ScramHash};
use crate::{Salts, Secret, certificate};

const NOW_MS: i64 = 1_750_000_000_000;

/// Runs a fuzzing entry point with each input, with its prefixes, and with single bytes changed.
///
/// `distance` is the number of bytes between two changes. Use a large one for inputs that are slow
/// to process.
///
/// # Panics
///
/// If the entry point panics, or if `inputs` is empty.
pub fn over_changes(fuzz: fn(&[u8]), inputs: &[Vec<u8>], distance: usize) {
    fuzz(b"");
    assert!(!inputs.is_empty(), "nothing to run it over");
    for input in inputs {
        fuzz(input);
        for at in (0..input.len()).step_by(distance) {
            fuzz(&input[..at]);
            let byte = input[at];
            for changed in [0, b',', 0x80, 0xff, byte ^ 1, byte.wrapping_add(1)] {
                let mut input = input.clone();
                input[at] = changed;
                fuzz(&input);
            }
        }
    }
}

fn credential() -> Credential {
    static KNOWN: OnceLock<Credential> = OnceLock::new();
    let derive = || {
        let salts = Salts::new(&[7; 32]);
        Credential::derive(ScramHash::Sha256, "alice", &Secret::new("s3cret"), &salts)
    };
    KNOWN.get_or_init(derive).clone()
}

/// Reads a line as client-first, and the rest as client-final. No client without the password
/// succeeds.
pub fn fuzz_scram_server(data: &[u8]) {
    let place = data.iter().position(|byte| *byte == b'\n');
    let (first, last) = data.split_at(place.unwrap_or(data.len()));
    if let Ok(first) = ClientFirst::parse(first) {
        let (_, challenged) = first.challenge(credential(), "nonce");
        let end = challenged.finish(last.get(1..).unwrap_or_default());
        assert!(end.is_err(), "a proof without the password");
    }
}

/// Reads the first message of OAUTHBEARER, and its token.
pub fn fuzz_oauthbearer_server(data: &[u8]) {
    if let Ok(first) = oauthbearer::ClientFirst::parse(data) {
        let _ = unsecured::check(&first.token, NOW_MS);
        let _ = first.check_authorization("alice");
        assert!(first.token.reveal().is_ascii());
    }
    if let Ok(token) = str::from_utf8(data)
        && let Some(verified) = unsecured::check(&Secret::new(token), NOW_MS)
    {
        assert!(!verified.principal.is_empty());
        assert!(verified.expires_at_ms > Some(NOW_MS));
    }
}

/// Reads the subject of a client's certificate.
pub fn fuzz_subject(data: &[u8]) {
    let _ = certificate::subject(data);
}

/// Reads four numbers of Kafka's protocol and three texts, which a zero byte separates, as a filter.
pub fn fuzz_acl_filter(data: &[u8]) {
    let Some((&[resource, pattern, operation, permission], texts)) = data.split_first_chunk()
    else {
        return;
    };
    let id = i8::from_ne_bytes;
    let ids = [resource, pattern, operation, permission].map(|byte| id([byte]));
    let mut texts = texts.split(|byte| *byte == 0).map(|text| {
        Some(String::from_utf8_lossy(text).into_owned()).filter(|text| !text.is_empty())
    });
    let mut next = || texts.next().flatten();
    let Some(filter) = AclFilter::from_wire(ids[0], ids[1], ids[2], ids[3]) else {
        return;
    };
    let filter = filter.with(next(), next(), next());
    for pattern_type in PatternType::ALL {
        for name in ["*", "orders", "ord", ""] {
            let _ = filter.matches(&Acl {
                resource_type: ResourceType::ALL[0],
                pattern_type: *pattern_type,
                name: name.to_owned(),
                principal: "User:alice".to_owned(),
                host: "*".to_owned(),
                operation: Operation::ALL[0],
                permission: Permission::ALL[0],
            });
        }
    }
}
