//! One record of a v2 batch, written in wire form.
//!
//! ```text
//! length varint | attributes 1 | timestamp delta varlong | offset delta varint
//!   | key length varint, key | value length varint, value | headers count varint, headers
//! ```
//! A length of -1 is null. The length in front does not count itself.
//!
//! `encode` runs for every record that is sent. Where the sink has room in one piece, the record
//! is written straight into it; where a chunk ends inside of the record, it is put piece by piece.

use crate::headers::{Headers, nullable_len};
use crate::varint::{varint_len, varlong_len, write_varint, write_varlong};

/// The shortest record: its length, six fields of one byte.
pub const RECORD_LEN_MIN: usize = 7;
/// What goes before the key: length, attributes, timestamp and offset delta, the key's length.
const PREFIX_LEN_MAX: usize = 5 + 1 + 10 + 5 + 5;

/// What a record consists of. Key, value and headers together must stay below 2 GiB: the
/// caller's limit on requests sees to that.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecordFields<'a> {
    pub offset_delta: i32,
    pub timestamp_delta: i64,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: Headers<'a>,
}

/// Where a record goes.
pub trait RecordSink {
    /// Appends bytes, wherever they fit.
    fn put(&mut self, bytes: &[u8]);

    /// Exactly `len` bytes at the end, in one piece and counted as appended: the caller fills
    /// them all. `None` where a chunk ends before: then `put` is called instead.
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

/// Whole length of the record, the length field included.
#[inline]
pub fn encoded_len(fields: &RecordFields<'_>) -> usize {
    let body = body_len(fields);
    varint_len(body as i32) + body
}

/// Appends the record; returns its whole length.
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

/// Writes the record at the start of `room`, which must hold `encoded_len` bytes; returns the
/// whole length.
#[inline]
pub fn encode_to_slice(fields: &RecordFields<'_>, room: &mut [u8]) -> usize {
    let body = body_len(fields);
    let total = varint_len(body as i32) + body;
    write_contiguous(fields, body, &mut room[..total]);
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
