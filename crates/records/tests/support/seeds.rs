//! Keeps the seeds of failed cases beside the test, to be committed with the fix.

use proptest::test_runner::{Config, FileFailurePersistence};

pub(crate) fn kept() -> Config {
    let persistence = FileFailurePersistence::WithSource("seeds");
    Config {
        failure_persistence: Some(Box::new(persistence)),
        ..Config::default()
    }
}
