//! Generators and checks of the repository, run as `cargo run -p xtask -- COMMAND`.

mod code;
mod errors;
mod extract;
mod files;
mod generate;
mod jar;
mod java_roundtrip;
mod model;
mod names;
mod notation;
mod schema;
mod secrets;
mod sizes;
mod table;
mod types;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p xtask -- COMMAND [--check]
  schema          extract crates/protocol/schema from the kafka-clients jar
  errors          extract the table of error codes from the kafka-clients jar
  generate        generate crates/protocol/src/generated from the schema
  java-roundtrip  compare wire bytes with Kafka's own classes, every message and version
                  (java-roundtrip SEED for other values)
--check compares with what is committed instead of writing.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["schema"] => schema::run(false),
        ["schema", "--check"] => schema::run(true),
        ["errors"] => errors::run(false),
        ["errors", "--check"] => errors::run(true),
        ["generate"] => generate::run(false),
        ["generate", "--check"] => generate::run(true),
        ["java-roundtrip"] => java_roundtrip::run("1"),
        ["java-roundtrip", seed] => java_roundtrip::run(seed),
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
