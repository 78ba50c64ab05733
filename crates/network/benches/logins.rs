//! What a client does before its first connection and for each login: `cargo bench -p thalweg-network`.

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use thalweg_network::fuzzing::fuzz_scram_client;
use thalweg_network::sasl::Secret;
use thalweg_network::tls::{KeyPassword, Pem, TlsConfig};

/// A key and its chain, as OpenSSL 3 and keytool write them: AES-256, and 2,048 and 10,000 iterations.
fn key_stores(c: &mut Criterion) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores");
    let mut group = c.benchmark_group("load a PKCS#12 store");
    for name in ["openssl3.p12", "keytool.p12"] {
        let config = TlsConfig {
            ca: Some(Pem::File(folder.join("ca.pem"))),
            cert: Some(Pem::File(folder.join(name))),
            password: Some(KeyPassword::Fixed(Secret::new("correct horse"))),
            ..TlsConfig::default()
        };
        let mut unasked = |_: &_| unreachable!("the password is fixed");
        group.bench_function(name, |b| {
            b.iter(|| config.prepare(&mut unasked).expect("the right password"));
        });
    }
    group.finish();
}

/// Client and broker exchange their messages up to the client's proof, and the client refuses a
/// broker that does not prove itself. The keys are derived already, as for each login but the first.
fn scram(c: &mut Criterion) {
    c.bench_function("SCRAM-SHA-256, both sides", |b| {
        b.iter(|| fuzz_scram_client(black_box(b"")));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = key_stores, scram
}
criterion_main!(benches);
