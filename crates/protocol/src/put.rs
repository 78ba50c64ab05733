//! Writes the primitive types of the wire: the counterpart of [`Reader`](crate::Reader).

use crate::{EncodeError, Str, Uuid};

type Result = std::result::Result<(), EncodeError>;

macro_rules! number {
    ($($name:ident)*) => { $(
        #[inline]
        pub(crate) fn $name(out: &mut Vec<u8>, value: $name) {
            out.extend_from_slice(&value.to_be_bytes());
        }
    )* };
}

number!(i8 i16 u16 i32 u32 i64 f64);

#[inline]
pub(crate) fn bool(out: &mut Vec<u8>, value: bool) {
    out.push(u8::from(value));
}

pub(crate) fn uuid(out: &mut Vec<u8>, value: Uuid) {
    out.extend_from_slice(&value.0);
}

#[inline]
pub(crate) fn uvarint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes a length, or null: as a varint of length + 1 if compact, otherwise in 16 or 32 bits.
#[inline]
fn length(out: &mut Vec<u8>, compact: bool, wide: bool, value: Option<usize>) -> Result {
    let Some(count) = value else {
        match (compact, wide) {
            (true, _) => uvarint(out, 0),
            (false, true) => i32(out, -1),
            (false, false) => i16(out, -1),
        }
        return Ok(());
    };
    // Strings are limited to 16 bits in compact form too: Kafka refuses longer ones.
    let (what, max) = if wide {
        ("an array or byte field", i32::MAX as usize - 1)
    } else {
        ("a string", i16::MAX as usize)
    };
    if count > max {
        return Err(EncodeError::TooLong {
            what,
            length: count,
            max,
        });
    }
    match (compact, wide) {
        (true, _) => uvarint(out, count as u32 + 1),
        (false, true) => i32(out, count as i32),
        (false, false) => i16(out, count as i16),
    }
    Ok(())
}

pub(crate) fn nullable_string(out: &mut Vec<u8>, compact: bool, value: Option<&str>) -> Result {
    length(out, compact, false, value.map(str::len))?;
    out.extend_from_slice(value.unwrap_or_default().as_bytes());
    Ok(())
}

pub(crate) fn str_(out: &mut Vec<u8>, compact: bool, value: &Str) -> Result {
    length(out, compact, false, Some(value.as_bytes().len()))?;
    out.extend_from_slice(value.as_bytes());
    Ok(())
}

pub(crate) fn nullable_str(out: &mut Vec<u8>, compact: bool, value: Option<&Str>) -> Result {
    match value {
        Some(value) => str_(out, compact, value),
        None => length(out, compact, false, None),
    }
}

pub(crate) fn bytes(out: &mut Vec<u8>, compact: bool, value: &[u8]) -> Result {
    nullable_bytes(out, compact, Some(value))
}

pub(crate) fn nullable_bytes(out: &mut Vec<u8>, compact: bool, value: Option<&[u8]>) -> Result {
    length(out, compact, true, value.map(<[u8]>::len))?;
    out.extend_from_slice(value.unwrap_or_default());
    Ok(())
}

/// Writes the length before a byte field or an array.
pub(crate) fn array_length(out: &mut Vec<u8>, compact: bool, value: Option<usize>) -> Result {
    length(out, compact, true, value)
}

pub(crate) fn array<T>(
    out: &mut Vec<u8>,
    compact: bool,
    elements: &[T],
    element: impl FnMut(&mut Vec<u8>, &T) -> Result,
) -> Result {
    nullable_array(out, compact, Some(elements), element)
}

pub(crate) fn nullable_array<T>(
    out: &mut Vec<u8>,
    compact: bool,
    elements: Option<&[T]>,
    mut element: impl FnMut(&mut Vec<u8>, &T) -> Result,
) -> Result {
    array_length(out, compact, elements.map(<[T]>::len))?;
    elements
        .unwrap_or_default()
        .iter()
        .try_for_each(|e| element(out, e))
}

/// Writes a struct after a marker byte: -1 for null, 1 for present.
pub(crate) fn nullable_struct<T>(
    out: &mut Vec<u8>,
    value: Option<&T>,
    write: impl FnOnce(&mut Vec<u8>, &T) -> Result,
) -> Result {
    i8(out, if value.is_some() { 1 } else { -1 });
    value.map_or(Ok(()), |value| write(out, value))
}

/// Collects the tagged fields of a struct. They must be added in the order of their tags.
#[derive(Default)]
pub(crate) struct TaggedFields {
    count: u32,
    fields: Vec<u8>,
}

impl TaggedFields {
    pub(crate) fn put(&mut self, tag: u32, write: impl FnOnce(&mut Vec<u8>) -> Result) -> Result {
        let mut value = Vec::new();
        write(&mut value)?;
        self.count += 1;
        uvarint(&mut self.fields, tag);
        array_size(&mut self.fields, value.len())?;
        self.fields.extend_from_slice(&value);
        Ok(())
    }

    pub(crate) fn finish(self, out: &mut Vec<u8>) {
        uvarint(out, self.count);
        out.extend_from_slice(&self.fields);
    }
}

fn array_size(out: &mut Vec<u8>, length: usize) -> Result {
    let max = i32::MAX as usize;
    if length > max {
        return Err(EncodeError::TooLong {
            what: "a tagged field",
            length,
            max,
        });
    }
    uvarint(out, length as u32);
    Ok(())
}
