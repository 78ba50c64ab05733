//! Encodes a [`Value`] into bytes by the schema table.

use super::decode::default_of;
use super::nearest::nearest;
use super::schema::{DefaultValue, FieldSchema, Kind, MessageSchema, StructSchema, Versions};
use super::value::Value;
use crate::{EncodeError, Uuid, put};

type Result<T = ()> = std::result::Result<T, EncodeError>;
type Fields = [(&'static str, Value)];

/// The version being written, and whether it is flexible.
#[derive(Clone, Copy)]
struct Form {
    version: i16,
    compact: bool,
}

/// Appends a message. `value` must be a [`Value::Struct`].
pub fn encode_message(
    message: &MessageSchema,
    version: i16,
    value: &Value,
    out: &mut Vec<u8>,
) -> Result {
    if !message.versions.contains(version) {
        return Err(EncodeError::UnsupportedVersion {
            message: message.name,
            version,
        });
    }
    let form = Form {
        version,
        compact: message.flexible.contains(version),
    };
    match value {
        Value::Struct(fields) => write_struct(message.root, fields, form, out),
        other => Err(EncodeError::WrongType {
            field: message.name,
            expected: "a struct",
            found: other.describe(),
        }),
    }
}

impl StructSchema {
    /// Returns the field of that name, or an error that names the most similar one.
    pub fn expect_field(&'static self, name: &str) -> Result<&'static FieldSchema> {
        self.field(name).ok_or_else(|| EncodeError::UnknownField {
            message: self.name,
            field: name.chars().take(100).collect(),
            nearest: nearest(name, self.fields.iter().map(|field| field.name)),
        })
    }
}

fn write_struct(
    schema: &'static StructSchema,
    given: &Fields,
    form: Form,
    out: &mut Vec<u8>,
) -> Result {
    for (i, (name, _)) in given.iter().enumerate() {
        let field = schema.expect_field(name)?.name;
        if given[..i].iter().any(|(earlier, _)| *earlier == field) {
            return Err(EncodeError::RepeatedField { field });
        }
    }
    let value_of = |field: &FieldSchema| {
        given
            .iter()
            .find(|(name, _)| *name == field.name)
            .map(|(_, v)| v)
    };
    let mut tagged: Vec<(u32, &FieldSchema, &Value)> = Vec::new();
    for field in schema.fields {
        let value = value_of(field);
        if !field.versions.contains(form.version) {
            check_droppable(field, value, form.version)?;
        } else if let Some(tag) = field.tag {
            // A tagged field is not sent if it has its default value.
            tagged.extend(
                value
                    .filter(|v| !is_default(field, v))
                    .map(|v| (tag, field, v)),
            );
        } else {
            match value {
                Some(value) => write_field(field, value, form, out)?,
                None => write_field(field, &default_of(field), form, out)?,
            }
        }
    }
    if form.compact {
        tagged.sort_by_key(|(tag, ..)| *tag);
        let mut fields = put::TaggedFields::default();
        for (tag, field, value) in tagged {
            fields.put(tag, |out| write_field(field, value, form, out))?;
        }
        fields.finish(out);
    }
    Ok(())
}

/// Checks a field that the version lacks. It may be dropped only if that loses nothing.
fn check_droppable(field: &'static FieldSchema, value: Option<&Value>, version: i16) -> Result {
    match value {
        Some(value) if !field.ignorable && !is_default(field, value) => {
            Err(EncodeError::UnsupportedField {
                field: field.name,
                version,
            })
        }
        _ => Ok(()),
    }
}

fn is_default(field: &FieldSchema, value: &Value) -> bool {
    match (field.default, field.kind, value) {
        (DefaultValue::Null, _, value) => *value == Value::Null,
        (DefaultValue::Zero, Kind::Struct(schema), Value::Struct(given)) => given
            .iter()
            .all(|(name, value)| schema.field(name).is_some_and(|f| is_default(f, value))),
        // This also avoids building the default of an array of structs.
        (DefaultValue::Zero, Kind::Array(_), Value::Array(values)) => values.is_empty(),
        _ => *value == default_of(field),
    }
}

fn write_field(
    field: &'static FieldSchema,
    value: &Value,
    form: Form,
    out: &mut Vec<u8>,
) -> Result {
    let form = Form {
        compact: form.compact && !field.rigid,
        ..form
    };
    let nullable = field.nullable.contains(form.version);
    if *value == Value::Null && !nullable && field.nullable != Versions::NONE {
        return Err(EncodeError::UnexpectedNull {
            field: field.name,
            version: form.version,
        });
    }
    write_value(field.name, field.kind, value, nullable, form, out)
}

fn write_value(
    name: &'static str,
    kind: Kind,
    value: &Value,
    nullable: bool,
    form: Form,
    out: &mut Vec<u8>,
) -> Result {
    let compact = form.compact;
    match (kind, value) {
        (_, Value::Null) if !nullable => return Err(wrong_type(name, kind, value)),
        (Kind::Bool, Value::Bool(value)) => put::bool(out, *value),
        (Kind::Float64, Value::Float(value)) => put::f64(out, *value),
        (Kind::Float64, Value::Int(value)) => put::f64(out, *value as f64),
        (Kind::Uuid, Value::Uuid(value)) => put::uuid(out, *value),
        (Kind::Uuid, Value::Str(text)) => put::uuid(out, parse_uuid(name, text)?),
        (Kind::String, Value::Str(text)) => put::str_(out, compact, text)?,
        (Kind::String, Value::Null) => put::nullable_str(out, compact, None)?,
        (Kind::Bytes | Kind::Records, Value::Bytes(bytes)) => put::bytes(out, compact, bytes)?,
        (Kind::Bytes | Kind::Records, Value::Null) => put::nullable_bytes(out, compact, None)?,
        (Kind::Array(element), Value::Array(values)) => {
            put::array(out, compact, values, |out, value| {
                write_value(name, *element, value, false, form, out)
            })?;
        }
        (Kind::Array(_), Value::Null) => put::array_length(out, compact, None)?,
        (Kind::Struct(_), Value::Null) => put::i8(out, -1),
        (Kind::Struct(schema), Value::Struct(fields)) => {
            if nullable {
                put::i8(out, 1);
            }
            write_struct(schema, fields, form, out)?;
        }
        (_, Value::Int(value)) => write_int(name, kind, *value, out)?,
        _ => return Err(wrong_type(name, kind, value)),
    }
    Ok(())
}

fn write_int(name: &'static str, kind: Kind, value: i64, out: &mut Vec<u8>) -> Result {
    let error = |_| EncodeError::OutOfRange {
        field: name,
        expected: kind.describe(),
        value,
    };
    match kind {
        Kind::Int8 => put::i8(out, value.try_into().map_err(error)?),
        Kind::Int16 => put::i16(out, value.try_into().map_err(error)?),
        Kind::Uint16 => put::u16(out, value.try_into().map_err(error)?),
        Kind::Int32 => put::i32(out, value.try_into().map_err(error)?),
        Kind::Uint32 => put::u32(out, value.try_into().map_err(error)?),
        Kind::Int64 => put::i64(out, value),
        _ => return Err(wrong_type(name, kind, &Value::Int(value))),
    }
    Ok(())
}

/// Parses a UUID given in Kafka's text form.
fn parse_uuid(name: &'static str, text: &str) -> Result<Uuid> {
    text.parse().map_err(|_| EncodeError::WrongType {
        field: name,
        expected: "a UUID of 22 base64 characters",
        found: "another string",
    })
}

fn wrong_type(field: &'static str, kind: Kind, value: &Value) -> EncodeError {
    EncodeError::WrongType {
        field,
        expected: kind.describe(),
        found: value.describe(),
    }
}
