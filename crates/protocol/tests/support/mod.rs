//! Makes random messages from the schema table, by seed.

use bytes::Bytes;
use thalweg_protocol::dynamic::{FieldSchema, Kind, MessageSchema, StructSchema, Value};
use thalweg_protocol::{SplitMix64, Str, Uuid};

/// Returns `count` random bytes.
pub(crate) fn bytes(count: u64, random: &mut SplitMix64) -> Vec<u8> {
    (0..count).map(|_| random.next_u64() as u8).collect()
}

/// Returns a message that can be sent in this version. About `set` percent of the fields are set.
pub(crate) fn message(
    schema: &MessageSchema,
    version: i16,
    set: u64,
    random: &mut SplitMix64,
) -> Value {
    structure(schema.root, version, set, random)
}

fn structure(schema: &StructSchema, version: i16, set: u64, random: &mut SplitMix64) -> Value {
    let mut fields = Vec::new();
    for field in schema.fields {
        if field.versions.contains(version) && random.below(100) < set {
            fields.push((field.name, field_value(field, version, set, random)));
        }
    }
    Value::Struct(fields)
}

fn field_value(field: &FieldSchema, version: i16, set: u64, random: &mut SplitMix64) -> Value {
    if field.nullable.contains(version) && random.below(4) == 0 {
        return Value::Null;
    }
    kind_value(field.kind, version, set, random)
}

fn kind_value(kind: Kind, version: i16, set: u64, random: &mut SplitMix64) -> Value {
    match kind {
        Kind::Bool => Value::Bool(random.below(2) == 1),
        Kind::Int8 => Value::Int(i64::from(random.next_u64() as i8)),
        Kind::Int16 => Value::Int(i64::from(random.next_u64() as i16)),
        Kind::Uint16 => Value::Int(i64::from(random.next_u64() as u16)),
        Kind::Int32 => Value::Int(i64::from(random.next_u64() as i32)),
        Kind::Uint32 => Value::Int(i64::from(random.next_u64() as u32)),
        Kind::Int64 => Value::Int(random.next_u64() as i64),
        // Never NaN, which is not equal to itself.
        Kind::Float64 => Value::Float(random.next_u64() as i32 as f64 / 8.0),
        Kind::Uuid => Value::Uuid(Uuid::from_u64_pair(random.next_u64(), random.next_u64())),
        Kind::String => Value::Str(string(random)),
        Kind::Bytes | Kind::Records => {
            let count = length(random);
            Value::Bytes(Bytes::from(bytes(count, random)))
        }
        Kind::Struct(schema) => structure(schema, version, set, random),
        Kind::Array(element) => {
            let count = random.below(4);
            Value::Array(
                (0..count)
                    .map(|_| kind_value(*element, version, set, random))
                    .collect(),
            )
        }
    }
}

/// Returns a mostly short length, sometimes above the 127 that one byte of a varint can express.
fn length(random: &mut SplitMix64) -> u64 {
    let limit = if random.below(20) == 0 { 400 } else { 12 };
    random.below(limit)
}

fn string(random: &mut SplitMix64) -> Str {
    const LETTERS: [char; 8] = ['a', 'Z', '0', '-', '.', 'ß', '水', '🌊'];
    let count = length(random);
    let text: String = (0..count)
        .map(|_| LETTERS[random.below(8) as usize])
        .collect();
    Str::from(text)
}
