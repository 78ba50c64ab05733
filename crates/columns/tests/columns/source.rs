//! From Arrow columns to records: every accepted type, and every refusal.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, ListBuilder, MapBuilder, StringBuilder, StructBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int8Type;
use arrow_array::*;
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Schema};
use proptest::prelude::*;
use thalweg_columns::{ArrowSource, ColumnsError, Layout, export_stream, import_stream};
use thalweg_producer::RecordSource;
use thalweg_records::Headers;

use crate::support::{Row, UNLIMITED, batch, feed, sink};

const NOW_MS: i64 = 1_700_000_000_000;

fn source(columns: Vec<(&str, ArrayRef)>) -> Result<ArrowSource, ColumnsError> {
    let table = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .expect("a table");
    ArrowSource::new(&table.schema(), std::slice::from_ref(&table), NOW_MS)
}

type Read = (Option<i32>, i64, Option<Vec<u8>>, Option<Vec<u8>>);

fn read(source: &mut ArrowSource) -> Vec<Read> {
    (0..source.rows())
        .map(|row| {
            let record = source.record(row);
            let own = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
            (
                record.partition,
                record.timestamp_ms,
                own(record.key),
                own(record.value),
            )
        })
        .collect()
}

fn headers(source: &mut ArrowSource, row: usize) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    match source.record(row).headers {
        Headers::List(list) => list
            .iter()
            .map(|h| (h.key.to_vec(), h.value.map(<[u8]>::to_vec)))
            .collect(),
        Headers::Raw(raw) => raw
            .iter()
            .map(|h| (h.key.to_vec(), h.value.map(<[u8]>::to_vec)))
            .collect(),
    }
}

fn values(array: ArrayRef) -> Vec<Option<Vec<u8>>> {
    let mut source = source(vec![("value", array)]).expect("a type that is taken");
    read(&mut source)
        .into_iter()
        .map(|(.., value)| value)
        .collect()
}

#[test]
fn one_partition_for_all_rows_stands_for_their_column() {
    let value = || -> ArrayRef { Arc::new(BinaryArray::from_iter([Some(b"a"), Some(b"b")])) };
    let column: ArrayRef = Arc::new(Int32Array::from(vec![Some(7), None]));
    for columns in [
        vec![("value", value())],
        vec![("value", value()), ("partition", column)],
    ] {
        let mut source = source(columns).expect("sendable").to_partition(2);
        assert!(!source.is_keyless());
        let partitions = read(&mut source).into_iter().map(|row| row.0);
        assert_eq!(partitions.collect::<Vec<_>>(), [Some(2), Some(2)]);
    }
}

#[test]
fn every_kind_of_bytes_and_text_is_taken() {
    let rows = [
        Some("ab"),
        None,
        Some(""),
        Some("a longer text that no view holds inline"),
    ];
    let bytes: Vec<Option<&[u8]>> = rows.iter().map(|r| r.map(str::as_bytes)).collect();
    let expected: Vec<Option<Vec<u8>>> = bytes.iter().map(|r| r.map(<[u8]>::to_vec)).collect();
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter(rows)),
        Arc::new(LargeStringArray::from_iter(rows)),
        Arc::new(StringViewArray::from_iter(rows)),
        Arc::new(BinaryArray::from_iter(bytes.clone())),
        Arc::new(LargeBinaryArray::from_iter(bytes.clone())),
        Arc::new(BinaryViewArray::from_iter(bytes.clone())),
        Arc::new(rows.into_iter().collect::<DictionaryArray<Int8Type>>()),
    ];
    for array in arrays {
        let kind = array.data_type().clone();
        assert_eq!(values(Arc::clone(&array)), expected, "{kind}");
        let twice = arrow_select_concat(&array);
        assert_eq!(
            values(twice.slice(3, 3)),
            expected_slice(&expected),
            "{kind}, sliced"
        );
    }
    let fixed = FixedSizeBinaryArray::try_from_iter([[1_u8, 2], [3, 4]].into_iter()).expect("two");
    assert_eq!(
        values(Arc::new(fixed)),
        [Some(vec![1, 2]), Some(vec![3, 4])]
    );
    assert_eq!(values(Arc::new(NullArray::new(2))), [None, None]);
}

/// Concatenates the array with itself, so that a slice can begin in the middle.
fn arrow_select_concat(array: &ArrayRef) -> ArrayRef {
    let data = array.to_data();
    let mut both = arrow_data::transform::MutableArrayData::new(vec![&data], true, 8);
    for _ in 0..2 {
        both.try_extend(0, 0, array.len()).expect("room for both");
    }
    make_array(both.freeze())
}

fn expected_slice(rows: &[Option<Vec<u8>>]) -> Vec<Option<Vec<u8>>> {
    [&rows[3..], &rows[..2]].concat()
}

#[test]
fn a_dictionary_without_values_is_all_null() {
    let empty: DictionaryArray<Int8Type> = [None::<&str>, None].into_iter().collect();
    assert_eq!(values(Arc::new(empty)), [None, None]);
}

#[test]
fn partitions_of_any_width_and_times_of_any_unit_are_taken() {
    let value: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let partitions: Vec<ArrayRef> = vec![
        Arc::new(Int8Array::from(vec![Some(3), None])),
        Arc::new(UInt16Array::from(vec![Some(3), None])),
        Arc::new(Int32Array::from(vec![Some(3), None])),
        Arc::new(Int64Array::from(vec![Some(3), None])),
        Arc::new(UInt64Array::from(vec![Some(3), None])),
    ];
    for partition in partitions {
        let mut source = source(vec![
            ("value", Arc::clone(&value)),
            ("partition", partition),
        ])
        .expect("taken");
        assert!(!source.is_keyless());
        let read = read(&mut source);
        assert_eq!((read[0].0, read[1].0), (Some(3), None));
    }
    let times: Vec<ArrayRef> = vec![
        Arc::new(TimestampSecondArray::from(vec![Some(5), None]).with_timezone("+02:00")),
        Arc::new(TimestampMillisecondArray::from(vec![Some(5_000), None])),
        Arc::new(TimestampMicrosecondArray::from(vec![Some(5_000_999), None]).with_timezone("UTC")),
        Arc::new(TimestampNanosecondArray::from(vec![
            Some(5_000_999_999),
            None,
        ])),
        Arc::new(Int64Array::from(vec![Some(5_000), None])),
    ];
    for time in times {
        let kind = time.data_type().clone();
        let mut source =
            source(vec![("value", Arc::clone(&value)), ("timestamp", time)]).expect("taken");
        let read = read(&mut source);
        assert_eq!(
            (read[0].1, read[1].1),
            (5_000, NOW_MS),
            "{kind}: null means now"
        );
    }
}

#[test]
fn numbers_that_do_not_fit_are_refused_with_their_row() {
    let value: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    let wrong: Vec<(&str, ArrayRef, &str)> = vec![
        (
            "partition",
            Arc::new(Int64Array::from(vec![None, Some(1), Some(1 << 31)])),
            "row 2: column \"partition\": 2147483648 is out of range: a partition has 32 bits",
        ),
        (
            "partition",
            Arc::new(UInt64Array::from(vec![
                None,
                Some(u64::MAX),
                Some(u64::MAX),
            ])),
            "row 1: column \"partition\": 18446744073709551615 is out of range: \
             a partition has 32 bits",
        ),
        (
            "timestamp",
            Arc::new(TimestampSecondArray::from(vec![
                Some(0),
                None,
                Some(i64::MIN),
            ])),
            "row 2: column \"timestamp\": -9223372036854775808 s is out of range: \
             milliseconds have 64 bits",
        ),
    ];
    for (name, column, text) in wrong {
        let refused = source(vec![("value", Arc::clone(&value)), (name, column)]);
        assert_eq!(refused.expect_err("out of range").to_string(), text);
    }
}

fn header_list() -> ListArray {
    let fields = vec![
        Field::new("key", DataType::Utf8, true),
        Field::new("value", DataType::Binary, true),
    ];
    let pairs = StructBuilder::from_fields(fields, 4);
    let mut lists = ListBuilder::new(pairs);
    for (key, value) in [("a", Some(&b"1"[..])), ("a", None)] {
        push_pair(lists.values(), key, value);
    }
    lists.append(true);
    lists.append(false);
    lists.append(true);
    push_pair(lists.values(), "z", Some(b""));
    lists.append(true);
    lists.finish()
}

fn push_pair(pairs: &mut StructBuilder, key: &str, value: Option<&[u8]>) {
    pairs
        .field_builder::<StringBuilder>(0)
        .expect("text")
        .append_value(key);
    pairs
        .field_builder::<BinaryBuilder>(1)
        .expect("bytes")
        .append_option(value);
    pairs.append(true);
}

/// Returns the same lists with offsets of 64 bits.
fn wider(list: &ListArray) -> LargeListArray {
    let DataType::List(item) = list.data_type() else {
        panic!("{}", list.data_type());
    };
    let offsets = list.offsets().iter().map(|offset| i64::from(*offset));
    LargeListArray::new(
        Arc::clone(item),
        OffsetBuffer::new(offsets.collect()),
        Arc::clone(list.values()),
        list.nulls().cloned(),
    )
}

#[test]
fn headers_come_as_lists_or_maps() {
    let value: ArrayRef = Arc::new(StringArray::from(vec!["r0", "r1", "r2", "r3"]));
    let list: ArrayRef = Arc::new(header_list());
    let large: ArrayRef = Arc::new(wider(list.as_list::<i32>()));
    let mut maps = MapBuilder::new(None, StringBuilder::new(), BinaryBuilder::new());
    for row in [
        vec![("a", Some("1")), ("a", None)],
        vec![],
        vec![],
        vec![("z", Some(""))],
    ] {
        for (key, value) in row {
            maps.keys().append_value(key);
            maps.values().append_option(value);
        }
        maps.append(true).expect("as many keys as values");
    }
    for column in [list, large, Arc::new(maps.finish()) as ArrayRef] {
        let kind = column.data_type().clone();
        let mut source =
            source(vec![("value", Arc::clone(&value)), ("headers", column)]).expect("taken");
        let a = (b"a".to_vec(), Some(b"1".to_vec()));
        assert_eq!(
            headers(&mut source, 0),
            [a, (b"a".to_vec(), None)],
            "{kind}"
        );
        assert!(headers(&mut source, 1).is_empty() && headers(&mut source, 2).is_empty());
        assert_eq!(headers(&mut source, 3), [(b"z".to_vec(), Some(Vec::new()))]);
    }
}

#[test]
fn refusals_name_the_column() {
    let text = |rows: Vec<&str>| -> ArrayRef { Arc::new(StringArray::from(rows)) };
    let refused = |columns| source(columns).expect_err("refused").to_string();
    let unknown = refused(vec![("value", text(vec!["a"])), ("vlaue", text(vec!["a"]))]);
    assert!(
        unknown.contains("vlaue") && unknown.contains("headers"),
        "{unknown}"
    );
    assert!(refused(vec![("key", text(vec!["a"]))]).contains("value"));
    let number: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let kind = refused(vec![("value", Arc::clone(&number))]);
    assert!(kind.contains("value") && kind.contains("Int64"), "{kind}");
    let a = || ("value", text(vec!["a", "b"]));
    let negative: ArrayRef = Arc::new(Int32Array::from(vec![0, -1]));
    assert!(refused(vec![a(), ("partition", negative)]).contains("row 1"));
    let wide: ArrayRef = Arc::new(Int64Array::from(vec![0, 1 << 40]));
    refused(vec![a(), ("partition", wide)]);
    let early: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![0, -5]));
    assert!(refused(vec![a(), ("timestamp", early)]).contains("timestamp"));
    assert!(refused(vec![a(), ("timestamp", text(vec!["x", "y"]))]).contains("timestamp"));
    assert!(refused(vec![a(), ("headers", text(vec!["x", "y"]))]).contains("headers"));
    let twice = Schema::new(vec![
        Field::new("value", DataType::Utf8, true),
        Field::new("value", DataType::Utf8, true),
    ]);
    let error = ArrowSource::new(&twice, &[], NOW_MS).expect_err("which one?");
    assert!(matches!(error, ColumnsError::DuplicateColumn { .. }));
}

#[test]
fn what_was_polled_can_be_sent() {
    let rows: Vec<Row> = (0..100)
        .map(|i| Row {
            timestamp: 1_000 + i,
            key: (i % 3 == 0).then(|| vec![i as u8]),
            value: (i % 5 != 0).then(|| vec![i as u8; i as usize]),
            headers: vec![(b"h".to_vec(), (i % 2 == 0).then(|| vec![i as u8])); (i % 4) as usize],
        })
        .collect();
    let mut sink = sink(Layout::poll(), UNLIMITED);
    feed(&mut sink, "t", 2, &batch(0, &rows));
    let table = sink.take().expect("a valid table");
    // Through the C interface, in three chunks and an empty one.
    let chunks = vec![
        table.slice(0, 33),
        table.slice(33, 0),
        table.slice(33, 60),
        table.slice(93, 7),
    ];
    let mut stream = export_stream(table.schema(), chunks);
    // SAFETY: this test owns the stream. It is valid, and nothing else uses it.
    let reader = unsafe { import_stream(&raw mut stream) }.expect("our own stream");
    let mut source = ArrowSource::read(reader, NOW_MS).expect("columns that can be sent");
    assert_eq!(source.rows(), 100);
    // Rows can be read in any order: forwards and backwards.
    for row in (0..100).chain((0..100).rev()) {
        let expected = &rows[row];
        let record = source.record(row);
        assert_eq!(record.partition, Some(2));
        assert_eq!(record.timestamp_ms, expected.timestamp);
        assert_eq!(record.key, expected.key.as_deref());
        assert_eq!(record.value, expected.value.as_deref());
        assert_eq!(headers(&mut source, row), expected.headers);
    }
}

#[test]
fn a_stream_may_be_exported_any_number_of_times() {
    let mut sink = sink(Layout::poll(), UNLIMITED);
    feed(
        &mut sink,
        "t",
        0,
        &batch(
            0,
            &[Row {
                value: Some(vec![1]),
                ..Row::default()
            }],
        ),
    );
    let table = sink.take().expect("a valid table");
    for _ in 0..3 {
        let mut stream = export_stream(table.schema(), vec![table.clone()]);
        // SAFETY: this test owns the stream. It is valid, and nothing else uses it.
        let reader = unsafe { import_stream(&raw mut stream) }.expect("our own stream");
        assert_eq!(reader.schema(), table.schema());
        let batches: Vec<_> = reader.map(|b| b.expect("whole")).collect();
        assert_eq!(batches, std::slice::from_ref(&table));
    }
    let exported = thalweg_columns::export_array(&table).expect("a struct array");
    assert_eq!(exported.array.len(), 1);
    assert_eq!(exported.schema.children().count(), 9);
}

fn row() -> impl Strategy<Value = Row> {
    let bytes = || prop::option::of(prop::collection::vec(any::<u8>(), 0..40));
    let header = ("[a-z]{0,4}", bytes()).prop_map(|(key, value)| (key.into_bytes(), value));
    (
        0..1_i64 << 41,
        bytes(),
        bytes(),
        prop::collection::vec(header, 0..3),
    )
        .prop_map(|(timestamp, key, value, headers)| Row {
            timestamp,
            key,
            value,
            headers,
        })
}

proptest! {
    #[test]
    fn columns_hold_every_record_as_it_was(rows in prop::collection::vec(row(), 0..60), cut in 0..60_usize) {
        let mut sink = sink(Layout::poll(), UNLIMITED);
        feed(&mut sink, "t", 1, &batch(10, &rows));
        let table = sink.take().expect("a valid table");
        let cut = cut.min(rows.len());
        let chunks = [table.slice(0, cut), table.slice(cut, rows.len() - cut)];
        let mut source = ArrowSource::new(&table.schema(), &chunks, NOW_MS).expect("sendable");
        prop_assert_eq!(source.rows(), rows.len());
        for (index, row) in rows.iter().enumerate() {
            let record = source.record(index);
            prop_assert_eq!(record.timestamp_ms, row.timestamp);
            prop_assert_eq!(record.key, row.key.as_deref());
            prop_assert_eq!(record.value, row.value.as_deref());
            prop_assert_eq!(headers(&mut source, index), row.headers.clone());
        }
    }
}
