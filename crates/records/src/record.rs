//! Writes one record of a v2 batch in wire form.
//!
//! ```text
//! length varint | attributes 1 | timestamp delta varlong | offset delta varint
//!   | key length varint, key | value length varint, value | headers count varint, headers
//! ```
//! A length of -1 is null. The first length does not include itself.
//!
//! `encode` runs for every record that is sent. If the sink has enough contiguous room, it writes
//! the record directly into it. If a chunk ends within the record, it writes the record piece by
//! piece.

use crate::headers::{Headers, nullable_len};
use crate::varint::{varint_len, varlong_len, write_varint, write_varlong};

/// Length of the shortest record: its length and six fields of one byte.
pub const RECORD_LEN_MIN: usize = 7;
/// Maximum length before the key: length, attributes, timestamp and offset delta, the key's length.
const PREFIX_LEN_MAX: usize = 5 + 1 + 10 + 5 + 5;

/// The fields of a record. Key, value and headers together must be below 2 GiB. The caller's limit
/// on requests ensures that.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecordFields<'a> {
    pub offset_delta: i32,
    pub timestamp_delta: i64,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: Headers<'a>,
}

/// Where a record is written to.
pub trait RecordSink {
    /// Appends bytes. They may be split over chunks.
    fn put(&mut self, bytes: &[u8]);

    /// Appends exactly `len` contiguous bytes, and returns them. The caller must fill all of them.
    /// Returns `None` if a chunk ends before that: the caller then uses `put`.
    #[inline]
    fn contiguous(&mut self, len: usize) -> Option<&mut [u8]> {
        let _ = len;
        None
    }
}

impl RecordSink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Returns the whole length of the record, including its length field.
#[inline]
pub fn encoded_len(fields: &RecordFields<'_>) -> usize {
    let body = body_len(fields);
    varint_len(body as i32) + body
}

/// Appends the record and returns its whole length.
#[inline]
pub fn encode(fields: &RecordFields<'_>, out: &mut impl RecordSink) -> usize {
    let body = body_len(fields);
    let total = varint_len(body as i32) + body;
    match out.contiguous(total) {
        Some(room) => write_contiguous(fields, body, room),
        None => put_pieces(fields, body, out),
    }
    total
}

#[inline]
fn body_len(fields: &RecordFields<'_>) -> usize {
    1 + varlong_len(fields.timestamp_delta)
        + varint_len(fields.offset_delta)
        + nullable_len(fields.key)
        + nullable_len(fields.value)
        + varint_len(fields.headers.count())
        + fields.headers.section_len()
}

#[inline]
fn write_contiguous(fields: &RecordFields<'_>, body: usize, room: &mut [u8]) {
    let mut at = write_varint(room, body as i32);
    room[at] = 0;
    at += 1;
    at += write_varlong(&mut room[at..], fields.timestamp_delta);
    at += write_varint(&mut room[at..], fields.offset_delta);
    at += write_nullable(&mut room[at..], fields.key);
    at += write_nullable(&mut room[at..], fields.value);
    at += write_varint(&mut room[at..], fields.headers.count());
    fields.headers.put_section(|bytes| {
        room[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    });
    debug_assert_eq!(at, room.len(), "encoded_len and encode agree");
}

#[inline(always)]
fn write_nullable(room: &mut [u8], bytes: Option<&[u8]>) -> usize {
    let Some(bytes) = bytes else {
        return write_varint(room, -1);
    };
    let at = write_varint(room, bytes.len() as i32);
    room[at..at + bytes.len()].copy_from_slice(bytes);
    at + bytes.len()
}

fn put_pieces(fields: &RecordFields<'_>, body: usize, out: &mut impl RecordSink) {
    let mut prefix = [0; PREFIX_LEN_MAX];
    let mut at = write_varint(&mut prefix, body as i32);
    at += 1; // attributes: none are assigned
    at += write_varlong(&mut prefix[at..], fields.timestamp_delta);
    at += write_varint(&mut prefix[at..], fields.offset_delta);
    at += write_varint(
        &mut prefix[at..],
        fields.key.map_or(-1, |key| key.len() as i32),
    );
    out.put(&prefix[..at]);
    out.put(fields.key.unwrap_or_default());
    at = write_varint(
        &mut prefix,
        fields.value.map_or(-1, |value| value.len() as i32),
    );
    out.put(&prefix[..at]);
    out.put(fields.value.unwrap_or_default());
    at = write_varint(&mut prefix, fields.headers.count());
    out.put(&prefix[..at]);
    fields.headers.put_section(|bytes| out.put(bytes));
}
