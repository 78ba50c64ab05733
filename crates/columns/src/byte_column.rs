//! Reads any column of bytes or text row by row, without converting the whole column.

use std::fmt::Display;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, FixedSizeBinaryArray, LargeBinaryArray,
    PrimitiveArray,
};
use arrow_schema::{DataType, TimeUnit};

use crate::error::ColumnsError;

/// A column of bytes. Text is read as its UTF-8 bytes.
#[derive(Debug)]
pub(crate) enum ByteColumn {
    Binary(BinaryArray),
    LargeBinary(LargeBinaryArray),
    View(BinaryViewArray),
    FixedSize(FixedSizeBinaryArray),
    Dictionary {
        keys: Vec<usize>,
        nulls: ArrayRef,
        values: Box<Self>,
    },
    /// A column of type null, or a missing column.
    Null,
}

impl ByteColumn {
    pub(crate) fn new(name: &str, array: &ArrayRef) -> Result<Self, ColumnsError> {
        Ok(match array.data_type() {
            DataType::Binary => Self::Binary(array.as_binary::<i32>().clone()),
            DataType::Utf8 => Self::Binary(array.as_string::<i32>().clone().into()),
            DataType::LargeBinary => Self::LargeBinary(array.as_binary::<i64>().clone()),
            DataType::LargeUtf8 => Self::LargeBinary(array.as_string::<i64>().clone().into()),
            DataType::BinaryView => Self::View(array.as_binary_view().clone()),
            DataType::Utf8View => Self::View(array.as_string_view().clone().to_binary_view()),
            DataType::FixedSizeBinary(_) => Self::FixedSize(array.as_fixed_size_binary().clone()),
            DataType::Null => Self::Null,
            DataType::Dictionary(_, _) => {
                let dictionary = array.as_any_dictionary();
                // If there are no values, every row is null, and the keys cannot be normalized.
                let keys = if dictionary.values().is_empty() {
                    vec![0; array.len()]
                } else {
                    dictionary.normalized_keys()
                };
                let values = Box::new(Self::new(name, dictionary.values())?);
                Self::Dictionary {
                    keys,
                    nulls: ArrayRef::clone(array),
                    values,
                }
            }
            other => {
                return Err(ColumnsError::ColumnType {
                    name: name.to_owned(),
                    found: other.to_string(),
                    expected: "binary or string (also large, view, fixed size or dictionary)",
                });
            }
        })
    }

    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Binary(array) => array.is_valid(row).then(|| array.value(row)),
            Self::LargeBinary(array) => array.is_valid(row).then(|| array.value(row)),
            Self::View(array) => array.is_valid(row).then(|| array.value(row)),
            Self::FixedSize(array) => array.is_valid(row).then(|| array.value(row)),
            Self::Dictionary {
                keys,
                nulls,
                values,
            } => {
                if nulls.is_valid(row) {
                    values.get(keys[row])
                } else {
                    None
                }
            }
            Self::Null => None,
        }
    }

    pub(crate) fn is_all_null(&self) -> bool {
        match self {
            Self::Binary(array) => array.null_count() == array.len(),
            Self::LargeBinary(array) => array.null_count() == array.len(),
            Self::View(array) => array.null_count() == array.len(),
            Self::FixedSize(array) => array.null_count() == array.len(),
            Self::Dictionary { nulls, .. } => nulls.null_count() == nulls.len(),
            Self::Null => true,
        }
    }
}

/// A column of record headers: lists of `struct<key, value>`, or a map.
#[derive(Debug)]
pub(crate) struct HeadersColumn {
    /// Start and end of each row's headers in the flattened columns.
    bounds: Bounds,
    rows: ArrayRef,
    items: ArrayRef,
    keys: ByteColumn,
    values: ByteColumn,
}

#[derive(Debug)]
enum Bounds {
    Short(arrow_buffer::OffsetBuffer<i32>),
    Long(arrow_buffer::OffsetBuffer<i64>),
}

impl HeadersColumn {
    pub(crate) fn new(array: &ArrayRef) -> Result<Self, ColumnsError> {
        let wrong = || ColumnsError::ColumnType {
            name: "headers".to_owned(),
            found: array.data_type().to_string(),
            expected: "list<struct<key: string, value: binary>> (also large_list or map)",
        };
        let (bounds, items) = match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                (
                    Bounds::Short(list.offsets().clone()),
                    ArrayRef::clone(list.values()),
                )
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                (
                    Bounds::Long(list.offsets().clone()),
                    ArrayRef::clone(list.values()),
                )
            }
            DataType::Map(_, _) => {
                let map = array.as_map();
                let entries: ArrayRef = std::sync::Arc::new(map.entries().clone());
                (Bounds::Short(map.offsets().clone()), entries)
            }
            _ => return Err(wrong()),
        };
        let pairs = items.as_struct_opt().ok_or_else(wrong)?;
        let part = |index: usize, name: &str| {
            // A map's entries are identified by position, whatever their names are.
            let column = match array.data_type() {
                DataType::Map(_, _) => pairs.columns().get(index),
                _ => pairs.column_by_name(name),
            };
            ByteColumn::new("headers", column.ok_or_else(wrong)?)
        };
        let (keys, values) = (part(0, "key")?, part(1, "value")?);
        Ok(Self {
            bounds,
            rows: ArrayRef::clone(array),
            keys,
            values,
            items,
        })
    }

    fn range(&self, row: usize) -> std::ops::Range<usize> {
        match &self.bounds {
            Bounds::Short(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
            Bounds::Long(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
        }
    }

    /// Returns the headers of a row. There are none if the row is null.
    pub(crate) fn get(&self, row: usize) -> impl ExactSizeIterator<Item = (&[u8], Option<&[u8]>)> {
        let range = if self.rows.is_valid(row) {
            self.range(row)
        } else {
            0..0
        };
        range.map(|index| {
            (
                self.keys.get(index).unwrap_or_default(),
                self.values.get(index),
            )
        })
    }

    /// Checks once for the whole column that every header has a key.
    pub(crate) fn check(&self) -> Result<(), ColumnsError> {
        for row in (0..self.rows.len()).filter(|row| self.rows.is_valid(*row)) {
            for index in self.range(row) {
                if self.items.is_null(index) || self.keys.get(index).is_none() {
                    let reason = "a header has no key".to_owned();
                    return Err(ColumnsError::Row {
                        row,
                        name: "headers",
                        reason,
                    });
                }
            }
        }
        Ok(())
    }
}

/// Converts an integer column of any width to `i32`. A value that does not fit is an error.
pub(crate) fn partitions(array: &ArrayRef) -> Result<PrimitiveArray<Int32Type>, ColumnsError> {
    match array.data_type() {
        DataType::Int8 => partitions_of::<Int8Type>(array),
        DataType::Int16 => partitions_of::<Int16Type>(array),
        DataType::Int32 => Ok(array.as_primitive::<Int32Type>().clone()),
        DataType::Int64 => partitions_of::<Int64Type>(array),
        DataType::UInt8 => partitions_of::<UInt8Type>(array),
        DataType::UInt16 => partitions_of::<UInt16Type>(array),
        DataType::UInt32 => partitions_of::<UInt32Type>(array),
        DataType::UInt64 => partitions_of::<UInt64Type>(array),
        DataType::Null => Ok(PrimitiveArray::new_null(array.len())),
        other => Err(ColumnsError::ColumnType {
            name: "partition".to_owned(),
            found: other.to_string(),
            expected: "an integer type",
        }),
    }
}

fn partitions_of<T>(array: &ArrayRef) -> Result<PrimitiveArray<Int32Type>, ColumnsError>
where
    T: ArrowPrimitiveType<Native: TryInto<i32> + Display>,
{
    convert(array.as_primitive::<T>(), |value| {
        let reason = || format!("{value} is out of range: a partition has 32 bits");
        value.try_into().map_err(|_| ("partition", reason()))
    })
}

/// Converts each value that is not null. An error names the row.
fn convert<T: ArrowPrimitiveType, O: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    convert: impl Fn(T::Native) -> Result<O::Native, (&'static str, String)>,
) -> Result<PrimitiveArray<O>, ColumnsError> {
    let mut row = 0;
    let converted: Result<PrimitiveArray<O>, _> = array
        .iter()
        .enumerate()
        .map(|(index, value)| {
            row = index;
            value.map(&convert).transpose()
        })
        .collect();
    converted.map_err(|(name, reason)| ColumnsError::Row { row, name, reason })
}

/// Converts timestamps of any unit, or integers, to milliseconds since the Unix epoch.
///
/// Without a time zone, times count as UTC. Parts of a millisecond are cut off.
pub(crate) fn timestamps_ms(array: &ArrayRef) -> Result<PrimitiveArray<Int64Type>, ColumnsError> {
    let DataType::Timestamp(unit, _) = array.data_type() else {
        return match array.data_type() {
            DataType::Int64 => Ok(array.as_primitive::<Int64Type>().clone()),
            DataType::Null => Ok(PrimitiveArray::new_null(array.len())),
            other => Err(ColumnsError::ColumnType {
                name: "timestamp".to_owned(),
                found: other.to_string(),
                expected: "timestamp of any unit, or int64 milliseconds",
            }),
        };
    };
    // The same numbers, without their unit.
    let data = array.to_data().into_builder().data_type(DataType::Int64);
    let times = PrimitiveArray::<Int64Type>::from(data.build()?);
    match unit {
        TimeUnit::Second => convert(&times, |time| {
            let reason = || format!("{time} s is out of range: milliseconds have 64 bits");
            time.checked_mul(1_000)
                .ok_or_else(|| ("timestamp", reason()))
        }),
        TimeUnit::Millisecond => Ok(times),
        TimeUnit::Microsecond => Ok(times.unary(|time| time / 1_000)),
        TimeUnit::Nanosecond => Ok(times.unary(|time| time / 1_000_000)),
    }
}
