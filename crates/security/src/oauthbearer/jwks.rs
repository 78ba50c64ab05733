//! [`Jwks`]: the public keys of an identity provider (RFC 7517), and tokens that they sign (RFC
//! 7515, RFC 7519), as Kafka's `BrokerJwtValidator` checks them (KIP-768).
//!
//! The key decides the algorithm, never the token. So a token without a signature, or one that is
//! signed with a public key as if it were a secret, is refused.

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde_json::{Map, Value};

use super::Verified;
use super::unsecured::{object, time_ms};
use crate::Secret;

const JWKS_BYTES_MAX: usize = 1 << 20;
/// A token that names no key is checked with all of them.
const KEYS_MAX: usize = 20;
const KID_BYTES_MAX: usize = 256;
/// The modulus of the longest RSA key.
const RSA_BYTES_MAX: usize = 1024;
const P256_BYTES: usize = 32;

/// What the claims of a token must be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected {
    /// One of them must be among the audiences of the token. Empty: any.
    pub audiences: Vec<String>,
    pub issuer: Option<String>,
    /// How much the clocks may differ.
    pub skew_ms: i64,
}

/// Public keys by their IDs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jwks(Vec<Jwk>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Jwk {
    id: Option<String>,
    key: Key,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Key {
    /// The modulus and the exponent.
    Rs256(Vec<u8>, Vec<u8>),
    /// The point, not compressed.
    Es256(Vec<u8>),
}

impl Key {
    fn algorithm(&self) -> &'static str {
        match self {
            Self::Rs256(..) => "RS256",
            Self::Es256(_) => "ES256",
        }
    }

    fn verifies(&self, signed: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Rs256(n, e) => RsaPublicKeyComponents { n, e }
                .verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature)
                .is_ok(),
            Self::Es256(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                .verify(signed, signature)
                .is_ok(),
        }
    }
}

impl Jwks {
    /// Reads the keys for signatures with RS256 and ES256. Others are left out, as in Kafka. The
    /// error says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > JWKS_BYTES_MAX {
            return Err(format!("has more than {JWKS_BYTES_MAX} bytes"));
        }
        let parsed: Result<Value, _> = serde_json::from_str(text);
        let parsed = parsed.map_err(|error| format!("is not JSON: {error}"))?;
        let keys = parsed.get("keys").and_then(Value::as_array);
        let keys = keys.ok_or("has no list \"keys\": it is not a JSON Web Key Set")?;
        if keys.len() > KEYS_MAX {
            return Err(format!("has more than {KEYS_MAX} keys"));
        }
        let found: Vec<Jwk> = keys.iter().filter_map(jwk).collect();
        if found.is_empty() {
            return Err("has no public key for signatures with RS256 or ES256".to_owned());
        }
        Ok(Self(found))
    }

    /// Checks a token. `None`: it is refused.
    pub fn check(&self, token: &Secret, expected: &Expected, now_ms: i64) -> Option<Verified> {
        let (signed, signature) = token.reveal().rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let header = object(header)?;
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
        let mut keys = self.keys(&header)?;
        if !keys.any(|key| key.verifies(signed.as_bytes(), &bytes)) {
            return None;
        }
        verified(&object(claims)?, expected, now_ms)
    }

    /// Returns the keys of a header's algorithm: the one that it names, or all if it names none.
    fn keys<'a>(&'a self, header: &Map<String, Value>) -> Option<impl Iterator<Item = &'a Key>> {
        // The header names extensions that its reader must understand. This code supports none.
        if header.contains_key("crit") {
            return None;
        }
        let algorithm = header.get("alg")?.as_str()?.to_owned();
        let id = match header.get("kid") {
            None | Some(Value::Null) => None,
            Some(id) => Some(id.as_str()?.to_owned()),
        };
        let of_kind = self
            .0
            .iter()
            .filter(move |each| each.key.algorithm() == algorithm);
        let named = of_kind.filter(move |each| id.is_none() || each.id == id);
        Some(named.map(|each| &each.key))
    }
}

fn jwk(value: &Value) -> Option<Jwk> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let bytes = |name: &str| BASE64_URL_SAFE_NO_PAD.decode(text(name)?).ok();
    if text("use").is_some_and(|usage| usage != "sig") {
        return None;
    }
    let key = match text("kty")? {
        "RSA" => {
            let (n, e) = (bytes("n")?, bytes("e")?);
            if n.len() > RSA_BYTES_MAX || e.len() > 8 {
                return None;
            }
            Key::Rs256(n, e)
        }
        "EC" if text("crv") == Some("P-256") => {
            let (x, y) = (bytes("x")?, bytes("y")?);
            if x.len() != P256_BYTES || y.len() != P256_BYTES {
                return None;
            }
            Key::Es256([&[4][..], &x, &y].concat())
        }
        _ => return None,
    };
    if text("alg").is_some_and(|algorithm| algorithm != key.algorithm()) {
        return None;
    }
    let id = text("kid").map(str::to_owned);
    if id.as_ref().is_some_and(|id| id.len() > KID_BYTES_MAX) {
        return None;
    }
    Some(Jwk { id, key })
}

fn verified(claims: &Map<String, Value>, expected: &Expected, now_ms: i64) -> Option<Verified> {
    let principal = claims.get("sub")?.as_str()?.trim();
    let expires_at_ms = time_ms(claims.get("exp")?)?;
    let issued_at_ms = time_ms(claims.get("iat")?)?;
    let begins_at_ms = match claims.get("nbf") {
        Some(time) => time_ms(time)?,
        None => issued_at_ms,
    };
    let (earliest, latest) = (
        now_ms.saturating_sub(expected.skew_ms),
        now_ms.saturating_add(expected.skew_ms),
    );
    let is_valid = !principal.is_empty()
        && earliest < expires_at_ms
        && begins_at_ms <= latest
        && issued_at_ms <= expires_at_ms;
    let is_issued = match &expected.issuer {
        None => true,
        Some(issuer) => claims.get("iss").and_then(Value::as_str) == Some(issuer),
    };
    if !is_valid || !is_issued || !is_for_us(claims.get("aud"), &expected.audiences) {
        return None;
    }
    Some(Verified {
        principal: principal.to_owned(),
        expires_at_ms: Some(expires_at_ms),
    })
}

fn is_for_us(audience: Option<&Value>, expected: &[String]) -> bool {
    if expected.is_empty() {
        return true;
    }
    let is_ours = |each: &Value| {
        let name = each.as_str();
        name.is_some_and(|name| expected.iter().any(|ours| ours == name))
    };
    match audience {
        Some(Value::Array(all)) => all.iter().any(is_ours),
        Some(one) => is_ours(one),
        None => false,
    }
}

#[cfg(test)]
#[path = "jwks_tests.rs"]
mod tests;
