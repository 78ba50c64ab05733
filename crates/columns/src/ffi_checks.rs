//! Checks what Arrow's importer assumes about C structs, before it reads them.
//!
//! ```text
//! ArrowSchema ─ check_schema ─▶ DataType ─┐
//! ArrowArray ─────────────────────────────┴─ check_array ─▶ arrow's importer ─▶ validate_full
//! ```
//! The importer reads the last offset of a column, the lengths of its buffers, and its children. A
//! wrong count makes it panic or read outside. This module refuses what is wrong in the structs.
//! `ArrayData::validate_full` checks the contents of the buffers (offsets, keys of dictionaries,
//! text).
//!
//! No code can check whether a pointer points to as much memory as the struct says.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_void};

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_data::layout;
use arrow_schema::DataType;

use crate::error::ColumnsError;

/// Limit of types within types. Tables of this crate have three levels.
const DEPTH_MAX: usize = 32;
/// Far below the number that overflows when multiplied by the width of an element.
const ROWS_MAX: i64 = 1 << 48;

/// The struct of Arrow's C data interface. The importer keeps its fields private.
#[repr(C)]
struct CSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *const *const Self,
    dictionary: *const Self,
    release: Option<unsafe extern "C" fn(*mut FFI_ArrowSchema)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct CArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *const *const c_void,
    children: *const *const Self,
    dictionary: *const Self,
    release: Option<unsafe extern "C" fn(*mut FFI_ArrowArray)>,
    private_data: *mut c_void,
}

const _: () = assert!(size_of::<CSchema>() == size_of::<FFI_ArrowSchema>());
const _: () = assert!(size_of::<CArray>() == size_of::<FFI_ArrowArray>());

fn malformed(reason: impl Into<String>) -> ColumnsError {
    ColumnsError::Malformed {
        reason: reason.into(),
    }
}

/// Checks a schema and returns the type that it describes.
pub(crate) fn check_schema(schema: &FFI_ArrowSchema) -> Result<DataType, ColumnsError> {
    // SAFETY: both types are the C interface's struct, field by field.
    let fields = unsafe { &*std::ptr::from_ref(schema).cast::<CSchema>() };
    look_at_schema(fields, 0)?;
    Ok(DataType::try_from(schema)?)
}

fn look_at_schema(schema: &CSchema, depth: usize) -> Result<(), ColumnsError> {
    if schema.release.is_none() {
        return Err(ColumnsError::Released { what: "schema" });
    }
    if depth > DEPTH_MAX {
        return Err(malformed(format!(
            "types are nested {depth} levels deep, which is too deep"
        )));
    }
    let format = text(schema.format)?.ok_or_else(|| malformed("a schema has no format"))?;
    text(schema.name)?;
    let children = entries(schema.children, schema.n_children, "children of a schema")?;
    let children_min = match format.as_bytes() {
        b"+s" => 0,
        b"+r" => 2,
        [b'+', kind, ..] if *kind != b'u' => 1,
        _ => 0,
    };
    if children.len() < children_min {
        return Err(malformed(format!(
            "a schema of format {format:?} has too few children"
        )));
    }
    for child in children.iter().copied().chain([schema.dictionary]) {
        // SAFETY: by the C interface it is null, or a schema that lives as long as this one.
        if let Some(child) = unsafe { child.as_ref() } {
            look_at_schema(child, depth + 1)?;
        }
    }
    if children.iter().any(|child| child.is_null()) {
        return Err(malformed("a child of a schema is null"));
    }
    Ok(())
}

/// Reads a C string. Returns `None` for a null pointer.
fn text<'a>(pointer: *const c_char) -> Result<Option<&'a str>, ColumnsError> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: by the C interface it is a null-terminated string that lives as long as its schema.
    let text = unsafe { CStr::from_ptr(pointer) }.to_str();
    text.map(Some)
        .map_err(|_| malformed("a format or a name in a schema is not UTF-8"))
}

/// Returns a counted list of pointers.
fn entries<'a, T>(list: *const T, count: i64, what: &str) -> Result<&'a [T], ColumnsError> {
    match usize::try_from(count) {
        Err(_) => Err(malformed(format!("the number of {what} is {count}"))),
        Ok(0) => Ok(&[]),
        Ok(_) if list.is_null() || !list.is_aligned() => Err(malformed(format!(
            "the pointer to the list of {count} {what} is null or not aligned"
        ))),
        // SAFETY: by the C interface the list has `count` entries and lives as long as the struct.
        Ok(count) => Ok(unsafe { std::slice::from_raw_parts(list, count) }),
    }
}

/// Checks whether an array may be imported as this type.
pub(crate) fn check_array(
    data_type: &DataType,
    array: &FFI_ArrowArray,
) -> Result<(), ColumnsError> {
    // SAFETY: both types are the C interface's struct, field by field.
    let fields = unsafe { &*std::ptr::from_ref(array).cast::<CArray>() };
    look_at_array(data_type, fields)
}

/// Checks an array and its children. It recurses as deep as the type, whose depth is limited.
fn look_at_array(data_type: &DataType, array: &CArray) -> Result<(), ColumnsError> {
    if array.release.is_none() {
        return Err(ColumnsError::Released { what: "array" });
    }
    // This comes first, as `layout` panics for some types.
    let types = types_of_children(data_type)?;
    let rows = rows_of(array)?;
    check_buffers(data_type, array, rows)?;
    let children = entries(array.children, array.n_children, "children of an array")?;
    if types.len() != children.len() {
        let (wanted, found) = (types.len(), children.len());
        return Err(malformed(format!(
            "an array of {data_type} must have {wanted} children, but has {found}"
        )));
    }
    for (child_type, &child) in types.into_iter().zip(children) {
        // SAFETY: by the C interface it is null, or an array that lives as long as this one.
        let child = unsafe { child.as_ref() };
        look_at_array(
            child_type,
            child.ok_or_else(|| malformed("a child of an array is null"))?,
        )?;
    }
    // SAFETY: by the C interface it is null, or an array that lives as long as this one.
    match (data_type, unsafe { array.dictionary.as_ref() }) {
        (DataType::Dictionary(_, values), Some(dictionary)) => look_at_array(values, dictionary),
        (DataType::Dictionary(_, _), None) => Err(malformed("a dictionary has no values")),
        (_, None) => Ok(()),
        (_, Some(_)) => Err(malformed(format!(
            "an array of {data_type} must not have a dictionary"
        ))),
    }
}

/// Returns the number of rows in the buffers, including those before the array's offset.
fn rows_of(array: &CArray) -> Result<usize, ColumnsError> {
    let (length, offset) = (array.length, array.offset);
    let limited = |count: i64| (0..=ROWS_MAX).contains(&count);
    if !limited(length) || !limited(offset) {
        let text = format!("the length {length} or the offset {offset} of an array is wrong");
        return Err(malformed(text));
    }
    Ok((length + offset) as usize)
}

fn types_of_children(data_type: &DataType) -> Result<Vec<&DataType>, ColumnsError> {
    Ok(match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, 0..) => {
            vec![item.data_type()]
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) if pair.len() == 2 => vec![entries.data_type()],
            other => {
                return Err(malformed(format!(
                    "the entries of a map are {other}, not pairs"
                )));
            }
        },
        DataType::FixedSizeBinary(..0)
        | DataType::FixedSizeList(..)
        | DataType::Union(..)
        | DataType::RunEndEncoded(..)
        | DataType::ListView(_)
        | DataType::LargeListView(_) => {
            return Err(ColumnsError::UnreadableType {
                found: data_type.to_string(),
            });
        }
        _ => Vec::new(),
    })
}

fn check_buffers(data_type: &DataType, array: &CArray, rows: usize) -> Result<(), ColumnsError> {
    let buffers = entries(array.buffers, array.n_buffers, "buffers")?;
    let expected = layout(data_type);
    let nulls = usize::from(expected.can_contain_null_mask);
    let fixed = nulls + expected.buffers.len();
    let enough = if expected.variadic {
        // The last buffer has the lengths of the variadic buffers.
        buffers.len() > fixed
    } else {
        buffers.len() == fixed
    };
    if !enough {
        let found = buffers.len();
        return Err(malformed(format!(
            "an array of {data_type} needs {fixed} buffers, but has {found}"
        )));
    }
    if nulls == 1 && buffers[0].is_null() && array.null_count > 0 {
        let nulls = array.null_count;
        return Err(malformed(format!(
            "an array has {nulls} nulls, but no validity buffer"
        )));
    }
    match data_type {
        DataType::Utf8 | DataType::Binary => check_last_offset::<i32>(buffers[1], array, rows),
        DataType::LargeUtf8 | DataType::LargeBinary => {
            check_last_offset::<i64>(buffers[1], array, rows)
        }
        _ if expected.variadic => {
            let (lengths, count) = (buffers[buffers.len() - 1], buffers.len() - fixed - 1);
            let lengths = entries(lengths.cast::<i64>(), count as i64, "lengths of buffers")?;
            match lengths.iter().find(|&&length| length < 0) {
                Some(length) => Err(malformed(format!("the length of a buffer is {length}"))),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Checks the last offset, which the importer uses as the length of the data.
fn check_last_offset<T: Copy + PartialOrd + Default>(
    offsets: *const c_void,
    array: &CArray,
    rows: usize,
) -> Result<(), ColumnsError> {
    if array.length == 0 && array.offset == 0 {
        return Ok(());
    }
    let offsets = entries(offsets.cast::<T>(), rows as i64 + 1, "offsets")?;
    if offsets[rows] < T::default() {
        return Err(malformed("an offset is negative"));
    }
    Ok(())
}
