//! Converts Kafka's message definitions (JSON with `//` comments, in the kafka-clients jar) to the
//! model.

use serde_json::{Map, Value};

use crate::model::{Field, Message, MessageKind, Struct, Type, Versions};

type Object = Map<String, Value>;

/// Reads one definition. Returns `None` if Kafka has withdrawn the message (`validVersions: none`).
pub(crate) fn message(json: &str) -> Result<Option<Message>, String> {
    let text: String = json
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n");
    let value: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    let object = value.as_object().ok_or("a message is not an object")?;
    let name = string(object, "name")?;
    convert(object, name).map_err(|e| format!("{name}: {e}"))
}

fn convert(object: &Object, name: &str) -> Result<Option<Message>, String> {
    let mut versions = Versions::parse(string(object, "validVersions")?)?;
    if versions.is_empty() {
        return Ok(None);
    }
    let unstable = match object.get("latestVersionUnstable") {
        Some(Value::Bool(true)) => Some(versions.max),
        _ => None,
    };
    if unstable.is_some() {
        versions.max -= 1;
    }
    let kind = match string(object, "type")? {
        "request" => MessageKind::Request,
        "response" => MessageKind::Response,
        "data" | "header" => MessageKind::Data,
        other => return Err(format!("unknown type {other}")),
    };
    let structs = match object.get("commonStructs") {
        Some(Value::Array(list)) => list.iter().map(shared_struct).collect::<Result<_, _>>()?,
        _ => Vec::new(),
    };
    Ok(Some(Message {
        kind,
        api_key: object
            .get("apiKey")
            .and_then(Value::as_i64)
            .map(|key| key as i16),
        name: name.to_owned(),
        versions,
        unstable,
        flexible: Versions::parse(string(object, "flexibleVersions")?)?,
        fields: fields(object)?,
        structs,
    }))
}

fn shared_struct(value: &Value) -> Result<Struct, String> {
    let object = value.as_object().ok_or("a struct is not an object")?;
    Ok(Struct {
        name: string(object, "name")?.to_owned(),
        fields: fields(object)?,
    })
}

fn fields(object: &Object) -> Result<Vec<Field>, String> {
    match object.get("fields") {
        Some(Value::Array(list)) => list.iter().map(field).collect(),
        Some(_) => Err("fields is not an array".to_owned()),
        None => Ok(Vec::new()),
    }
}

fn field(value: &Value) -> Result<Field, String> {
    let object = value.as_object().ok_or("a field is not an object")?;
    let name = string(object, "name")?;
    for key in object.keys() {
        // An unknown attribute could change the wire form, so stop instead of guessing.
        if !KNOWN.contains(&key.as_str()) {
            return Err(format!("{name}: unknown attribute {key}"));
        }
    }
    let range = |key: &str| match object.get(key) {
        Some(Value::String(text)) => Versions::parse(text),
        _ => Ok(Versions::NONE),
    };
    let ty = Type::parse(string(object, "type")?);
    let versions = range("versions")?;
    let tagged = range("taggedVersions")?;
    if !tagged.is_empty() && tagged != versions {
        return Err(format!(
            "{name}: tagged in {tagged} but present in {versions}"
        ));
    }
    let rigid = match object.get("flexibleVersions") {
        None => false,
        Some(Value::String(text)) if text == "none" => true,
        Some(other) => return Err(format!("{name}: flexibleVersions {other}")),
    };
    Ok(Field {
        name: name.to_owned(),
        default: default(&ty, object.get("default"))?,
        versions,
        nullable: range("nullableVersions")?.intersect(versions),
        tag: object
            .get("tag")
            .and_then(Value::as_u64)
            .map(|tag| tag as u32),
        ignorable: object
            .get("ignorable")
            .and_then(Value::as_bool)
            .unwrap_or(false),
        rigid,
        fields: Some(fields(object)?).filter(|fields| !fields.is_empty()),
        ty,
    })
}

const KNOWN: [&str; 14] = [
    "name",
    "type",
    "versions",
    "about",
    "fields",
    "default",
    "entityType",
    "nullableVersions",
    "ignorable",
    "mapKey",
    "tag",
    "taggedVersions",
    "zeroCopy",
    "flexibleVersions",
];

/// Returns the default in canonical form, or `None` if it is the type's own default.
fn default(ty: &Type, value: Option<&Value>) -> Result<Option<String>, String> {
    let text = match value {
        None => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let number = || {
        let parsed = match text.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(hex, 16),
            None => text.parse(),
        };
        parsed.map_err(|_| format!("bad default {text}"))
    };
    let plain = match ty {
        _ if text == "null" => return Ok(Some(text)),
        Type::Primitive("bool") => text.to_lowercase(),
        Type::Primitive("string") if text.is_empty() => return Ok(None),
        Type::Primitive(name) if name.starts_with("int") || name.starts_with("uint") => {
            number()?.to_string()
        }
        _ => return Err(format!("unexpected default {text} for {ty}")),
    };
    Ok((plain != "0" && plain != "false").then_some(plain))
}

fn string<'a>(object: &'a Object, key: &str) -> Result<&'a str, String> {
    object
        .get(key)
        .and_then(Value::as_str)
        .ok_or_else(|| format!("no {key}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notation;

    #[test]
    fn a_definition_becomes_notation() {
        let json = r#"
            // A comment.
            { "apiKey": 22, "type": "request", "name": "XRequest",
              "latestVersionUnstable": true, "validVersions": "0-6", "flexibleVersions": "2+",
              "fields": [
                // Another.
                { "name": "A", "type": "int32", "versions": "0+", "default": "0x7fffffff" },
                { "name": "B", "type": "bool", "versions": "0+", "default": "False" },
                { "name": "C", "type": "[]D", "versions": "1-3", "nullableVersions": "0+",
                  "ignorable": true, "fields": [
                    { "name": "E", "type": "string", "versions": "1+", "taggedVersions": "1+",
                      "tag": 3, "about": "See http://localhost", "nullableVersions": "1+",
                      "default": "null" } ] } ] }"#;
        let message = message(json).expect("valid").expect("has versions");
        assert_eq!(
            notation::print(&message),
            "request XRequest api 22 versions 0-5 unstable 6 flexible 2+\n\
             \x20 A: int32 0+ = 2147483647\n\
             \x20 B: bool 0+\n\
             \x20 C: []D 1-3 null 1-3 ignorable\n\
             \x20   E: string 1+ null 1+ tag 3 = null\n"
        );
    }

    #[test]
    fn what_is_withdrawn_or_unknown_is_not_guessed_at() {
        let withdrawn = r#"{ "type": "request", "name": "X", "validVersions": "none" }"#;
        assert_eq!(message(withdrawn), Ok(None));
        let unknown = r#"{ "type": "data", "name": "X", "validVersions": "0",
            "flexibleVersions": "none",
            "fields": [ { "name": "A", "type": "int8", "versions": "0", "new": 1 } ] }"#;
        assert_eq!(
            message(unknown),
            Err("X: A: unknown attribute new".to_owned())
        );
    }
}
