use std::num::NonZeroU32;

use proptest::prelude::*;

use super::*;
use crate::scram::SaltedPassword;
use crate::{Salts, Secret};

/// The exchange of RFC 7677, section 3.
const FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
const ADDED: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
const SALT: &str = "W22ZaJ0SNY7soEsUEjb6gQ==";
const SERVER_FIRST: &str =
    "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
const FINAL: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                     p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
const SERVER_FINAL: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

/// Derives the keys of "pencil" once.
fn credential() -> Credential {
    static SALTED: std::sync::OnceLock<Credential> = std::sync::OnceLock::new();
    let derive = || {
        let salt = BASE64_STANDARD.decode(SALT).expect("Base64");
        let iterations = NonZeroU32::new(4096).expect("not 0");
        let salted = SaltedPassword::derive(ScramHash::Sha256, b"pencil", &salt, iterations);
        Credential::with_keys(ScramHash::Sha256, &salted, salt, 4096)
    };
    SALTED.get_or_init(derive).clone()
}

fn challenged() -> Challenged {
    let first = ClientFirst::parse(FIRST.as_bytes()).expect("well formed");
    first.challenge(credential(), ADDED).1
}

#[test]
fn the_exchange_is_that_of_rfc_7677() {
    let first = ClientFirst::parse(FIRST.as_bytes()).expect("well formed");
    assert_eq!(first.user(), "user");
    assert!(!first.has_tokenauth());
    let (message, challenged) = first.challenge(credential(), ADDED);
    assert_eq!(message, SERVER_FIRST.as_bytes());
    let last = challenged
        .finish(FINAL.as_bytes())
        .expect("the right proof");
    assert_eq!(last, SERVER_FINAL.as_bytes());
}

#[test]
fn names_are_read_without_their_escapes() {
    let user = |message: &str| ClientFirst::parse(message.as_bytes()).map(|first| first.user);
    assert_eq!(user("n,,n=a=3Db=2Cc,r=x"), Ok("a=b,c".to_owned()));
    assert_eq!(user("n,,n==3D2C,r=x"), Ok("=2C".to_owned()));
    assert_eq!(user("n,a=a=2Cb,n=a=2Cb,r=x"), Ok("a,b".to_owned()));
    for bad in [
        "n,,n=a=b,r=x",
        "n,,n=a=2c,r=x",
        "n,,n=,r=x",
        "n,,n=a\0,r=x",
        "n,,n==,r=x",
    ] {
        user(bad).expect_err(bad);
    }
}

#[test]
fn malformed_first_messages_are_refused() {
    for bad in [
        "",
        "n",
        "n,",
        "n,,",
        "n,,n=user",
        "n,,n=user,r=",
        "n,,r=x,n=user",
        "n,,n=user,r=a b",
        "n,,m=ext,n=user,r=x",
        "y,,n=user,r=x",
        "p=tls-unique,,n=user,r=x",
        "n,x,n=user,r=x",
        "n,a=other,n=user,r=x",
        "n,,n=user,r=x,ext",
    ] {
        ClientFirst::parse(bad.as_bytes()).expect_err(bad);
    }
    let long = format!("n,,n=user,r={}", "x".repeat(MESSAGE_BYTES_MAX));
    ClientFirst::parse(long.as_bytes()).expect_err("too long");
    ClientFirst::parse(b"n,,n=\xff,r=x").expect_err("not UTF-8");
}

#[test]
fn extensions_are_ignored_except_that_of_tokens() {
    let parse = |text: &str| ClientFirst::parse(text.as_bytes()).expect("well formed");
    assert!(parse("n,,n=id,r=x,tokenauth=true").has_tokenauth());
    assert!(!parse("n,,n=id,r=x,tokenauth=false").has_tokenauth());
    assert!(!parse("n,,n=id,r=x,other=true").has_tokenauth());
}

/// CVE-2024-56128: old brokers accepted every nonce that had the same end.
#[test]
fn the_nonce_must_be_complete() {
    let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    for other in [ADDED, "rOprNGfwEbeRWgbNEkqO", "", "x"] {
        let message = FINAL.replace(nonce, other);
        challenged().finish(message.as_bytes()).expect_err(other);
    }
    let replayed = ClientFirst::parse(FIRST.as_bytes()).expect("well formed");
    let (_, challenged) = replayed.challenge(credential(), "anotherNonce");
    challenged.finish(FINAL.as_bytes()).expect_err("a replay");
}

#[test]
fn no_proof_fits_a_user_that_does_not_exist() {
    let salts = Salts::new(&[3; 32]);
    for hash in ScramHash::ALL {
        let nobody = || Credential::of_nobody(hash, "user", &salts);
        let challenge = |nonce: &str| {
            let first = ClientFirst::parse(FIRST.as_bytes()).expect("well formed");
            first.challenge(nobody(), nonce)
        };
        let (message, challenged) = challenge("same");
        // A second try sees the same salt, as it would of a user that exists.
        assert_eq!(message, challenge("same").0);
        let proof = BASE64_STANDARD.encode(vec![0; hash.digest().output_len()]);
        let last = format!("{},p={proof}", challenged.without_proof);
        let refusal = challenged.finish(last.as_bytes()).expect_err("nobody");
        assert_eq!(refusal.words(), "Invalid client credentials");
    }
    let different: Vec<_> = ["a", "b"]
        .map(|user| {
            let derived = Credential::derive(ScramHash::Sha256, user, &Secret::new("p"), &salts);
            derived.salt
        })
        .into();
    assert_ne!(different[0], different[1]);
}

#[test]
fn debug_shows_no_key() {
    let shown = format!("{:?}", credential());
    assert_eq!(
        shown,
        "Credential { mechanism: \"SCRAM-SHA-256\", iterations: 4096, .. }"
    );
}

proptest! {
    #[test]
    fn a_changed_last_message_is_refused(at in 0..FINAL.len(), byte in 0_u8..128) {
        let mut message = FINAL.as_bytes().to_vec();
        prop_assume!(message[at] != byte);
        message[at] = byte;
        prop_assert!(challenged().finish(&message).is_err());
        prop_assert!(challenged().finish(&FINAL.as_bytes()[..at]).is_err());
    }

    #[test]
    fn no_first_message_panics(message in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = ClientFirst::parse(&message);
        let _ = ClientFirst::parse(&[b"n,,n=", &message[..]].concat());
    }
}
