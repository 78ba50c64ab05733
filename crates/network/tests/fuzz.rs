//! The fuzz targets over their corpus, and over changes of each input.

use std::path::Path;

use thalweg_network::fuzzing;
use thalweg_security::fuzzing::over_changes;

/// A target, the folder with its inputs, and the distance between the changes.
type Target = (fn(&[u8]), &'static str, usize);

#[test]
fn the_fuzz_targets_pass_over_the_corpus_and_its_changes() {
    let targets: [Target; 5] = [
        (fuzzing::fuzz_scram_client, "corpus/scram_client", 1),
        (
            fuzzing::fuzz_oauthbearer_client,
            "corpus/oauthbearer_client",
            1,
        ),
        (fuzzing::fuzz_certificate, "corpus/certificate", 1),
        (fuzzing::fuzz_private_key, "keys", 40),
        (fuzzing::fuzz_key_store, "stores", 200),
    ];
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for (fuzz, folder, distance) in targets {
        over_changes(fuzz, &tests.join(folder), distance);
    }
}
