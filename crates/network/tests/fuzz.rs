//! The fuzz targets over their corpus, and over changes of each input.

use std::path::Path;

use thalweg_network::fuzzing;

/// A target, the folder with its inputs, and the distance between the changes. With an input that
/// costs much work, every byte would take too long.
type Target = (fn(&[u8]), &'static str, usize);

const TARGETS: [Target; 5] = [
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

fn files(folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(folder);
    let entries = std::fs::read_dir(folder).expect("the corpus is committed");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("readable").path())
        .collect();
    paths.sort();
    let read = |path| std::fs::read(path).expect("readable");
    paths.iter().map(read).collect()
}

#[test]
fn the_fuzz_targets_pass_over_the_corpus_and_its_changes() {
    for (fuzz, folder, distance) in TARGETS {
        let inputs = files(folder);
        assert!(!inputs.is_empty(), "{folder}");
        fuzz(b"");
        for input in inputs {
            fuzz(&input);
            for at in (0..input.len()).step_by(distance) {
                fuzz(&input[..at]);
                for byte in [
                    0,
                    b',',
                    0x80,
                    0xff,
                    input[at] ^ 1,
                    input[at].wrapping_add(1),
                ] {
                    let mut changed = input.clone();
                    changed[at] = byte;
                    fuzz(&changed);
                }
            }
        }
    }
}
