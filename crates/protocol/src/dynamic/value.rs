//! [`Value`]: a message, or a part of one, with fields by name.

use std::fmt;

use bytes::Bytes;

use crate::generated::table::HIDDEN;
use crate::typed::Hidden;
use crate::{Str, Uuid};

/// Its `Debug` does not show text and bytes in fields that hold a secret in any message, because a
/// value does not know its message.
#[derive(Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    /// Any of the wire's integer types. The encoder checks the range.
    Int(i64),
    Float(f64),
    Str(Str),
    Bytes(Bytes),
    Uuid(Uuid),
    Array(Vec<Self>),
    /// Fields by Kafka's names (`ThrottleTimeMs`), in any order.
    Struct(Vec<(&'static str, Self)>),
}

impl Value {
    /// Returns a field of a struct.
    pub fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Struct(fields) => fields.iter().find(|(n, _)| *n == name).map(|(_, v)| v),
            _ => None,
        }
    }

    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    pub fn as_str(&self) -> Option<&Str> {
        match self {
            Self::Str(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the name of the value's type for error messages.
    pub fn describe(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a bool",
            Self::Int(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Str(_) => "a string",
            Self::Bytes(_) => "bytes",
            Self::Uuid(_) => "a UUID",
            Self::Array(_) => "an array",
            Self::Struct(_) => "a struct",
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("Null"),
            Self::Bool(value) => fmt::Debug::fmt(value, f),
            Self::Int(value) => fmt::Debug::fmt(value, f),
            Self::Float(value) => fmt::Debug::fmt(value, f),
            Self::Str(value) => fmt::Debug::fmt(value, f),
            Self::Bytes(value) => fmt::Debug::fmt(value, f),
            Self::Uuid(value) => fmt::Debug::fmt(value, f),
            Self::Array(values) => f.debug_list().entries(values).finish(),
            Self::Struct(fields) => {
                let mut map = f.debug_map();
                for (name, value) in fields {
                    match value {
                        Self::Str(_) | Self::Bytes(_) if HIDDEN.contains(name) => {
                            map.entry(name, &Hidden)
                        }
                        _ => map.entry(name, value),
                    };
                }
                map.finish()
            }
        }
    }
}

macro_rules! from {
    ($($from:ty => |$value:ident| $to:expr;)*) => { $(
        impl From<$from> for Value {
            fn from($value: $from) -> Self {
                $to
            }
        }
    )* };
}

from! {
    bool => |value| Self::Bool(value);
    i16 => |value| Self::Int(value.into());
    i32 => |value| Self::Int(value.into());
    i64 => |value| Self::Int(value);
    f64 => |value| Self::Float(value);
    &str => |value| Self::Str(value.into());
    Str => |value| Self::Str(value);
    Bytes => |value| Self::Bytes(value);
    Uuid => |value| Self::Uuid(value);
    Vec<Self> => |values| Self::Array(values);
    Vec<(&'static str, Self)> => |fields| Self::Struct(fields);
}
