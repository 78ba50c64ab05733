//! What `crate::fuzzing` calls for TLS.

use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};

use super::certificate::{Certificate, distinguished_name};
use super::pkcs12::{self, StorePasswords};
use super::{ec_keys, is_encrypted, private_key};

/// The password of the test keys and stores that the fuzzer starts from.
const PASSWORD: &str = "correct horse";

pub(crate) fn certificate(data: &[u8]) {
    let Ok(certificate) = Certificate::read(data) else {
        return;
    };
    let (from, to) = certificate.validity();
    let mut shown = certificate.names();
    shown.extend([from, to]);
    shown.extend([certificate.issuer, certificate.subject].map(distinguished_name));
    for text in shown {
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
    let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
    let _ = certificate.is_authority() || certificate.signed(data, algorithms.all);
    let _ = certificate.ec_public_key();
}

pub(crate) fn key(data: &[u8]) {
    let _ = is_encrypted(data);
    for password in [None, Some(PASSWORD)] {
        if let Ok(key) = private_key(data, password) {
            let _ = ec_keys::completed(key, data);
        }
    }
    let pkcs8 = PrivatePkcs8KeyDer::from(data.to_vec());
    let sec1 = PrivateSec1KeyDer::from(data.to_vec());
    for key in [PrivateKeyDer::from(pkcs8), PrivateKeyDer::from(sec1)] {
        let _ = ec_keys::completed(key, data);
    }
}

pub(crate) fn key_store(data: &[u8]) {
    let _ = pkcs12::is_store(data);
    for password in ["", PASSWORD] {
        let passwords = StorePasswords {
            store: password,
            key: password,
        };
        for take in [
            |store: pkcs12::Store| drop(store.identity()),
            |store: pkcs12::Store| drop(store.authorities()),
        ] {
            let _ = pkcs12::open(data, passwords).map(take);
        }
    }
}
