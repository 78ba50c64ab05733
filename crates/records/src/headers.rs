//! Record headers (KIP-82): they are ordered, keys may repeat, values may be null.
//!
//! Keys should be text, but no broker enforces that. Here they are bytes.

use crate::error::RecordProblem;
use crate::varint::{read_varint, varint_len, write_varint};

/// One header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HeaderRef<'a> {
    pub key: &'a [u8],
    pub value: Option<&'a [u8]>,
}

/// Headers in wire form, without their count. The headers of a `RecordRef` have been checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RawHeaders<'a> {
    count: u32,
    bytes: &'a [u8],
}

impl<'a> RawHeaders<'a> {
    /// Creates headers from `bytes` without checking them, as taken from another `RawHeaders`. A
    /// malformed header ends the iteration early and never panics.
    pub fn new(count: u32, bytes: &'a [u8]) -> Self {
        Self { count, bytes }
    }

    /// Creates headers after checking that `bytes` are exactly `count` headers.
    pub(crate) fn checked(count: u32, bytes: &'a [u8]) -> Result<Self, RecordProblem> {
        // A header takes at least two bytes, so a larger count is refused without a walk.
        if count as usize > bytes.len() / 2 {
            return Err(RecordProblem::HeaderCount);
        }
        let mut at = 0;
        for _ in 0..count {
            next_header(bytes, &mut at)?;
        }
        if at == bytes.len() {
            Ok(Self { count, bytes })
        } else {
            Err(RecordProblem::Underrun)
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn len(&self) -> usize {
        self.count as usize
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the raw section, to be copied once and parsed later.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub fn iter(&self) -> HeaderIter<'a> {
        HeaderIter {
            left: self.count,
            bytes: self.bytes,
            at: 0,
        }
    }
}

impl<'a> IntoIterator for RawHeaders<'a> {
    type Item = HeaderRef<'a>;
    type IntoIter = HeaderIter<'a>;

    fn into_iter(self) -> HeaderIter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &RawHeaders<'a> {
    type Item = HeaderRef<'a>;
    type IntoIter = HeaderIter<'a>;

    fn into_iter(self) -> HeaderIter<'a> {
        self.iter()
    }
}

/// Iterates over raw headers in order.
#[derive(Debug, Clone)]
pub struct HeaderIter<'a> {
    left: u32,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for HeaderIter<'a> {
    type Item = HeaderRef<'a>;

    fn next(&mut self) -> Option<HeaderRef<'a>> {
        self.left = self.left.checked_sub(1)?;
        next_header(self.bytes, &mut self.at).ok()
    }
}

fn next_header<'a>(bytes: &'a [u8], at: &mut usize) -> Result<HeaderRef<'a>, RecordProblem> {
    let key = read_bytes(bytes, at)?.ok_or(RecordProblem::HeaderKey)?;
    let value = read_bytes(bytes, at)?;
    Ok(HeaderRef { key, value })
}

/// Reads a length (negative: null) and that many bytes.
#[inline(always)]
pub(crate) fn read_bytes<'a>(
    bytes: &'a [u8],
    at: &mut usize,
) -> Result<Option<&'a [u8]>, RecordProblem> {
    let length = read_varint(bytes, at).ok_or(RecordProblem::Varint)?;
    if length < 0 {
        return Ok(None);
    }
    let end = *at + length as usize;
    let slice = bytes.get(*at..end).ok_or(RecordProblem::Overrun)?;
    *at = end;
    Ok(Some(slice))
}

/// Headers to be written: a list, or a section that already has wire form.
#[derive(Debug, Clone, Copy)]
pub enum Headers<'a> {
    List(&'a [HeaderRef<'a>]),
    Raw(RawHeaders<'a>),
}

impl Headers<'_> {
    pub const NONE: Headers<'static> = Headers::List(&[]);

    pub(crate) fn count(&self) -> i32 {
        match self {
            Self::List(list) => list.len() as i32,
            Self::Raw(raw) => raw.count as i32,
        }
    }

    /// Returns the length of the section without its count.
    #[inline]
    pub(crate) fn section_len(&self) -> usize {
        match self {
            Self::List(list) => list.iter().map(header_len).sum(),
            Self::Raw(raw) => raw.bytes.len(),
        }
    }

    /// Passes the section to `put` piece by piece.
    pub(crate) fn put_section(&self, mut put: impl FnMut(&[u8])) {
        let list = match self {
            Self::Raw(raw) => return put(raw.bytes),
            Self::List(list) => list,
        };
        let mut length = [0; crate::varint::VARINT_LEN_MAX];
        for header in *list {
            for part in [Some(header.key), header.value] {
                let end = write_varint(&mut length, part.map_or(-1, |bytes| bytes.len() as i32));
                put(&length[..end]);
                put(part.unwrap_or_default());
            }
        }
    }
}

impl Default for Headers<'_> {
    fn default() -> Self {
        Self::NONE
    }
}

impl<'a> From<&'a [HeaderRef<'a>]> for Headers<'a> {
    fn from(list: &'a [HeaderRef<'a>]) -> Self {
        Self::List(list)
    }
}

impl<'a> From<RawHeaders<'a>> for Headers<'a> {
    fn from(raw: RawHeaders<'a>) -> Self {
        Self::Raw(raw)
    }
}

fn header_len(header: &HeaderRef<'_>) -> usize {
    nullable_len(Some(header.key)) + nullable_len(header.value)
}

#[inline(always)]
pub(crate) fn nullable_len(bytes: Option<&[u8]>) -> usize {
    match bytes {
        None => 1,
        Some(bytes) => varint_len(bytes.len() as i32) + bytes.len(),
    }
}
