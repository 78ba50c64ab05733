//! [`Reader`]: reads the primitive types of the wire from a frame.
//!
//! Strings and byte fields are slices that share the frame. No count leads to an allocation before
//! the remaining bytes are known to be sufficient for it, and every failure is a [`DecodeError`].

use bytes::Bytes;

use crate::{DecodeError, Str, Uuid};

type Result<T> = std::result::Result<T, DecodeError>;

/// Reads a frame from start to end.
#[derive(Debug, Clone)]
pub struct Reader {
    data: Bytes,
    position: usize,
    /// Where reading stops: the end of the frame, or of the tagged field that is being read.
    end: usize,
}

impl From<Bytes> for Reader {
    fn from(data: Bytes) -> Self {
        Self::new(data)
    }
}

macro_rules! number {
    ($name:ident, $size:literal) => {
        #[inline]
        pub fn $name(&mut self) -> Result<$name> {
            let mut bytes = [0; $size];
            bytes.copy_from_slice(self.slice($size)?);
            Ok($name::from_be_bytes(bytes))
        }
    };
}

impl Reader {
    pub fn new(data: Bytes) -> Self {
        let end = data.len();
        Self {
            data,
            position: 0,
            end,
        }
    }

    pub fn position(&self) -> usize {
        self.position
    }

    pub fn remaining(&self) -> usize {
        self.end - self.position
    }

    /// Returns the unread bytes, sharing the frame.
    pub fn rest(&self) -> Bytes {
        self.data.slice(self.position..self.end)
    }

    /// Returns an error if bytes are left. Call this after a message that must fill its frame.
    pub fn finish(&self) -> Result<()> {
        match self.remaining() {
            0 => Ok(()),
            count => Err(DecodeError::TrailingBytes {
                offset: self.position,
                count,
            }),
        }
    }

    #[inline]
    fn slice(&mut self, count: usize) -> Result<&[u8]> {
        let start = self.advance(count)?;
        Ok(&self.data[start..start + count])
    }

    /// Skips `count` bytes and returns where they start.
    #[inline]
    fn advance(&mut self, count: usize) -> Result<usize> {
        let remaining = self.remaining();
        if count > remaining {
            return Err(DecodeError::Truncated {
                offset: self.position,
                needed: count,
                remaining,
            });
        }
        let start = self.position;
        self.position += count;
        Ok(start)
    }

    number!(i8, 1);
    number!(u8, 1);
    number!(i16, 2);
    number!(u16, 2);
    number!(i32, 4);
    number!(u32, 4);
    number!(i64, 8);
    number!(f64, 8);

    /// Reads a bool. Any byte other than zero is true, as in Kafka.
    #[inline]
    pub fn bool(&mut self) -> Result<bool> {
        Ok(self.u8()? != 0)
    }

    pub fn uuid(&mut self) -> Result<Uuid> {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(self.slice(16)?);
        Ok(Uuid(bytes))
    }

    /// Reads an unsigned variable-length integer of at most 32 bits.
    #[inline]
    pub fn uvarint(&mut self) -> Result<u32> {
        let offset = self.position;
        let mut value: u32 = 0;
        for shift in (0..35).step_by(7) {
            let byte = self.u8()?;
            if shift == 28 && byte > 0x0f {
                break;
            }
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::VarintTooLong { offset })
    }

    /// Reads the next `count` bytes, sharing the frame.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<Bytes> {
        let start = self.advance(count)?;
        Ok(self.data.slice(start..start + count))
    }

    /// Reads a length, which is -1 for null: a varint of length + 1 if compact, otherwise 32 bits
    /// if `wide` and 16 if not.
    #[inline]
    fn length(&mut self, compact: bool, wide: bool) -> Result<Option<usize>> {
        let offset = self.position;
        let length = match (compact, wide) {
            (true, _) => i64::from(self.uvarint()?) - 1,
            (false, true) => i64::from(self.i32()?),
            (false, false) => i64::from(self.i16()?),
        };
        match length {
            -1 => Ok(None),
            0.. => Ok(Some(length as usize)),
            _ => Err(DecodeError::NegativeLength { offset, length }),
        }
    }

    pub fn nullable_string(&mut self, compact: bool) -> Result<Option<Str>> {
        let Some(length) = self.length(compact, false)? else {
            return Ok(None);
        };
        let offset = self.position;
        if length > i16::MAX as usize {
            // Only possible in compact form. Kafka's own reader refuses it too.
            return Err(DecodeError::StringTooLong { offset, length });
        }
        let bytes = self.take(length)?;
        Str::from_utf8(bytes)
            .map(Some)
            .map_err(|_| DecodeError::NotUtf8 { offset })
    }

    pub fn string(&mut self, compact: bool) -> Result<Str> {
        let offset = self.position;
        self.nullable_string(compact)?
            .ok_or(DecodeError::UnexpectedNull { offset })
    }

    pub fn nullable_bytes(&mut self, compact: bool) -> Result<Option<Bytes>> {
        match self.length(compact, true)? {
            Some(length) => self.take(length).map(Some),
            None => Ok(None),
        }
    }

    pub fn bytes(&mut self, compact: bool) -> Result<Bytes> {
        let offset = self.position;
        self.nullable_bytes(compact)?
            .ok_or(DecodeError::UnexpectedNull { offset })
    }

    /// Reads the count of an array. Each element takes at least `element_min` bytes, so a count
    /// that the remaining bytes cannot hold is an error.
    pub fn array_length(&mut self, compact: bool, element_min: usize) -> Result<Option<usize>> {
        let Some(count) = self.length(compact, true)? else {
            return Ok(None);
        };
        let needed = count.saturating_mul(element_min.max(1));
        let remaining = self.remaining();
        if needed > remaining {
            return Err(DecodeError::Truncated {
                offset: self.position,
                needed,
                remaining,
            });
        }
        Ok(Some(count))
    }

    /// Reads an array, element by element.
    pub fn nullable_array<T>(
        &mut self,
        compact: bool,
        element_min: usize,
        mut element: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Option<Vec<T>>> {
        let Some(count) = self.array_length(compact, element_min)? else {
            return Ok(None);
        };
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(element(self)?);
        }
        Ok(Some(elements))
    }

    pub fn array<T>(
        &mut self,
        compact: bool,
        element_min: usize,
        element: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let offset = self.position;
        self.nullable_array(compact, element_min, element)?
            .ok_or(DecodeError::UnexpectedNull { offset })
    }

    /// Reads a struct after a marker byte: -1 for null, 1 for present.
    pub fn nullable_struct<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<Option<T>> {
        let offset = self.position;
        match self.i8()? {
            -1 => Ok(None),
            1 => read(self).map(Some),
            marker => Err(DecodeError::BadStructMarker { offset, marker }),
        }
    }

    /// Reads the tagged fields at the end of a struct. `known` reads a field and returns true if it
    /// knows the tag. Other fields are skipped. Tags must ascend, and a known field must use its
    /// whole size.
    pub fn tagged_fields(
        &mut self,
        mut known: impl FnMut(&mut Self, u32) -> Result<bool>,
    ) -> Result<()> {
        let mut last = None;
        for _ in 0..self.uvarint()? {
            let offset = self.position;
            let tag = self.uvarint()?;
            if last.is_some_and(|last| tag <= last) {
                return Err(DecodeError::TagOrder { offset, tag });
            }
            last = Some(tag);
            let size = self.uvarint()? as usize;
            let start = self.advance(size)?;
            let (field_end, end) = (self.position, self.end);
            (self.position, self.end) = (start, field_end);
            if known(self, tag)? {
                let unread = self.remaining();
                if unread > 0 {
                    return Err(DecodeError::TagSize {
                        offset: self.position,
                        tag,
                        unread,
                    });
                }
            }
            (self.position, self.end) = (field_end, end);
        }
        Ok(())
    }

    pub fn skip_tagged_fields(&mut self) -> Result<()> {
        self.tagged_fields(|_, _| Ok(false))
    }
}
