//! The static schema table: the fields of each message in each version.

use std::ops::RangeInclusive;

use crate::ApiKey;
use crate::generated::table::{APIS, DATA};

/// An inclusive range of versions, possibly empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    pub min: i16,
    pub max: i16,
}

impl Versions {
    pub const NONE: Self = Self { min: 0, max: -1 };

    pub const fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }
}

/// A request and its response.
#[derive(Debug)]
pub struct ApiSchema {
    pub key: ApiKey,
    pub name: &'static str,
    pub request: MessageSchema,
    pub response: MessageSchema,
}

impl ApiSchema {
    pub fn versions(&self) -> RangeInclusive<i16> {
        self.request.versions.min..=self.request.versions.max
    }
}

#[derive(Debug)]
pub struct MessageSchema {
    pub name: &'static str,
    pub versions: Versions,
    /// The versions in compact form with tagged fields.
    pub flexible: Versions,
    pub root: &'static StructSchema,
}

#[derive(Debug)]
pub struct StructSchema {
    pub name: &'static str,
    pub fields: &'static [FieldSchema],
    /// The smallest encoded size, over all versions.
    pub(crate) size_min: usize,
}

impl StructSchema {
    pub fn field(&self, name: &str) -> Option<&'static FieldSchema> {
        self.fields.iter().find(|field| field.name == name)
    }
}

#[derive(Debug)]
pub struct FieldSchema {
    pub name: &'static str,
    pub kind: Kind,
    pub versions: Versions,
    /// The versions in which the field may be null.
    pub nullable: Versions,
    pub tag: Option<u32>,
    pub default: DefaultValue,
    /// If set, the field may be dropped from a version that does not carry it, whatever its value.
    pub ignorable: bool,
    /// If set, the field never has the compact form.
    pub(crate) rigid: bool,
    /// If set, the field holds a secret, and `Debug` of a message does not show it.
    pub hidden: bool,
}

/// The type of a field or of an array's elements.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    Bool,
    Int8,
    Int16,
    Uint16,
    Int32,
    Uint32,
    Int64,
    Float64,
    String,
    Bytes,
    Records,
    Uuid,
    Struct(&'static StructSchema),
    Array(&'static Self),
}

impl Kind {
    /// Returns the name of the type for error messages.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Bool => "a bool",
            Self::Int8 => "an int8",
            Self::Int16 => "an int16",
            Self::Uint16 => "a uint16",
            Self::Int32 => "an int32",
            Self::Uint32 => "a uint32",
            Self::Int64 => "an int64",
            Self::Float64 => "a float64",
            Self::String => "a string",
            Self::Bytes | Self::Records => "bytes",
            Self::Uuid => "a UUID",
            Self::Struct(_) => "a struct",
            Self::Array(_) => "an array",
        }
    }

    /// Returns the smallest encoded size of a value of this type, over all versions.
    pub(crate) fn size_min(self) -> usize {
        match self {
            Self::Int16 | Self::Uint16 => 2,
            Self::Int32 | Self::Uint32 => 4,
            Self::Int64 | Self::Float64 => 8,
            Self::Uuid => 16,
            Self::Struct(schema) => schema.size_min,
            _ => 1,
        }
    }
}

/// The value of a field that is not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultValue {
    /// Zero, false, empty, the zero UUID, a struct of defaults.
    Zero,
    Null,
    True,
    Int(i64),
}

/// Returns the schema of an API, or `None` if Kafka 4.3 does not know the key.
pub fn schema(key: ApiKey) -> Option<&'static ApiSchema> {
    APIS.binary_search_by_key(&key, |api| api.key)
        .ok()
        .map(|i| &APIS[i])
}

/// Returns the schemas of all APIs, sorted by key.
pub fn schemas() -> &'static [ApiSchema] {
    APIS
}

/// Returns the schemas of messages that are not requests or responses: headers, the consumer
/// protocol's subscription and assignment, control records.
pub fn data_schemas() -> &'static [MessageSchema] {
    DATA
}

/// Returns the schema of one of [`data_schemas`] by Kafka's name.
pub fn data_schema(name: &str) -> Option<&'static MessageSchema> {
    DATA.iter().find(|message| message.name == name)
}

/// Functions for the generated table.
impl FieldSchema {
    pub(crate) const fn new(name: &'static str, kind: Kind, min: i16, max: i16) -> Self {
        Self {
            name,
            kind,
            versions: Versions { min, max },
            nullable: Versions::NONE,
            tag: None,
            default: DefaultValue::Zero,
            ignorable: false,
            rigid: false,
            hidden: false,
        }
    }

    pub(crate) const fn null(mut self, min: i16, max: i16) -> Self {
        self.nullable = Versions { min, max };
        self
    }

    pub(crate) const fn tag(mut self, tag: u32) -> Self {
        self.tag = Some(tag);
        self
    }

    pub(crate) const fn or(mut self, default: DefaultValue) -> Self {
        self.default = default;
        self
    }

    pub(crate) const fn ignorable(mut self) -> Self {
        self.ignorable = true;
        self
    }

    pub(crate) const fn rigid(mut self) -> Self {
        self.rigid = true;
        self
    }

    pub(crate) const fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }
}
