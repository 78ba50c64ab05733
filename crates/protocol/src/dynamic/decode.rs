//! Decodes bytes into a [`Value`] by the schema table.

use bytes::Bytes;

use super::schema::{DefaultValue, FieldSchema, Kind, MessageSchema, StructSchema};
use super::value::Value;
use crate::{DecodeError, Reader, Str, Uuid};

type Result<T> = std::result::Result<T, DecodeError>;

/// The version being read, and whether it is flexible.
#[derive(Clone, Copy)]
struct Form {
    version: i16,
    compact: bool,
}

/// Reads a message, and leaves the bytes after it unread.
pub fn decode_message(message: &MessageSchema, version: i16, input: &mut Reader) -> Result<Value> {
    if !message.versions.contains(version) {
        return Err(DecodeError::UnsupportedVersion {
            message: message.name,
            version,
        });
    }
    let form = Form {
        version,
        compact: message.flexible.contains(version),
    };
    read_struct(message.root, form, input)
}

// The recursion below is as deep as the schema, whatever the input: no struct contains itself.
fn read_struct(schema: &'static StructSchema, form: Form, input: &mut Reader) -> Result<Value> {
    let mut fields = Vec::with_capacity(schema.fields.len());
    for field in schema.fields {
        let present = field.tag.is_none() && field.versions.contains(form.version);
        let value = if present {
            read_field(field, form, input)?
        } else {
            default_of(field)
        };
        fields.push((field.name, value));
    }
    if form.compact {
        input.tagged_fields(|input, tag| {
            let known = |field: &FieldSchema| {
                field.tag == Some(tag) && field.versions.contains(form.version)
            };
            let Some(at) = schema.fields.iter().position(known) else {
                return Ok(false);
            };
            fields[at].1 = read_field(&schema.fields[at], form, input)?;
            Ok(true)
        })?;
    }
    Ok(Value::Struct(fields))
}

fn read_field(field: &FieldSchema, form: Form, input: &mut Reader) -> Result<Value> {
    let form = Form {
        compact: form.compact && !field.rigid,
        ..form
    };
    let nullable = field.nullable.contains(form.version);
    read_value(field.kind, nullable, form, input)
}

fn read_value(kind: Kind, nullable: bool, form: Form, input: &mut Reader) -> Result<Value> {
    let offset = input.position();
    let compact = form.compact;
    let value = match kind {
        Kind::Bool => Value::Bool(input.bool()?),
        Kind::Int8 => Value::Int(input.i8()?.into()),
        Kind::Int16 => Value::Int(input.i16()?.into()),
        Kind::Uint16 => Value::Int(input.u16()?.into()),
        Kind::Int32 => Value::Int(input.i32()?.into()),
        Kind::Uint32 => Value::Int(input.u32()?.into()),
        Kind::Int64 => Value::Int(input.i64()?),
        Kind::Float64 => Value::Float(input.f64()?),
        Kind::Uuid => Value::Uuid(input.uuid()?),
        Kind::String => input
            .nullable_string(compact)?
            .map_or(Value::Null, Value::Str),
        Kind::Bytes | Kind::Records => input
            .nullable_bytes(compact)?
            .map_or(Value::Null, Value::Bytes),
        Kind::Struct(schema) if nullable => input
            .nullable_struct(|input| read_struct(schema, form, input))?
            .unwrap_or(Value::Null),
        Kind::Struct(schema) => read_struct(schema, form, input)?,
        Kind::Array(element) => input
            .nullable_array(compact, element.size_min(), |input| {
                read_value(*element, false, form, input)
            })?
            .map_or(Value::Null, Value::Array),
    };
    if value == Value::Null && !nullable {
        return Err(DecodeError::UnexpectedNull { offset });
    }
    Ok(value)
}

/// Returns the value of a field that is not set.
pub fn default_value(field: &FieldSchema) -> Value {
    default_of(field)
}

pub(super) fn default_of(field: &FieldSchema) -> Value {
    match (field.default, field.kind) {
        (DefaultValue::Null, _) => Value::Null,
        (DefaultValue::True, _) => Value::Bool(true),
        (DefaultValue::Int(number), _) => Value::Int(number),
        (DefaultValue::Zero, Kind::Bool) => Value::Bool(false),
        (DefaultValue::Zero, Kind::Float64) => Value::Float(0.0),
        (DefaultValue::Zero, Kind::String) => Value::Str(Str::default()),
        (DefaultValue::Zero, Kind::Bytes | Kind::Records) => Value::Bytes(Bytes::new()),
        (DefaultValue::Zero, Kind::Uuid) => Value::Uuid(Uuid::ZERO),
        (DefaultValue::Zero, Kind::Array(_)) => Value::Array(Vec::new()),
        (DefaultValue::Zero, Kind::Struct(schema)) => Value::Struct(
            schema
                .fields
                .iter()
                .map(|f| (f.name, default_of(f)))
                .collect(),
        ),
        (DefaultValue::Zero, _) => Value::Int(0),
    }
}
