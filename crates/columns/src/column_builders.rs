//! Columns while they grow: plain vectors out of the pool, closed into Arrow arrays at the end.
//!
//! The per-record calls are what `decode to columns` costs, so they do the least: one copy of the
//! bytes and one offset. A validity bitmap begins to exist with the first null.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, ListArray, StringArray, StructArray};
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, FieldRef};
use thalweg_records::RawHeaders;

use crate::error::ColumnsError;
use crate::layout::header_fields;
use crate::slab::{SlabPool, buffer, scalars};

/// Which rows are null. Bits are written only once there is a null.
#[derive(Debug, Default)]
pub(crate) struct Validity {
    bits: Vec<u8>,
    len: usize,
    nulls: usize,
}

impl Validity {
    #[inline]
    pub(crate) fn push_valid(&mut self) {
        if self.nulls > 0 {
            self.push_bit(true);
        }
        self.len += 1;
    }

    #[inline]
    pub(crate) fn push_null(&mut self) {
        if self.nulls == 0 {
            self.materialize();
        }
        self.push_bit(false);
        self.nulls += 1;
        self.len += 1;
    }

    #[inline]
    fn push_bit(&mut self, valid: bool) {
        let bit = self.len % 8;
        if bit == 0 {
            self.bits.push(0);
        }
        if let Some(last) = self.bits.last_mut() {
            *last |= u8::from(valid) << bit;
        }
    }

    #[cold]
    fn materialize(&mut self) {
        self.bits.clear();
        self.bits.resize(self.len / 8, u8::MAX);
        let rest = self.len % 8;
        if rest > 0 {
            self.bits.push((1 << rest) - 1);
        }
    }

    fn finish(&mut self, pool: &Arc<SlabPool>) -> Option<NullBuffer> {
        let Self { bits, len, nulls } = std::mem::take(self);
        (nulls > 0).then(|| NullBuffer::new(BooleanBuffer::new(buffer(bits, pool), 0, len)))
    }
}

/// Bytes of any length with nulls: keys, values, header keys and values.
#[derive(Debug)]
pub(crate) struct BinaryBuilder {
    offsets: Vec<i32>,
    data: Vec<u8>,
    validity: Validity,
}

impl BinaryBuilder {
    pub(crate) fn new(pool: &SlabPool) -> Self {
        let mut offsets = pool.take::<i32>();
        offsets.push(0);
        Self {
            offsets,
            data: pool.take(),
            validity: Validity::default(),
        }
    }

    pub(crate) fn reserve(&mut self, rows: usize) {
        self.offsets.reserve(rows);
    }

    /// The caller's limit on bytes keeps the sum below 2 GiB.
    #[inline]
    pub(crate) fn push(&mut self, bytes: Option<&[u8]>) {
        if let Some(bytes) = bytes {
            self.data.extend_from_slice(bytes);
            self.validity.push_valid();
        } else {
            self.validity.push_null();
        }
        self.offsets.push(self.data.len() as i32);
    }

    /// The same bytes for many rows.
    pub(crate) fn push_run(&mut self, bytes: &[u8], rows: usize) {
        self.data.reserve(bytes.len() * rows);
        self.offsets.reserve(rows);
        for _ in 0..rows {
            self.data.extend_from_slice(bytes);
            self.offsets.push(self.data.len() as i32);
        }
        self.validity.len += rows;
    }

    fn parts(
        &mut self,
        pool: &Arc<SlabPool>,
    ) -> (OffsetBuffer<i32>, arrow_buffer::Buffer, Option<NullBuffer>) {
        let done = std::mem::replace(self, Self::new(pool));
        let mut validity = done.validity;
        let offsets = OffsetBuffer::new(scalars(done.offsets, pool));
        (offsets, buffer(done.data, pool), validity.finish(pool))
    }

    pub(crate) fn finish_binary(&mut self, pool: &Arc<SlabPool>) -> Result<ArrayRef, ColumnsError> {
        let (offsets, data, nulls) = self.parts(pool);
        Ok(Arc::new(BinaryArray::try_new(offsets, data, nulls)?))
    }

    pub(crate) fn finish_string(&mut self, pool: &Arc<SlabPool>) -> Result<ArrayRef, ColumnsError> {
        let (offsets, data, nulls) = self.parts(pool);
        Ok(Arc::new(StringArray::try_new(offsets, data, nulls)?))
    }
}

/// `list<struct<key: string, value: binary>>`: null, not empty, where a record has no headers.
#[derive(Debug)]
pub(crate) struct HeadersBuilder {
    offsets: Vec<i32>,
    validity: Validity,
    keys: BinaryBuilder,
    values: BinaryBuilder,
    count: i32,
}

impl HeadersBuilder {
    pub(crate) fn new(pool: &SlabPool) -> Self {
        let mut offsets = pool.take::<i32>();
        offsets.push(0);
        Self {
            offsets,
            validity: Validity::default(),
            keys: BinaryBuilder::new(pool),
            values: BinaryBuilder::new(pool),
            count: 0,
        }
    }

    pub(crate) fn reserve(&mut self, rows: usize) {
        self.offsets.reserve(rows);
    }

    #[inline]
    pub(crate) fn push(&mut self, headers: RawHeaders<'_>) {
        if headers.is_empty() {
            self.validity.push_null();
        } else {
            self.push_list(headers);
        }
        self.offsets.push(self.count);
    }

    fn push_list(&mut self, headers: RawHeaders<'_>) {
        self.validity.push_valid();
        for header in headers {
            // A key is text by the book only: what is not becomes text with replacement marks.
            match std::str::from_utf8(header.key) {
                Ok(_) => self.keys.push(Some(header.key)),
                Err(_) => {
                    let text = String::from_utf8_lossy(header.key);
                    self.keys.push(Some(text.as_bytes()));
                }
            }
            self.values.push(header.value);
            self.count += 1;
        }
    }

    pub(crate) fn finish(
        &mut self,
        data_type: &DataType,
        pool: &Arc<SlabPool>,
    ) -> Result<ArrayRef, ColumnsError> {
        let mut done = std::mem::replace(self, Self::new(pool));
        let keys = done.keys.finish_string(pool)?;
        let values = done.values.finish_binary(pool)?;
        let items = StructArray::try_new(header_fields(), vec![keys, values], None)?;
        let offsets = OffsetBuffer::new(scalars(done.offsets, pool));
        let nulls = done.validity.finish(pool);
        let item: FieldRef = match data_type {
            DataType::List(item) => Arc::clone(item),
            other => return Err(ColumnsError::Arrow(format!("headers are no {other}"))),
        };
        Ok(Arc::new(ListArray::try_new(
            item,
            offsets,
            Arc::new(items),
            nulls,
        )?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array;

    #[test]
    fn validity_begins_with_the_first_null() {
        let pool = SlabPool::new(0);
        for nulls_at in [
            vec![],
            vec![0],
            vec![7],
            vec![8],
            vec![3, 9, 16],
            (0..20).collect(),
        ] {
            let mut column = BinaryBuilder::new(&pool);
            for row in 0..20 {
                column.push((!nulls_at.contains(&row)).then_some(b"x".as_slice()));
            }
            let array = column.finish_binary(&pool).expect("a valid array");
            assert_eq!(array.null_count(), nulls_at.len());
            for row in 0..20 {
                assert_eq!(
                    array.is_null(row),
                    nulls_at.contains(&row),
                    "{nulls_at:?} {row}"
                );
            }
        }
    }

    #[test]
    fn a_builder_is_empty_again_after_finish() {
        let pool = SlabPool::new(1 << 20);
        let mut column = BinaryBuilder::new(&pool);
        column.push_run(b"topic", 5000);
        assert_eq!(column.finish_string(&pool).expect("text").len(), 5000);
        column.push(None);
        let array = column.finish_string(&pool).expect("text");
        assert_eq!((array.len(), array.null_count()), (1, 1));
    }
}
