//! Tokens without a signature, as Kafka's default validator accepts them (KIP-255). For tests only:
//! everybody can make one.

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use serde_json::{Map, Value};

use super::Verified;
use crate::Secret;

/// Checks a token: `alg` is `none`, there is no signature, `sub` names the user, and the token is
/// valid now. `None`: it is refused.
pub fn check(token: &Secret, now_ms: i64) -> Option<Verified> {
    let mut parts = token.reveal().split('.');
    let (header, claims, signature) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || !signature.is_empty() {
        return None;
    }
    if object(header)?.get("alg")?.as_str()? != "none" {
        return None;
    }
    let claims = object(claims)?;
    let principal = claims.get("sub")?.as_str()?.trim();
    let expires_at_ms = time_ms(claims.get("exp")?)?;
    let issued_at_ms = match claims.get("iat") {
        Some(time) => time_ms(time)?,
        None => now_ms,
    };
    let is_valid = !principal.is_empty()
        && now_ms < expires_at_ms
        && issued_at_ms <= now_ms
        && issued_at_ms < expires_at_ms;
    is_valid.then(|| Verified {
        principal: principal.to_owned(),
        expires_at_ms: Some(expires_at_ms),
    })
}

pub(super) fn object(part: &str) -> Option<Map<String, Value>> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(part).ok()?;
    match serde_json::from_slice(&bytes).ok()? {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
}

/// The seconds of a claim may have a fraction.
pub(super) fn time_ms(seconds: &Value) -> Option<i64> {
    let ms = seconds.as_f64()? * 1000.0;
    // No real clock shows a later time.
    (ms.is_finite() && ms.abs() < 1e15).then_some(ms as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_750_000_000_000;

    fn token(header: &str, claims: &str, signature: &str) -> Secret {
        let encoded = |part: &str| BASE64_URL_SAFE_NO_PAD.encode(part);
        let (header, claims) = (encoded(header), encoded(claims));
        Secret::new(format!("{header}.{claims}.{signature}"))
    }

    fn checked(claims: &str) -> Option<Verified> {
        check(&token(r#"{"alg":"none"}"#, claims, ""), NOW_MS)
    }

    #[test]
    fn a_token_names_its_user_until_it_expires() {
        let verified = checked(r#"{"sub":"alice","iat":1749999999,"exp":1750000000.5}"#);
        let expected = Verified {
            principal: "alice".to_owned(),
            expires_at_ms: Some(NOW_MS + 500),
        };
        assert_eq!(verified, Some(expected));
    }

    #[test]
    fn all_others_are_refused() {
        for claims in [
            r#"{"sub":"alice"}"#,
            r#"{"exp":1750000001}"#,
            r#"{"sub":" ","exp":1750000001}"#,
            r#"{"sub":7,"exp":1750000001}"#,
            r#"{"sub":"alice","exp":1750000000}"#,
            r#"{"sub":"alice","exp":"1750000001"}"#,
            r#"{"sub":"alice","exp":1e300}"#,
            r#"{"sub":"alice","iat":1750000001,"exp":1750000002}"#,
            "[]",
            "",
        ] {
            assert_eq!(checked(claims), None, "{claims}");
        }
        let good = r#"{"sub":"alice","exp":1750000001}"#;
        let headers = [r#"{"alg":"HS256"}"#, r#"{"alg":"None"}"#, "{}", "nonsense"];
        for header in headers {
            assert_eq!(check(&token(header, good, ""), NOW_MS), None, "{header}");
        }
        let signed = token(r#"{"alg":"none"}"#, good, "c2ln");
        assert_eq!(check(&signed, NOW_MS), None);
        assert_eq!(check(&Secret::new("opaque"), NOW_MS), None);
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(checked(&deep), None);
    }
}
