//! Runs the small Java programs of `xtask/java` against Kafka's jars.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the repository's root: the folder above this crate.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the repository")
        .into()
}

/// Returns the folder of Kafka 4.3's jars: `THALWEG_KAFKA_JARS`, or `.cache/kafka-4.3/libs` by
/// default.
pub(crate) fn kafka_libs() -> Result<PathBuf, String> {
    let libs = match std::env::var_os("THALWEG_KAFKA_JARS") {
        Some(path) => PathBuf::from(path),
        None => root().join(".cache/kafka-4.3/libs"),
    };
    if libs.join(CLIENTS_JAR).is_file() {
        return Ok(libs);
    }
    Err(format!(
        "{CLIENTS_JAR} is not in {}: set THALWEG_KAFKA_JARS to the libs folder of Kafka 4.3.0",
        libs.display()
    ))
}

pub(crate) const CLIENTS_JAR: &str = "kafka-clients-4.3.0.jar";

/// Creates a command that runs a single-file Java program with the jars on its class path.
pub(crate) fn java(libs: &Path, program: &str) -> Command {
    let mut command = Command::new("java");
    command
        .arg("-cp")
        .arg(format!("{}/*", libs.display()))
        .arg(root().join("xtask/java").join(program));
    command
}

/// Runs the command and returns what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command
        .output()
        .map_err(|e| format!("cannot run java: {e}"))?;
    if !output.status.success() {
        return Err(format!(
            "java failed:\n{}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    String::from_utf8(output.stdout).map_err(|e| e.to_string())
}
