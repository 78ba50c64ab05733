//! The errors of encoding and decoding.

/// Why bytes could not be decoded as a message. Offsets count from the reader's first byte.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    #[error("cut off at offset {offset}: {needed} bytes needed, {remaining} remain")]
    Truncated {
        offset: usize,
        needed: usize,
        remaining: usize,
    },
    #[error("negative length {length} at offset {offset}")]
    NegativeLength { offset: usize, length: i64 },
    #[error("the variable-length integer at offset {offset} is too long")]
    VarintTooLong { offset: usize },
    #[error("the string at offset {offset} has {length} bytes, more than Kafka allows")]
    StringTooLong { offset: usize, length: usize },
    #[error("the string at offset {offset} is not UTF-8")]
    NotUtf8 { offset: usize },
    #[error("null at offset {offset}, where a value is required")]
    UnexpectedNull { offset: usize },
    #[error("bad marker {marker} of an optional struct at offset {offset}")]
    BadStructMarker { offset: usize, marker: i8 },
    #[error("tag {tag} at offset {offset} is repeated or out of order")]
    TagOrder { offset: usize, tag: u32 },
    #[error("tagged field {tag} ends at offset {offset}, {unread} bytes before its declared end")]
    TagSize {
        offset: usize,
        tag: u32,
        unread: usize,
    },
    #[error("{count} bytes are left after the message, at offset {offset}")]
    TrailingBytes { offset: usize, count: usize },
    #[error("{message} has no version {version}")]
    UnsupportedVersion { message: &'static str, version: i16 },
    #[error("no schema for API key {0}")]
    UnknownApi(i16),
    #[error("not a UUID: `{0}`")]
    NotUuid(String),
}

/// Why a message could not be encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    #[error("{message} has no version {version}")]
    UnsupportedVersion { message: &'static str, version: i16 },
    /// The field is set, the version cannot carry it, and dropping it would change the meaning.
    #[error("{field} cannot be sent in version {version}")]
    UnsupportedField { field: &'static str, version: i16 },
    /// This version of the field does not allow null, but another version does.
    #[error("{field} must not be null in version {version}")]
    UnexpectedNull { field: &'static str, version: i16 },
    #[error("{what} of length {length} is longer than {max}, the limit of Kafka's protocol")]
    TooLong {
        what: &'static str,
        length: usize,
        max: usize,
    },
    #[error("no schema for API key {0}")]
    UnknownApi(i16),
    #[error("{message} has no field `{field}`{}", did_you_mean(*nearest))]
    UnknownField {
        message: &'static str,
        field: String,
        nearest: Option<&'static str>,
    },
    #[error("{field} is given twice")]
    RepeatedField { field: &'static str },
    #[error("{field} takes {expected}, not {found}")]
    WrongType {
        field: &'static str,
        expected: &'static str,
        found: &'static str,
    },
    #[error("{value} does not fit into {field}, which is {expected}")]
    OutOfRange {
        field: &'static str,
        expected: &'static str,
        value: i64,
    },
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(", did you mean `{name}`?"))
}
