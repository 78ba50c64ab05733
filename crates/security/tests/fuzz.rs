//! The fuzz targets over their corpus, and over changes of each input.

use std::path::Path;

use thalweg_security::fuzzing;

/// A target, and the folder with its inputs.
type Target = (fn(&[u8]), &'static str);

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
    let targets: [Target; 4] = [
        (fuzzing::fuzz_scram_server, "scram_server"),
        (fuzzing::fuzz_oauthbearer_server, "oauthbearer_server"),
        (fuzzing::fuzz_subject, "subject"),
        (fuzzing::fuzz_acl_filter, "acl_filter"),
    ];
    for (fuzz, folder) in targets {
        fuzzing::over_changes(fuzz, &files(&format!("corpus/{folder}")), 1);
    }
}
