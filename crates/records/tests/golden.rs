//! Batches that other clients wrote, decoded record by record.

#[path = "support/text.rs"]
mod text;

use std::fs;
use std::path::{Path, PathBuf};

fn golden(writer: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/conformance/records/golden")
        .join(writer);
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("a folder entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "bin"))
        .collect();
    files.sort();
    files
}

fn check(writer: &str, files_min: usize) {
    let files = golden(writer);
    assert!(
        files.len() >= files_min,
        "{writer}: {} golden files are there",
        files.len()
    );
    for file in files {
        let expected = fs::read_to_string(file.with_extension("txt")).expect("a text beside it");
        let wire = fs::read(&file).expect("a readable file");
        assert_eq!(text::dump(&wire), expected, "{}", file.display());
    }
}

#[test]
fn batches_of_the_java_client_hold_what_it_says() {
    check("java", 27);
}

#[test]
fn batches_of_kafka_python_hold_what_it_says() {
    check("kafka-python", 14);
}

#[test]
fn batches_of_librdkafka_hold_what_was_sent() {
    check("librdkafka", 16);
}
