//! The fuzz targets over their corpus, and over changes of each input.

use std::path::Path;

use thalweg_security::fuzzing;

/// A target, and the folder with its inputs.
type Target = (fn(&[u8]), &'static str);

#[test]
fn the_fuzz_targets_pass_over_the_corpus_and_its_changes() {
    let targets: [Target; 4] = [
        (fuzzing::fuzz_scram_server, "scram_server"),
        (fuzzing::fuzz_oauthbearer_server, "oauthbearer_server"),
        (fuzzing::fuzz_subject, "subject"),
        (fuzzing::fuzz_acl_filter, "acl_filter"),
    ];
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    for (fuzz, folder) in targets {
        fuzzing::over_changes(fuzz, &corpus.join(folder), 1);
    }
}
