//! The fuzz targets over their corpus, and over changes of each input.

use std::path::Path;

use thalweg_network::fuzzing;
use thalweg_security::fuzzing::over_changes;

/// A target, the folder with its inputs, and the distance between the changes.
type Target = (fn(&[u8]), &'static str, usize);

fn files(folder: &str) -> Vec<Vec<u8>> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let entries = std::fs::read_dir(tests.join(folder)).expect("the inputs are committed");
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        std::fs::read(entry.expect("readable").path()).expect("readable")
    };
    entries.map(read).collect()
}

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
    for (fuzz, folder, distance) in targets {
        over_changes(fuzz, &files(folder), distance);
    }
}
