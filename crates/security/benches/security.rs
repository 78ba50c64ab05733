//! What an embedded broker does for each login and each request: `cargo bench -p thalweg-security`.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use ring::pbkdf2;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use thalweg_security::Secret;
use thalweg_security::acl::{Acl, Acls, Operation, PatternType, Permission, ResourceType, Who};
use thalweg_security::oauthbearer::jwks::{Expected, Jwks};
use thalweg_security::scram::{ClientFirst, Credential, ScramHash};

const ACLS: usize = 10_000;
const NOW_MS: i64 = 1_750_000_000_000;

fn allow(user: usize, pattern_type: PatternType, name: String) -> Acl {
    Acl {
        resource_type: ResourceType::Topic,
        pattern_type,
        name,
        principal: format!("User:user-{user}"),
        host: "*".to_owned(),
        operation: Operation::Read,
        permission: Permission::Allow,
    }
}

fn store(all: impl Iterator<Item = Acl>) -> Acls {
    let mut acls = Acls::new(BTreeSet::new(), false);
    for acl in all {
        assert!(acls.create(acl), "too many");
    }
    acls
}

fn authorize(c: &mut Criterion) {
    let mut group = c.benchmark_group("authorize with 10,000 ACLs");
    let literal = PatternType::Literal;
    let cases = [
        (
            "a topic for each user",
            store((0..ACLS).map(|each| allow(each, literal, format!("topic-{each}")))),
            "topic-5000",
        ),
        (
            "one topic for all users",
            store((0..ACLS).map(|each| allow(each, literal, "topic".to_owned()))),
            "topic",
        ),
        (
            "prefixes of 200 lengths",
            store((0..ACLS).map(|each| {
                let name = format!("{}{each}", "t".repeat(1 + each % 200));
                allow(each, PatternType::Prefixed, name)
            })),
            "t5000-is-read-by-the-user-of-this-benchmark",
        ),
    ];
    let who = Who {
        principal: "User:user-5000",
        host: "127.0.0.1",
    };
    for (name, acls, topic) in cases {
        let allows = |operation| acls.allows(who, operation, ResourceType::Topic, topic);
        assert!(allows(Operation::Read) && !allows(Operation::Write));
        group.bench_function(name, |b| b.iter(|| allows(black_box(Operation::Read))));
    }
    group.finish();
}

/// The exchange of RFC 7677, section 3, without the derivation of the keys.
fn scram(c: &mut Criterion) {
    let salt = BASE64_STANDARD
        .decode("W22ZaJ0SNY7soEsUEjb6gQ==")
        .expect("Base64");
    let iterations = NonZeroU32::new(4096).expect("not 0");
    let mut salted = [0; 32];
    pbkdf2::derive(
        pbkdf2::PBKDF2_HMAC_SHA256,
        iterations,
        &salt,
        b"pencil",
        &mut salted,
    );
    let credential = Credential::from_salted(ScramHash::Sha256, &salted, &salt, 4096);
    c.bench_function("SCRAM-SHA-256, the broker's side", |b| {
        b.iter_batched(
            || credential.clone(),
            |credential| {
                let first = ClientFirst::parse(black_box(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"));
                let first = first.expect("well formed");
                let (_, challenged) = first.challenge(credential, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0");
                let last = challenged.finish(
                    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                      p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
                );
                last.expect("the right proof")
            },
            BatchSize::SmallInput,
        );
    });
}

fn token(c: &mut Criterion) {
    let encoded = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
    let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("random");
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).expect("its own");
    let point = pair.public_key().as_ref();
    let (x, y) = (encoded(&point[1..33]), encoded(&point[33..]));
    let jwks =
        format!(r#"{{"keys":[{{"kty":"EC","crv":"P-256","kid":"one","x":"{x}","y":"{y}"}}]}}"#);
    let jwks = Jwks::parse(&jwks).expect("well formed");
    let signed = format!(
        "{}.{}",
        encoded(br#"{"alg":"ES256","kid":"one"}"#),
        encoded(br#"{"sub":"alice","iat":1750000000,"exp":1750000060}"#)
    );
    let signature = pair.sign(&random, signed.as_bytes()).expect("random");
    let token = Secret::new(format!("{signed}.{}", encoded(signature.as_ref())));
    let expected = Expected::default();
    c.bench_function("a token that ES256 signed", |b| {
        b.iter(|| {
            let verified = jwks.check(black_box(&token), &expected, NOW_MS);
            verified.expect("the provider has signed it")
        });
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = authorize, scram, token
}
criterion_main!(benches);
