//! Completes EC keys that lack their public half, from their certificate.
//!
//! Java writes such keys. ring needs the public half, and refuses one that does not fit.

use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};

use super::certificate::Certificate;
use super::der::{Der, Malformed, push, tag};

const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];

/// Returns the key with the public half from its certificate. Other keys stay as they are.
pub(super) fn completed(key: PrivateKeyDer<'static>, certificate: &[u8]) -> PrivateKeyDer<'static> {
    let public = || Certificate::read(certificate).ok()?.ec_public_key();
    let changed = match &key {
        PrivateKeyDer::Pkcs8(pkcs8) => with_public_in_pkcs8(pkcs8.secret_pkcs8_der(), public),
        PrivateKeyDer::Sec1(sec1) => {
            let sec1 = with_public(sec1.secret_sec1_der(), public).ok().flatten();
            return sec1.map_or(key, |sec1| PrivateSec1KeyDer::from(sec1).into());
        }
        _ => return key, // RSA
    };
    match changed {
        Ok(Some(pkcs8)) => PrivatePkcs8KeyDer::from(pkcs8).into(),
        _ => key,
    }
}

/// Completes a `PrivateKeyInfo`: `SEQUENCE { version, algorithm, privateKey, ... }`.
fn with_public_in_pkcs8<'a>(
    der: &[u8],
    public: impl FnOnce() -> Option<&'a [u8]>,
) -> Result<Option<Vec<u8>>, Malformed> {
    let mut info = Der::new(der).sequence()?;
    let (version, algorithm) = (info.element()?, info.element()?);
    if Der::new(algorithm).sequence()?.expect(tag::OID)? != EC {
        return Ok(None);
    }
    let Some(key) = with_public(info.expect(tag::OCTET_STRING)?, public)? else {
        return Ok(None);
    };
    let mut contents = [version, algorithm].concat();
    push(&mut contents, tag::OCTET_STRING, &key);
    let mut whole = Vec::new();
    push(&mut whole, tag::SEQUENCE, &contents);
    Ok(Some(whole))
}

/// Completes an `ECPrivateKey`: `SEQUENCE { 1, privateKey, [0] parameters, [1] publicKey }`.
fn with_public<'a>(
    der: &[u8],
    public: impl FnOnce() -> Option<&'a [u8]>,
) -> Result<Option<Vec<u8>>, Malformed> {
    let mut key = Der::new(der).sequence()?;
    let mut contents = [key.element()?, key.element()?].concat();
    if let Some(parameters) = key.optional(tag::context(0))? {
        push(&mut contents, tag::context(0), parameters);
    }
    if !key.is_empty() {
        return Ok(None); // it has its public half
    }
    let Some(public) = public() else {
        return Ok(None);
    };
    push(&mut contents, tag::context(1), public);
    let mut whole = Vec::new();
    push(&mut whole, tag::SEQUENCE, &contents);
    Ok(Some(whole))
}
