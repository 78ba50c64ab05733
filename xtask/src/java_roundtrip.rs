//! `xtask java-roundtrip`: Kafka's own classes read the bytes of every message and version, and
//! write them again.
//!
//! ```text
//! cargo run --example wire_cases --> lines --> java RoundTrip.java --> the same bytes?
//! ```

use std::process::{Command, Stdio};

use crate::jar;

/// Runs the check with values drawn from `seed`.
pub(crate) fn run(seed: &str) -> Result<(), String> {
    let libs = jar::kafka_libs()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut cases = Command::new(cargo)
        .args([
            "run",
            "--quiet",
            "-p",
            "thalweg-protocol",
            "--example",
            "wire_cases",
            "--",
            seed,
        ])
        .current_dir(jar::root())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot run cargo: {e}"))?;
    let lines = cases.stdout.take().ok_or("cargo has no output")?;
    let checked = jar::java(&libs, "RoundTrip.java")
        .stdin(lines)
        .status()
        .map_err(|e| format!("cannot run java: {e}"))?;
    let made = cases.wait().map_err(|e| e.to_string())?;
    match (made.success(), checked.success()) {
        (true, true) => Ok(()),
        (false, _) => Err("the example wire_cases failed".to_owned()),
        (true, false) => Err(format!("our bytes are not Kafka's (seed {seed})")),
    }
}
