use base64::prelude::BASE64_STANDARD;

use super::*;
use crate::sasl::SaslConfig;

const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
const SERVER_NONCE: &str = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
/// The messages of RFC 7677, section 3.
const FIRST_256: &str =
    "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
const FINAL_256: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

fn config(hash: ScramHash) -> ScramConfig {
    ScramConfig::new(hash, "user", Secret::new("pencil"))
}

fn session(config: ScramConfig) -> Scram {
    Scram::new(Arc::new(Credentials::new(config)), NONCE.to_owned())
}

/// A session that has sent client-first.
fn begun(config: ScramConfig) -> Scram {
    let mut session = session(config);
    session.step(b"").expect("client-first");
    session
}

/// Why the client refuses the broker.
fn refusal(result: Result<Option<Vec<u8>>, SaslError>) -> String {
    match result {
        Err(SaslError::ByClient(reason)) => reason,
        other => panic!("the client must refuse the broker: {other:?}"),
    }
}

fn text(result: Result<Option<Vec<u8>>, SaslError>) -> String {
    let message = result.expect("no error").expect("a message");
    String::from_utf8(message).expect("SCRAM is UTF-8")
}

#[test]
fn sha_256_is_that_of_rfc_7677() {
    let mut session = session(config(ScramHash::Sha256));
    assert_eq!(text(session.step(b"")), format!("n,,n=user,r={NONCE}"));
    assert_eq!(
        text(session.step(FIRST_256.as_bytes())),
        format!("c=biws,r={SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    );
    assert_eq!(session.step(FINAL_256.as_bytes()), Ok(None));
}

/// Python's `hashlib.pbkdf2_hmac` and `hmac` computed the proof and the signature.
#[test]
fn sha_512_is_what_python_computes() {
    let mut session = begun(config(ScramHash::Sha512));
    let first = format!("r={SERVER_NONCE},s=Yin2FuHTt/M0kJWb0t9OI32n2VmOGi3m+JfjOvuDF88=,i=8192");
    assert_eq!(
        text(session.step(first.as_bytes())),
        format!(
            "c=biws,r={SERVER_NONCE},p=vWYmIs408OFG2Qz0Z9UsEQhdD5ShjVtO9STy+D0+nK5sRlbv7n7j1KNzSPUA\
             kWRKpsORKEBDIwWXn8c5a1qzbA=="
        )
    );
    let last = "v=b6wSDDlGb2ayZfAR7wcUuafwkxqoGLkNXe0YBwhWJiJ5wUqQUaC5OFKuX5n4tN6vs7NhU7sV2x1g1dAP\
                SRQE6g==";
    assert_eq!(session.step(last.as_bytes()), Ok(None));
}

#[test]
fn names_are_escaped_and_passwords_are_not() {
    let mut config = config(ScramHash::Sha256);
    config.username = "a=b,c".to_owned();
    config.password = Secret::new("p=w,\"\\");
    let mut session = session(config);
    assert_eq!(text(session.step(b"")), format!("n,,n=a=3Db=2Cc,r={NONCE}"));
    text(session.step(FIRST_256.as_bytes()));
}

#[test]
fn a_delegation_token_says_that_it_is_one() {
    let mut config = config(ScramHash::Sha512);
    config.tokenauth = true;
    let first = text(session(config).step(b""));
    assert_eq!(first, format!("n,,n=user,r={NONCE},tokenauth=true"));
}

#[test]
fn a_nul_in_the_user_name_is_refused() {
    let mut config = config(ScramHash::Sha256);
    config.username = "a\0b".to_owned();
    assert!(refusal(session(config).step(b"")).contains("NUL"));
}

#[test]
fn nonces_differ_and_need_no_escape() {
    let (one, two) = (nonce().expect("random"), nonce().expect("random"));
    assert_ne!(one, two);
    assert_eq!(one.len(), 32);
    assert!(
        one.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)),
        "{one}"
    );
}

#[test]
fn only_the_step_that_derives_keys_is_slow() {
    let mut session = session(config(ScramHash::Sha256));
    assert!(!session.is_slow());
    text(session.step(b""));
    assert!(session.is_slow());
    text(session.step(FIRST_256.as_bytes()));
    assert!(!session.is_slow());
}

#[test]
fn a_hostile_first_message_is_refused_before_any_work() {
    let salt = "s=W22ZaJ0SNY7soEsUEjb6gQ==";
    let nonce = format!("r={SERVER_NONCE}");
    let cases = [
        (String::new(), "empty"),
        ("\0".to_owned(), "not a SCRAM message"),
        (
            format!("{nonce},{salt},i=1"),
            "requests 1 iterations, fewer",
        ),
        (
            format!("{nonce},{salt},i=0"),
            "requests 0 iterations, fewer",
        ),
        (format!("{nonce},{salt},i=4095"), "fewer than 4096"),
        (
            format!("{nonce},{salt},i=131073"),
            "more than sasl_scram_iterations_max (131072)",
        ),
        (format!("{nonce},{salt},i=1000000000"), "more than"),
        (
            format!("{nonce},{salt},i=99999999999999999999"),
            "requests 99999999999999999999 iterations, more than",
        ),
        (format!("{nonce},{salt},i=-1"), "not a number"),
        (format!("{nonce},{salt},i=+4096"), "not a number"),
        (format!("{nonce},{salt},i="), "not a number"),
        (format!("{nonce},s=,i=4096"), "salt is empty"),
        (format!("{nonce},s=!!!,i=4096"), "not valid Base64"),
        (format!("{nonce},s=W22ZaJ0,i=4096"), "not valid Base64"),
        (format!("r={NONCE},{salt},i=4096"), "nonce"),
        (format!("r=,{salt},i=4096"), "nonce"),
        (format!("r=someone-elses,{salt},i=4096"), "nonce"),
        (format!("r={SERVER_NONCE}\n,{salt},i=4096"), "nonce"),
        (format!("m=x,{nonce},{salt},i=4096"), "(m=)"),
        (format!("{nonce},{salt},i=4096,m=x"), "m= where"),
        (format!("{nonce},{salt},i=4096,i=8192"), "i= where"),
        (format!("{salt},{nonce},i=4096"), "malformed"),
        (format!("{nonce},{salt}"), "malformed"),
        (format!("{nonce},{salt},i=4096,"), "not a SCRAM message"),
        (format!("{nonce},{salt},i=4096,x"), "not a SCRAM message"),
        ("v=6rriTRBi23WpRR".to_owned(), "malformed"),
        (
            format!("{nonce},s={},i=4096", "A".repeat(1 << 20)),
            "a SCRAM message of 1048",
        ),
    ];
    for (message, reason) in cases {
        let mut session = begun(config(ScramHash::Sha256));
        let said = refusal(session.step(message.as_bytes()));
        assert!(said.contains(reason), "{message:.100}: {said}");
        assert!(said.len() < 300, "{said}");
    }
    let mut session = begun(config(ScramHash::Sha256));
    let said = refusal(session.step(b"r=\xff\xfe"));
    assert!(said.contains("not a SCRAM message"), "{said}");
}

#[test]
fn the_limits_of_iterations_are_included_and_can_be_raised() {
    for iterations in ["4096", "16384", "131072"] {
        let first = format!("r={SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i={iterations}");
        text(begun(config(ScramHash::Sha256)).step(first.as_bytes()));
    }
    let mut config = config(ScramHash::Sha256);
    config.iterations_max = 131_073;
    let first = format!("r={SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=131073");
    text(begun(config).step(first.as_bytes()));
}

#[test]
fn unknown_extensions_are_ignored_but_signed() {
    let mut session = begun(config(ScramHash::Sha256));
    text(session.step(format!("{FIRST_256},x=1,tokenauth=true").as_bytes()));
    let said = refusal(session.step(FINAL_256.as_bytes()));
    assert!(said.contains("wrong server signature"), "{said}");
}

#[test]
fn a_broker_that_does_not_know_the_password_is_refused() {
    let cases = [
        (String::new(), "empty"),
        (FINAL_256.replace("6rri", "6rrj"), "wrong server signature"),
        ("v=".to_owned(), "wrong server signature"),
        ("v=AAAA".to_owned(), "wrong server signature"),
        ("v=!".to_owned(), "not valid Base64"),
        ("x=1".to_owned(), "malformed"),
        (format!("{FINAL_256},{FINAL_256}"), "v= where"),
        (format!("x=1,{FINAL_256}"), "malformed"),
        (format!("{FINAL_256},e=other-error"), "e= where"),
    ];
    for (message, reason) in cases {
        let mut session = begun(config(ScramHash::Sha256));
        text(session.step(FIRST_256.as_bytes()));
        let said = refusal(session.step(message.as_bytes()));
        assert!(said.contains(reason), "{message}: {said}");
    }
}

#[test]
fn the_brokers_own_error_is_passed_on() {
    let told = Err(SaslError::ByBroker("invalid-proof\\n".to_owned()));
    let mut session = begun(config(ScramHash::Sha256));
    assert_eq!(session.step(b"e=invalid-proof\n"), told);
    let mut session = begun(config(ScramHash::Sha256));
    text(session.step(FIRST_256.as_bytes()));
    assert_eq!(session.step(b"e=invalid-proof\n,x=1"), told);
}

#[test]
fn nothing_continues_after_the_end() {
    let mut session = begun(config(ScramHash::Sha256));
    text(session.step(FIRST_256.as_bytes()));
    assert_eq!(session.step(FINAL_256.as_bytes()), Ok(None));
    assert!(refusal(session.step(FINAL_256.as_bytes())).contains("after the end"));
}

/// Whatever byte of the broker's messages an attacker changes, the exchange fails.
#[test]
fn every_changed_byte_is_noticed() {
    let credentials = Arc::new(Credentials::new(config(ScramHash::Sha256)));
    let outcome = |first: &[u8], last: &[u8]| {
        let mut session = Scram::new(Arc::clone(&credentials), NONCE.to_owned());
        session.step(b"")?;
        session.step(first)?;
        session.step(last)
    };
    let (first, last) = (FIRST_256.as_bytes(), FINAL_256.as_bytes());
    assert_eq!(outcome(first, last), Ok(None));
    let changed = |message: &[u8], index: usize, mask: u8| {
        let mut message = message.to_vec();
        message[index] ^= mask;
        message
    };
    for mask in [0x01, 0x20, 0x80] {
        for index in 0..first.len() {
            assert!(outcome(&changed(first, index, mask), last).is_err());
        }
        for index in 0..last.len() {
            assert!(outcome(first, &changed(last, index, mask)).is_err());
        }
    }
}

/// A broker that knows the keys, but not the password, accepts the proof and is accepted.
#[test]
fn a_real_exchange_succeeds_on_both_sides() {
    for hash in [ScramHash::Sha256, ScramHash::Sha512] {
        let iterations = std::num::NonZeroU32::new(4096).expect("above 0");
        let keys = Keys::derive(hash, &Secret::new("pencil"), b"salt", iterations);
        let mut session = begun(config(hash));
        let first = format!("r={NONCE}more,s=c2FsdA==,i=4096");
        let last = text(session.step(first.as_bytes()));
        let (without_proof, proof) = last.rsplit_once(",p=").expect("a proof");
        let signed = format!("n=user,r={NONCE},{first},{without_proof}");
        let wanted = BASE64_STANDARD.encode(keys.proof(signed.as_bytes()));
        assert_eq!(proof, wanted);
        let signature = BASE64_STANDARD.encode(keys.sign(signed.as_bytes()));
        let last = format!("v={signature}");
        assert_eq!(session.step(last.as_bytes()), Ok(None));
    }
}

#[test]
fn errors_and_debug_hide_the_password() {
    let mut session = begun(config(ScramHash::Sha256));
    let error = format!("{:?}", session.step(FINAL_256.as_bytes()));
    let config = format!("{:?}", SaslConfig::Scram(config(ScramHash::Sha256)));
    assert!(!error.contains("pencil") && !config.contains("pencil"));
}
