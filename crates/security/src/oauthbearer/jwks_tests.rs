use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};

use super::*;

const NOW_MS: i64 = 1_750_000_000_000;
const CLAIMS: &str =
    r#"{"sub":"alice","iat":1750000000,"exp":1750000060,"aud":"kafka","iss":"https://idp"}"#;

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

struct Provider {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl Provider {
    fn new() -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
        Self { pair, random }
    }

    fn jwk(&self, kid: &str) -> String {
        let point = self.pair.public_key().as_ref();
        let (x, y) = (encoded(&point[1..33]), encoded(&point[33..]));
        format!(r#"{{"kty":"EC","crv":"P-256","kid":"{kid}","x":"{x}","y":"{y}"}}"#)
    }

    fn jwks(&self, kid: &str) -> Jwks {
        Jwks::parse(&format!(r#"{{"keys":[{}]}}"#, self.jwk(kid))).unwrap()
    }

    fn token(&self, header: &str, claims: &str) -> Secret {
        let signed = format!("{}.{}", encoded(header), encoded(claims));
        let signature = self.pair.sign(&self.random, signed.as_bytes()).unwrap();
        Secret::new(format!("{signed}.{}", encoded(signature)))
    }
}

fn header(kid: &str) -> String {
    format!(r#"{{"alg":"ES256","kid":"{kid}"}}"#)
}

#[test]
fn a_token_that_is_signed_with_the_key_names_its_user() {
    let provider = Provider::new();
    let jwks = provider.jwks("one");
    let expected = Expected {
        audiences: vec!["other".into(), "kafka".into()],
        issuer: Some("https://idp".into()),
        skew_ms: 30_000,
    };
    let verified = Verified {
        principal: "alice".to_owned(),
        expires_at_ms: Some(NOW_MS + 60_000),
    };
    for header in [header("one"), r#"{"alg":"ES256"}"#.to_owned()] {
        let token = provider.token(&header, CLAIMS);
        assert_eq!(
            jwks.check(&token, &expected, NOW_MS),
            Some(verified.clone())
        );
    }
    let token = provider.token(&header("one"), CLAIMS);
    assert_eq!(
        jwks.check(&token, &expected, NOW_MS + 89_999),
        Some(verified)
    );
    assert_eq!(jwks.check(&token, &expected, NOW_MS + 90_000), None);
    assert_eq!(jwks.check(&token, &expected, NOW_MS - 30_001), None);
    let lists = CLAIMS.replace(r#""kafka""#, r#"["x","kafka"]"#);
    let token = provider.token(&header("one"), &lists);
    assert!(jwks.check(&token, &expected, NOW_MS).is_some());
}

#[test]
fn other_keys_algorithms_and_signatures_are_refused() {
    let (provider, other) = (Provider::new(), Provider::new());
    let jwks = provider.jwks("one");
    let any = Expected::default();
    let refused = |token: &Secret| jwks.check(token, &any, NOW_MS).is_none();
    assert!(refused(&other.token(&header("one"), CLAIMS)));
    assert!(refused(&provider.token(&header("two"), CLAIMS)));
    let long = "k".repeat(1 << 20);
    assert!(refused(&provider.token(&header(&long), CLAIMS)));
    for header in [
        r#"{"alg":"none","kid":"one"}"#,
        r#"{"alg":"HS256","kid":"one"}"#,
        r#"{"alg":"RS256","kid":"one"}"#,
        r#"{"alg":"ES256","kid":7}"#,
        r#"{"alg":"ES256","kid":"one","crit":["b64"]}"#,
        r#"{"kid":"one"}"#,
        "{}",
        "nonsense",
    ] {
        assert!(refused(&provider.token(header, CLAIMS)), "{header}");
    }
    // The public key as the secret of HS256.
    let point = provider.pair.public_key().as_ref();
    let signed = format!(
        "{}.{}",
        encoded(r#"{"alg":"HS256","kid":"one"}"#),
        encoded(CLAIMS)
    );
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, point);
    let tag = ring::hmac::sign(&key, signed.as_bytes());
    assert!(refused(&Secret::new(format!("{signed}.{}", encoded(tag)))));
    // Each byte counts.
    let good = provider.token(&header("one"), CLAIMS);
    for at in 0..good.reveal().len() {
        let mut bytes = good.reveal().as_bytes().to_vec();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let changed = Secret::new(String::from_utf8(bytes).unwrap());
        assert!(refused(&changed), "byte {at}");
    }
    for wrong in ["", ".", "..", "a.b", "opaque", "a.b.c.d"] {
        assert!(refused(&Secret::new(wrong)), "{wrong}");
    }
}

#[test]
fn claims_that_are_missing_or_wrong_are_refused() {
    let provider = Provider::new();
    let jwks = provider.jwks("one");
    let expected = Expected {
        audiences: vec!["kafka".into()],
        issuer: Some("https://idp".into()),
        skew_ms: 0,
    };
    for (found, instead) in [
        (r#""sub":"alice","#, ""),
        (r#""alice""#, r#"" ""#),
        (r#""alice""#, "7"),
        (r#""iat":1750000000,"#, ""),
        ("1750000000", "1750000001"),
        (r#""exp":1750000060,"#, ""),
        ("1750000060", "1750000000"),
        ("1750000060", r#""1750000060""#),
        (r#""kafka""#, r#""other""#),
        (r#""kafka""#, r#"["other"]"#),
        (r#""aud":"kafka","#, ""),
        (r#","iss":"https://idp""#, ""),
        ("https://idp", "https://other"),
        (r#""aud""#, r#""nbf":1750000001,"aud""#),
    ] {
        let claims = CLAIMS.replacen(found, instead, 1);
        assert_ne!(claims, CLAIMS);
        let token = provider.token(&header("one"), &claims);
        assert_eq!(jwks.check(&token, &expected, NOW_MS), None, "{claims}");
    }
    let token = provider.token(&header("one"), CLAIMS);
    assert!(jwks.check(&token, &expected, NOW_MS).is_some());
}

#[test]
fn without_a_name_all_keys_of_the_algorithm_count() {
    let (one, two, other) = (Provider::new(), Provider::new(), Provider::new());
    let text = format!(r#"{{"keys":[{},{}]}}"#, one.jwk("one"), two.jwk("two"));
    let jwks = Jwks::parse(&text).unwrap();
    let any = Expected::default();
    let accepts = |token: &Secret| jwks.check(token, &any, NOW_MS).is_some();
    for (provider, kid) in [(&one, "one"), (&two, "two")] {
        assert!(accepts(&provider.token(&header(kid), CLAIMS)));
        assert!(accepts(&provider.token(r#"{"alg":"ES256"}"#, CLAIMS)));
    }
    assert!(!accepts(&one.token(&header("two"), CLAIMS)));
    assert!(!accepts(&other.token(r#"{"alg":"ES256"}"#, CLAIMS)));
}

/// The key and the signature of RFC 7515, appendix A.2.
#[test]
fn rs256_is_that_of_the_standard() {
    let n = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
    let signed = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
    let signature = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
    let text = format!(r#"{{"keys":[{{"kty":"RSA","n":"{n}","e":"AQAB"}}]}}"#);
    let jwks = Jwks::parse(&text).unwrap();
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
    let key = &jwks.0[0].key;
    assert_eq!(key.algorithm(), "RS256");
    assert!(key.verifies(signed.as_bytes(), &bytes));
    assert!(!key.verifies(&signed.as_bytes()[1..], &bytes));
}

#[test]
fn a_set_without_usable_keys_is_refused_with_the_reason() {
    let key = Provider::new().jwk("one");
    for (text, words) in [
        ("[".to_owned(), "is not JSON"),
        ("{}".to_owned(), "has no list"),
        (r#"{"keys":[]}"#.to_owned(), "has no public key"),
        (
            r#"{"keys":[{"kty":"oct","k":"AAAA"}]}"#.to_owned(),
            "has no public key",
        ),
        (
            format!(r#"{{"keys":[{}]}}"#, key.replace("P-256", "P-384")),
            "has no public key",
        ),
        (
            format!(r#"{{"keys":[{}]}}"#, key.replace('}', r#","use":"enc"}"#)),
            "has no public",
        ),
        (
            format!(r#"{{"keys":[{}]}}"#, key.replace('}', r#","alg":"HS256"}"#)),
            "has no public",
        ),
        (
            format!(r#"{{"keys":[{}]}}"#, vec![key.as_str(); 21].join(",")),
            "more than 20 keys",
        ),
        (" ".repeat(JWKS_BYTES_MAX + 1), "more than"),
    ] {
        let error = Jwks::parse(&text).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}
