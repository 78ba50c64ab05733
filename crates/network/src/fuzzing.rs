//! Entry points for fuzzing: plain functions that accept any bytes from a broker or a file.
//!
//! They must return, whatever the bytes are. The fuzzer calls these functions, and an ordinary test
//! runs them over the committed corpus.

use crate::{sasl, tls};

/// Reads a line as server-first, and the rest as server-final. No broker without the password may be
/// accepted.
pub fn fuzz_scram_client(data: &[u8]) {
    sasl::fuzzing::scram_client(data);
}

/// Reads why a broker refuses a token.
pub fn fuzz_oauthbearer_client(data: &[u8]) {
    sasl::fuzzing::oauthbearer_client(data);
}

/// Reads what errors show of a certificate in DER.
pub fn fuzz_certificate(data: &[u8]) {
    tls::fuzzing::certificate(data);
}

/// Reads a private key in PEM, perhaps encrypted.
pub fn fuzz_private_key(data: &[u8]) {
    tls::fuzzing::key(data);
}

/// Reads a PKCS#12 store.
pub fn fuzz_key_store(data: &[u8]) {
    tls::fuzzing::key_store(data);
}
