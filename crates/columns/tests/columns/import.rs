//! Imports of Arrow data from outside: malformed data is refused, and never makes the importer read
//! outside.

use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::Int8Type;
use arrow_array::*;
use arrow_buffer::{Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, Fields};
use thalweg_columns::{
    ArrayExport, ColumnsError, export_array, export_stream, import_array, import_stream,
};

/// The structs of the C interface, to be corrupted.
#[repr(C)]
#[allow(dead_code, reason = "the layout needs each field")]
struct RawSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut Self,
    dictionary: *mut Self,
    release: Option<unsafe extern "C" fn(*mut Self)>,
    private_data: *mut c_void,
}

#[repr(C)]
#[allow(dead_code, reason = "the layout needs each field")]
struct RawArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Self,
    dictionary: *mut Self,
    release: Option<unsafe extern "C" fn(*mut Self)>,
    private_data: *mut c_void,
}

impl RawArray {
    fn child(&mut self, at: usize) -> &mut Self {
        // SAFETY: these are the exporter's own children.
        unsafe { &mut **self.children.add(at) }
    }

    fn set_buffer(&mut self, at: usize, to: *const c_void) {
        // SAFETY: this is the exporter's own list.
        unsafe { *self.buffers.add(at) = to };
    }
}

/// Returns a list of null children. The exporter still needs its own list.
fn nulls<T>() -> *mut *mut T {
    vec![null_mut(); 7].leak().as_mut_ptr()
}

/// Returns one column of each layout: bytes 0, large 1, views 2, dictionary 3, list 4, numbers 5,
/// nulls 6.
fn table() -> RecordBatch {
    let text = vec![Some("a"), None, Some("something that is not inline")];
    let mut lists = ListBuilder::new(StringBuilder::new());
    for item in &text {
        lists.values().append_option(*item);
        lists.append(true);
    }
    let dictionary: DictionaryArray<Int8Type> = text.iter().copied().collect();
    let columns: [(&str, ArrayRef); 7] = [
        ("bytes", Arc::new(StringArray::from(text.clone()))),
        ("large", Arc::new(LargeStringArray::from(text.clone()))),
        ("views", Arc::new(StringViewArray::from(text.clone()))),
        ("dictionary", Arc::new(dictionary)),
        ("list", Arc::new(lists.finish())),
        (
            "numbers",
            Arc::new(Int32Array::from(vec![Some(1), None, Some(3)])),
        ),
        ("nulls", Arc::new(NullArray::new(3))),
    ];
    let columns = columns.map(|(name, array)| (name, array, true));
    RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
}

fn import(mut exported: ArrayExport) -> Result<RecordBatch, ColumnsError> {
    // SAFETY: this test owns the structs and nothing else uses them. Their pointers are valid or
    // null.
    let found = unsafe { import_array(&raw const exported.schema, &raw mut exported.array) };
    // The exporter would free the names that it finds, even corrupted ones.
    std::mem::forget(exported.schema);
    found
}

fn import_spoiled(
    spoil: impl Fn(&mut RawSchema, &mut RawArray),
) -> Result<RecordBatch, ColumnsError> {
    let mut exported = export_array(&table()).expect("a struct array");
    let schema = (&raw mut exported.schema).cast::<RawSchema>();
    let array = (&raw mut exported.array).cast::<RawArray>();
    // SAFETY: these are the same structs, field by field.
    unsafe { spoil(&mut *schema, &mut *array) };
    import(exported)
}

#[test]
fn what_is_well_formed_is_imported() {
    assert_eq!(
        import_spoiled(|_, _| {}).expect("nothing is wrong"),
        table()
    );
    let sliced = export_array(&table().slice(1, 2)).expect("a struct array");
    assert_eq!(import(sliced).expect("a slice"), table().slice(1, 2));
    // Its columns still have the offsets of the slice.
    let empty = export_array(&table().slice(2, 0)).expect("a struct array");
    assert_eq!(import(empty).expect("no rows").num_rows(), 0);
}

#[test]
fn a_count_that_cannot_be_right_is_refused() {
    type Spoil = fn(&mut RawSchema, &mut RawArray);
    let cases: &[(&str, Spoil)] = &[
        ("length", |_, a| a.length = -1),
        ("length beyond the children's", |_, a| a.length = 4),
        ("offset", |_, a| a.offset = -1),
        ("offset that overflows", |_, a| a.offset = i64::MAX),
        ("children", |_, a| a.n_children = -1),
        ("fewer children", |_, a| a.n_children = 1),
        ("more children", |_, a| a.n_children = 8),
        ("no list of children", |_, a| a.children = null_mut()),
        ("null child", |_, a| a.children = nulls()),
        ("no buffers", |_, a| a.n_buffers = 0),
        ("dictionary of a struct", |_, a| a.dictionary = a.child(0)),
        ("length of bytes", |_, a| a.child(0).length = -3),
        ("rows of bytes", |_, a| a.child(0).length = 1 << 62),
        ("too few bytes' rows", |_, a| a.child(0).length = 2),
        ("buffers of bytes", |_, a| a.child(0).n_buffers = 2),
        ("negative buffers", |_, a| a.child(0).n_buffers = -1),
        ("no list of buffers", |_, a| a.child(0).buffers = null_mut()),
        ("no offsets", |_, a| a.child(0).set_buffer(1, null())),
        ("no data", |_, a| a.child(0).set_buffer(2, null())),
        ("no long offsets", |_, a| a.child(1).set_buffer(1, null())),
        ("no bitmap for nulls", |_, a| {
            a.child(0).set_buffer(0, null());
        }),
        ("count of nulls", |_, a| a.child(0).null_count = 3),
        ("buffers of views", |_, a| a.child(2).n_buffers = 2),
        ("no views", |_, a| a.child(2).set_buffer(1, null())),
        ("no lengths of views", |_, a| {
            a.child(2).set_buffer(3, null());
        }),
        ("no dictionary", |_, a| a.child(3).dictionary = null_mut()),
        ("dictionary's length", |_, a| unsafe {
            (*a.child(3).dictionary).length = 0;
        }),
        ("no items", |_, a| a.child(4).n_children = 0),
        ("too few items", |_, a| a.child(4).child(0).length = 1),
        ("no list offsets", |_, a| a.child(4).set_buffer(1, null())),
        ("no numbers", |_, a| a.child(5).set_buffer(1, null())),
        ("buffers of nulls", |_, a| a.child(6).n_buffers = -5),
        ("schema's children", |s, _| s.n_children = -1),
        ("no list of schemas", |s, _| s.children = null_mut()),
        ("fewer schemas", |s, _| s.n_children = 2),
        ("null schema", |s, _| s.children = nulls()),
        ("no format", |s, _| s.format = null()),
        ("no such format", |s, _| s.format = c"?".as_ptr()),
        ("format in another encoding", |s, _| {
            s.format = c"\xff".as_ptr();
        }),
        ("name in another encoding", |s, _| unsafe {
            (**s.children).name = c"\xff".as_ptr();
        }),
        ("list of nothing", |s, _| unsafe {
            (**s.children.add(4)).n_children = 0;
        }),
        ("map of text", |s, _| unsafe {
            (**s.children.add(4)).format = c"+m".as_ptr();
        }),
        ("union", |s, _| unsafe {
            (**s.children).format = c"+us:".as_ptr();
        }),
        ("negative width", |s, _| unsafe {
            (**s.children).format = c"w:-4".as_ptr();
        }),
    ];
    for (name, spoil) in cases {
        let found = import_spoiled(spoil);
        assert!(found.is_err(), "{name}: {found:?}");
    }
}

#[test]
fn what_is_released_is_refused() {
    let released = |what| Err(ColumnsError::Released { what });
    assert_eq!(import_spoiled(|_, a| a.release = None), released("array"));
    assert_eq!(
        import_spoiled(|_, a| a.child(1).release = None),
        released("array")
    );
    assert_eq!(import_spoiled(|s, _| s.release = None), released("schema"));
    let (schema, array) = (FFI_ArrowSchema::empty(), FFI_ArrowArray::empty());
    assert_eq!(import(ArrayExport { schema, array }), released("schema"));
    let mut exported = export_array(&table()).expect("a struct array");
    // SAFETY: this test owns the structs, and null is allowed.
    unsafe {
        assert_eq!(
            import_array(null(), &raw mut exported.array),
            released("schema")
        );
        assert_eq!(
            import_array(&raw const exported.schema, null_mut()),
            released("array")
        );
        assert!(import_array(&raw const exported.schema, &raw mut exported.array).is_ok());
        let again = import_array(&raw const exported.schema, &raw mut exported.array);
        assert_eq!(again, released("array"));
    }
}

#[test]
fn a_stream_is_read_once() {
    let mut stream = export_stream(table().schema(), vec![table()]);
    // SAFETY: this test owns the stream, nothing else uses it, and null is allowed.
    unsafe {
        let batches: Result<Vec<_>, _> = import_stream(&raw mut stream).expect("ours").collect();
        assert_eq!(batches.expect("whole"), [table()]);
        let released = ColumnsError::Released { what: "stream" };
        assert_eq!(import_stream(&raw mut stream).expect_err("read"), released);
        assert_eq!(import_stream(null_mut()).expect_err("null"), released);
        let mut empty = FFI_ArrowArrayStream::empty();
        assert_eq!(import_stream(&raw mut empty).expect_err("empty"), released);
    }
}

/// Exports a column of unchecked data.
fn spoiled(data_type: DataType, buffers: Vec<Buffer>, children: Vec<ArrayData>) -> ArrayExport {
    let column = ArrayData::builder(data_type.clone())
        .len(2)
        .buffers(buffers)
        .child_data(children);
    // SAFETY: only the importer reads it.
    let column = unsafe { column.build_unchecked() };
    let fields = Fields::from(vec![Field::new("value", data_type, true)]);
    let table = ArrayData::builder(DataType::Struct(fields.clone()))
        .len(2)
        .child_data(vec![column]);
    // SAFETY: only the importer reads it.
    let table = unsafe { table.build_unchecked() };
    ArrayExport {
        schema: FFI_ArrowSchema::try_from(&DataType::Struct(fields)).expect("a schema"),
        array: FFI_ArrowArray::new(&table),
    }
}

#[test]
fn what_lies_in_buffers_is_checked_too() {
    let bytes = || Buffer::from_slice_ref(b"abcdef");
    let short = |offsets: [i32; 3]| vec![Buffer::from_slice_ref(offsets), bytes()];
    let long = |offsets: [i64; 3]| vec![Buffer::from_slice_ref(offsets), bytes()];
    assert!(import(spoiled(DataType::Utf8, short([0, 3, 6]), vec![])).is_ok());
    for offsets in [[0, 5, 3], [-1, 2, 6], [0, -5, 6], [0, 3, -1]] {
        let found = import(spoiled(DataType::Binary, short(offsets), vec![]));
        assert!(found.is_err(), "{offsets:?}");
        let offsets = offsets.map(i64::from);
        let found = import(spoiled(DataType::LargeBinary, long(offsets), vec![]));
        assert!(found.is_err(), "{offsets:?}");
    }
    let not_text = vec![
        Buffer::from_slice_ref([0_i32, 1, 2]),
        Buffer::from_slice_ref(b"\xff\xfe"),
    ];
    assert!(import(spoiled(DataType::Utf8, not_text, vec![])).is_err());
    // A view of 100 bytes at position 0 of the first buffer, of which there is none.
    let view = 100_u128;
    let views = vec![Buffer::from_slice_ref([view, view])];
    assert!(import(spoiled(DataType::BinaryView, views, vec![])).is_err());
    let values = StringArray::from(vec!["a"]).to_data();
    let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let key = |key: i8| vec![Buffer::from_slice_ref([0, key])];
    assert!(import(spoiled(dictionary.clone(), key(0), vec![values.clone()])).is_ok());
    for at in [-1, 1, 127] {
        assert!(
            import(spoiled(dictionary.clone(), key(at), vec![values.clone()])).is_err(),
            "{at}"
        );
    }
    let list = DataType::List(Arc::new(Field::new("item", DataType::Utf8, true)));
    let ends = vec![Buffer::from_slice_ref([0_i32, 1, 9])];
    assert!(import(spoiled(list, ends, vec![values])).is_err());
}

#[test]
fn a_row_that_is_null_as_a_whole_is_refused_in_a_stream_as_well() {
    let fields = Fields::from(vec![Field::new("value", DataType::Utf8, true)]);
    let values: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let nulls = NullBuffer::from(vec![true, false]);
    let rows = StructArray::new(fields.clone(), vec![values], Some(nulls));
    let schema = FFI_ArrowSchema::try_from(&DataType::Struct(fields)).expect("a schema");
    let array = FFI_ArrowArray::new(&rows.to_data());
    assert_eq!(
        import(ArrayExport { schema, array }),
        Err(ColumnsError::NullRow { row: 1 })
    );
}

#[test]
fn an_array_that_is_no_table_is_refused() {
    let numbers = Int32Array::from(vec![1, 2]);
    let schema = FFI_ArrowSchema::try_from(numbers.data_type()).expect("a schema");
    let array = FFI_ArrowArray::new(&numbers.to_data());
    let found = import(ArrayExport { schema, array });
    assert!(
        matches!(found, Err(ColumnsError::NoTable { .. })),
        "{found:?}"
    );
}

#[test]
fn types_that_lie_too_deep_are_refused() {
    let nested = |depth| {
        let list = |item, _| DataType::List(Arc::new(Field::new("item", item, true)));
        let items = (0..depth).fold(DataType::Utf8, list);
        let fields = Fields::from(vec![Field::new("value", items, true)]);
        let rows = RecordBatch::new_empty(Arc::new(arrow_schema::Schema::new(fields)));
        import(export_array(&rows).expect("a struct array"))
    };
    assert!(nested(20).is_ok());
    // Deeper types would exhaust the stack of Arrow's own code that builds this array.
    let found = nested(40);
    assert!(
        matches!(found, Err(ColumnsError::Malformed { .. })),
        "{found:?}"
    );
}
