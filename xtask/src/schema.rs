//! `xtask schema`: the jar's message definitions -> `crates/protocol/schema/*.schema`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::extract;
use crate::files::{self, Files};
use crate::jar;
use crate::model::{Message, MessageKind};
use crate::notation;

const HEADER: &str = "# Extracted from kafka-clients 4.3.0 by `cargo run -p xtask -- schema`. \
                      Not edited by hand.\n";

pub(crate) fn folder() -> PathBuf {
    jar::root().join("crates/protocol/schema")
}

pub(crate) fn run(check: bool) -> Result<(), String> {
    let libs = jar::kafka_libs()?;
    let printed = jar::output(
        jar::java(&libs, "Extract.java")
            .arg("schema")
            .arg(libs.join(jar::CLIENTS_JAR)),
    )?;
    let mut texts: BTreeMap<String, Vec<Message>> = BTreeMap::new();
    for part in printed.split("==> common/message/").skip(1) {
        let (_, json) = part
            .split_once('\n')
            .ok_or("the extractor's output is cut off")?;
        if let Some(message) = extract::message(json)? {
            texts.entry(file_name(&message)).or_default().push(message);
        }
    }
    let mut files = Files::new();
    for (name, mut messages) in texts {
        messages.sort_by_key(|message| (message.kind, message.name.clone()));
        let mut text = HEADER.to_owned();
        for message in &messages {
            text.push('\n');
            text.push_str(&notation::print(message));
        }
        if notation::parse(&text)? != messages {
            return Err(format!(
                "{name}: the notation does not read back what it wrote"
            ));
        }
        files.insert(format!("{name}.schema"), text);
    }
    files::write_or_check(&folder(), "schema", &files, check)
}

fn file_name(message: &Message) -> String {
    match message.kind {
        MessageKind::Request => message.name.trim_end_matches("Request").to_owned(),
        MessageKind::Response => message.name.trim_end_matches("Response").to_owned(),
        MessageKind::Data => match message.name.as_str() {
            "RequestHeader" | "ResponseHeader" => "Header".to_owned(),
            name if name.starts_with("ConsumerProtocol") => "ConsumerProtocol".to_owned(),
            _ => "ControlRecord".to_owned(),
        },
    }
}

/// Loads all messages of the committed schema files.
pub(crate) fn load() -> Result<Vec<Message>, String> {
    let mut messages = Vec::new();
    for (name, text) in files::read(&folder(), "schema")? {
        messages.extend(notation::parse(&text).map_err(|e| format!("{name}: {e}"))?);
    }
    Ok(messages)
}
