//! `xtask errors`: Kafka's table of error codes -> `crates/protocol/schema/errors.tsv`.

use std::fmt::Write as _;

use crate::files::{self, Files};
use crate::generate::NOTICE;
use crate::{jar, schema};

const HEADER: &str = "# Extracted from kafka-clients 4.3.0 by `cargo run -p xtask -- errors`. \
                      Not edited by hand.\n# code, name, families, exception, message\n";

pub(crate) fn run(check: bool) -> Result<(), String> {
    let libs = jar::kafka_libs()?;
    let rows = jar::output(jar::java(&libs, "Extract.java").arg("errors"))?;
    let files = Files::from([("errors.tsv".to_owned(), format!("{HEADER}{rows}"))]);
    files::write_or_check(&schema::folder(), "tsv", &files, check)
}

/// Generates `generated/errors.rs` from the committed table.
pub(crate) fn generate() -> Result<String, String> {
    let path = schema::folder().join("errors.tsv");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut consts = String::from("impl ErrorCode {\n");
    let mut rows = String::from("pub(crate) static ERRORS: &[E] = &[\n");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [code, name, families, exception, message] = columns.as_slice() else {
            return Err(format!("bad row `{line}`"));
        };
        let families: Vec<String> = families
            .split(',')
            .filter(|f| *f != "-")
            .map(variant)
            .collect();
        let _ = writeln!(
            consts,
            "    /// {message}\n    pub const {name}: Self = Self({code});"
        );
        let _ = writeln!(
            rows,
            "    E {{ code: {code}, name: \"{name}\", exception: \"{}\", families: &[{}], \
             message: {message:?} }},",
            exception.trim_start_matches('-'),
            families.join(", ")
        );
    }
    Ok(format!(
        "{NOTICE}\nuse crate::error_code::ErrorRow as E;\nuse crate::error_code::Family::*;\n\
         use crate::ErrorCode;\n\n{consts}}}\n\n{rows}];\n"
    ))
}

/// `invalid-metadata` -> `InvalidMetadata`.
fn variant(family: &str) -> String {
    family
        .split('-')
        .map(|word| word[..1].to_uppercase() + &word[1..])
        .collect()
}
