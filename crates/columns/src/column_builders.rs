//! Columns that are being filled: plain vectors from the pool, turned into Arrow arrays at the end.
//!
//! Filling columns costs mostly the calls for each record, so they do as little as possible: one
//! copy of the bytes and one offset. A validity bitmap is created with the first null.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, ListArray, StringArray, StructArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, FieldRef};
use thalweg_records::RawHeaders;

use crate::error::ColumnsError;
use crate::layout::header_fields;
use crate::slab::{SlabElement, SlabPool, buffer, scalars};

/// Which rows are null. No bits are written until there is a null.
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

    /// Adds nulls to an empty column.
    fn push_nulls(&mut self, count: usize) {
        debug_assert_eq!(
            self.len, 0,
            "nulls are added as a run only to an empty column"
        );
        self.bits.resize(count.div_ceil(8), 0);
        (self.len, self.nulls) = (count, count);
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

/// A column of numbers. It remembers its last length to request enough memory the next time.
#[derive(Debug)]
pub(crate) struct NumberBuilder<T> {
    values: Vec<T>,
    len_before: usize,
}

impl<T: SlabElement + Send + 'static> NumberBuilder<T> {
    pub(crate) fn new() -> Self {
        Self {
            values: Vec::new(),
            len_before: 0,
        }
    }

    /// Takes memory for the first rows, and makes room for `rows` more.
    pub(crate) fn reserve(&mut self, rows: usize, pool: &SlabPool) {
        if self.values.capacity() == 0 {
            self.values = pool.take(self.len_before.max(rows));
        }
        self.values.reserve(rows);
    }

    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        self.values.push(value);
    }

    /// Fills the rows up to `len` with one value.
    pub(crate) fn fill(&mut self, len: usize, value: T) {
        self.values.resize(len, value);
    }

    fn bump(&mut self) -> Vec<T> {
        self.len_before = self.values.len();
        std::mem::take(&mut self.values)
    }

    pub(crate) fn finish(&mut self, pool: &Arc<SlabPool>) -> ScalarBuffer<T> {
        scalars(self.bump(), pool)
    }
}

/// The ends of rows in a data buffer. The first offset is always 0.
#[derive(Debug)]
struct Offsets(NumberBuilder<i32>);

impl Offsets {
    fn reserve(&mut self, rows: usize, pool: &SlabPool) {
        self.0.reserve(rows + 1, pool);
        if self.0.values.is_empty() {
            self.0.push(0);
        }
    }

    /// Adds empty rows at the start.
    fn push_empty(&mut self, rows: usize) {
        if rows > 0 {
            self.0.fill(rows + 1, 0);
        }
    }

    fn finish(&mut self, pool: &Arc<SlabPool>) -> OffsetBuffer<i32> {
        if self.0.values.is_empty() {
            return OffsetBuffer::new_empty();
        }
        OffsetBuffer::new(self.0.finish(pool))
    }
}

/// A column of bytes of any length with nulls: keys, values, header keys and header values.
#[derive(Debug)]
pub(crate) struct BinaryBuilder {
    offsets: Offsets,
    data: NumberBuilder<u8>,
    validity: Validity,
    /// Nulls before the first row with bytes are only counted, as most key columns are all null.
    leading_nulls: usize,
    started: bool,
}

impl BinaryBuilder {
    pub(crate) fn new() -> Self {
        Self {
            offsets: Offsets(NumberBuilder::new()),
            data: NumberBuilder::new(),
            validity: Validity::default(),
            leading_nulls: 0,
            started: false,
        }
    }

    /// Call this before the first push, and before a run of pushes.
    pub(crate) fn reserve(&mut self, rows: usize, pool: &SlabPool) {
        self.offsets.reserve(rows, pool);
        if self.data.values.capacity() == 0 {
            self.data.values = pool.take(self.data.len_before);
        }
    }

    /// Appends a row. The caller's limit on bytes keeps the sum below 2 GiB.
    #[inline]
    pub(crate) fn push(&mut self, bytes: Option<&[u8]>) {
        let Some(bytes) = bytes else {
            return self.push_null();
        };
        if !self.started {
            self.start();
        }
        self.data.values.extend_from_slice(bytes);
        self.validity.push_valid();
        self.offsets.0.push(self.data.values.len() as i32);
    }

    #[inline]
    fn push_null(&mut self) {
        if self.started {
            self.validity.push_null();
            self.offsets.0.push(self.data.values.len() as i32);
        } else {
            self.leading_nulls += 1;
        }
    }

    /// Writes the leading nulls.
    #[cold]
    fn start(&mut self) {
        self.started = true;
        let nulls = std::mem::take(&mut self.leading_nulls);
        self.validity.push_nulls(nulls);
        self.offsets.push_empty(nulls);
    }

    /// Appends the same bytes for many rows.
    pub(crate) fn push_run(&mut self, bytes: &[u8], rows: usize, pool: &SlabPool) {
        self.reserve(rows, pool);
        if !self.started {
            self.start();
        }
        let data = &mut self.data.values;
        data.reserve(bytes.len() * rows);
        for _ in 0..rows {
            data.extend_from_slice(bytes);
            self.offsets.0.push(data.len() as i32);
        }
        self.validity.len += rows;
    }

    fn parts(&mut self, pool: &Arc<SlabPool>) -> (OffsetBuffer<i32>, Buffer, Option<NullBuffer>) {
        if !self.started {
            self.start();
        }
        self.started = false;
        let offsets = self.offsets.finish(pool);
        (
            offsets,
            buffer(self.data.bump(), pool),
            self.validity.finish(pool),
        )
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

/// A column of `list<struct<key: string, value: binary>>`. A record without headers gives a null,
/// not an empty list.
#[derive(Debug)]
pub(crate) struct HeadersBuilder {
    offsets: Offsets,
    validity: Validity,
    keys: BinaryBuilder,
    values: BinaryBuilder,
    count: i32,
    /// Records without headers before the first one with headers are only counted.
    leading_nulls: usize,
    started: bool,
}

impl HeadersBuilder {
    pub(crate) fn new() -> Self {
        Self {
            offsets: Offsets(NumberBuilder::new()),
            validity: Validity::default(),
            keys: BinaryBuilder::new(),
            values: BinaryBuilder::new(),
            count: 0,
            leading_nulls: 0,
            started: false,
        }
    }

    pub(crate) fn reserve(&mut self, rows: usize, pool: &SlabPool) {
        self.offsets.reserve(rows, pool);
        self.keys.reserve(0, pool);
        self.values.reserve(0, pool);
    }

    #[inline]
    pub(crate) fn push(&mut self, headers: RawHeaders<'_>) {
        if !headers.is_empty() {
            self.push_list(headers);
        } else if self.started {
            self.validity.push_null();
            self.offsets.0.push(self.count);
        } else {
            self.leading_nulls += 1;
        }
    }

    #[cold]
    fn start(&mut self) {
        self.started = true;
        let nulls = std::mem::take(&mut self.leading_nulls);
        self.validity.push_nulls(nulls);
        self.offsets.push_empty(nulls);
    }

    fn push_list(&mut self, headers: RawHeaders<'_>) {
        if !self.started {
            self.start();
        }
        self.validity.push_valid();
        for header in headers {
            // Keys should be text, but no broker enforces that. Invalid UTF-8 becomes U+FFFD.
            if std::str::from_utf8(header.key).is_ok() {
                self.keys.push(Some(header.key));
            } else {
                let text = String::from_utf8_lossy(header.key);
                self.keys.push(Some(text.as_bytes()));
            }
            self.values.push(header.value);
            self.count += 1;
        }
        self.offsets.0.push(self.count);
    }

    pub(crate) fn finish(
        &mut self,
        data_type: &DataType,
        pool: &Arc<SlabPool>,
    ) -> Result<ArrayRef, ColumnsError> {
        if !self.started {
            self.start();
        }
        (self.count, self.started) = (0, false);
        let keys = self.keys.finish_string(pool)?;
        let values = self.values.finish_binary(pool)?;
        let items = StructArray::try_new(header_fields(), vec![keys, values], None)?;
        let offsets = self.offsets.finish(pool);
        let nulls = self.validity.finish(pool);
        let item: FieldRef = match data_type {
            DataType::List(item) => Arc::clone(item),
            other => {
                return Err(ColumnsError::Arrow(format!(
                    "headers must be a list, not {other}"
                )));
            }
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
            let mut column = BinaryBuilder::new();
            column.reserve(20, &pool);
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
        let mut column = BinaryBuilder::new();
        column.push_run(b"topic", 5000, &pool);
        assert_eq!(column.finish_string(&pool).expect("text").len(), 5000);
        assert_eq!(column.finish_string(&pool).expect("text").len(), 0);
        column.reserve(1, &pool);
        column.push(None);
        let array = column.finish_string(&pool).expect("text");
        assert_eq!((array.len(), array.null_count()), (1, 1));
    }
}
