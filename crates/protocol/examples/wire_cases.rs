//! Prints the wire bytes of every message in every version, for another implementation to check:
//! `cargo run -p xtask -- java-roundtrip` passes them to Kafka's own classes.
//!
//! ```text
//! api KEY MIN MAX                          the stable versions
//! header KEY VERSION REQUEST RESPONSE      the versions of the headers
//! same MESSAGE VERSION HEX                 can be read, and is written with the same bytes
//! default MESSAGE VERSION HEX              a message with no field set
//! cross MESSAGE FROM HEX TO HEX|error      read in version FROM, written in version TO
//! ```
//!
//! MESSAGE is `KEY request`, `KEY response` or `data NAME`. An empty HEX is `-`.

#[path = "../tests/support/mod.rs"]
mod support;

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};

use bytes::Bytes;
use thalweg_protocol::dynamic::{self, MessageSchema, Value};
use thalweg_protocol::{Reader, SplitMix64, frame};

fn main() -> io::Result<()> {
    let mut words = std::env::args().skip(1);
    let seed = words.next().and_then(|word| word.parse().ok()).unwrap_or(1);
    let rounds = words
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(20);
    let mut random = SplitMix64::new(seed);
    let mut out = BufWriter::new(io::stdout().lock());
    for api in dynamic::schemas() {
        let (key, versions) = (api.key, api.versions());
        writeln!(out, "api {} {} {}", key.0, versions.start(), versions.end())?;
        for version in versions {
            let request = frame::request_header_version(key, version);
            let response = frame::response_header_version(key, version);
            writeln!(out, "header {} {version} {request} {response}", key.0)?;
        }
        cases(
            &mut out,
            &format!("{} request", key.0),
            &api.request,
            rounds,
            &mut random,
        )?;
        cases(
            &mut out,
            &format!("{} response", key.0),
            &api.response,
            rounds,
            &mut random,
        )?;
    }
    for schema in dynamic::data_schemas() {
        cases(
            &mut out,
            &format!("data {}", schema.name),
            schema,
            rounds,
            &mut random,
        )?;
    }
    out.flush()
}

fn cases(
    out: &mut impl Write,
    name: &str,
    schema: &MessageSchema,
    rounds: u32,
    random: &mut SplitMix64,
) -> io::Result<()> {
    let versions = schema.versions.min..=schema.versions.max;
    for version in versions.clone() {
        let nothing = hex(schema, version, &Value::Struct(Vec::new()));
        writeln!(out, "default {name} {version} {nothing}")?;
        for round in 0..rounds {
            // Fills between 20 and 100 percent of the fields.
            let set = u64::from(round % 5 + 1) * 20;
            let value = support::message(schema, version, set, random);
            writeln!(
                out,
                "same {name} {version} {}",
                hex(schema, version, &value)
            )?;
        }
        for _ in 0..rounds.min(10) {
            let value = support::message(schema, version, 15, random);
            let bytes = encode(schema, version, &value).expect("made for this version");
            let mut input = Reader::new(Bytes::from(bytes));
            let read = dynamic::decode_message(schema, version, &mut input)
                .expect("what was just written can be read");
            for to in versions.clone() {
                let from = hex(schema, version, &value);
                writeln!(
                    out,
                    "cross {name} {version} {from} {to} {}",
                    hex(schema, to, &read)
                )?;
            }
        }
    }
    Ok(())
}

fn encode(schema: &MessageSchema, version: i16, value: &Value) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    dynamic::encode_message(schema, version, value, &mut bytes).ok()?;
    Some(bytes)
}

/// Returns the message's bytes as hex, or `error` if the version cannot carry the message.
fn hex(schema: &MessageSchema, version: i16, value: &Value) -> String {
    let Some(bytes) = encode(schema, version, value) else {
        return "error".to_owned();
    };
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    if text.is_empty() {
        "-".to_owned()
    } else {
        text
    }
}
