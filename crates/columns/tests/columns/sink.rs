//! From records to columns: values, nulls, limits, projection, memory.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use thalweg_columns::{ArrowSink, ColumnsError, Layout, TableLimits};

use crate::support::{Row, UNLIMITED, batch, feed, pool, sink};

fn rows() -> Vec<Row> {
    vec![
        Row {
            timestamp: 1000,
            key: Some(b"k".to_vec()),
            value: Some(b"first".to_vec()),
            ..Row::default()
        },
        Row {
            timestamp: 2000,
            value: Some(Vec::new()),
            ..Row::default()
        },
        Row {
            timestamp: 3000,
            key: Some(Vec::new()),
            headers: vec![
                (b"a".to_vec(), Some(b"1".to_vec())),
                (b"a".to_vec(), None),
                (b"\xff".to_vec(), Some(Vec::new())),
            ],
            ..Row::default()
        },
    ]
}

#[test]
fn every_column_holds_what_the_record_said() {
    let mut sink = sink(Layout::poll(), UNLIMITED);
    assert_eq!(feed(&mut sink, "orders", 3, &batch(100, &rows())), 3);
    assert_eq!(feed(&mut sink, "other", 4, &batch(0, &rows()[..1])), 1);
    let table = sink.take().expect("a valid table");
    assert_eq!(table.num_rows(), 4);

    let topic = table.column(0).as_string::<i32>();
    assert_eq!(
        topic.iter().flatten().collect::<Vec<_>>(),
        ["orders", "orders", "orders", "other"]
    );
    assert_eq!(
        table.column(1).as_primitive::<Int32Type>().values(),
        &[3, 3, 3, 4]
    );
    assert_eq!(
        table.column(2).as_primitive::<Int64Type>().values(),
        &[100, 101, 102, 0]
    );
    let times = table.column(3).as_primitive::<TimestampMillisecondType>();
    assert_eq!(times.values(), &[1000, 2000, 3000, 1000]);
    assert_eq!(
        table.column(4).as_primitive::<Int32Type>().values(),
        &[0, 0, 0, 0]
    );
    assert_eq!(
        table.column(5).as_primitive::<Int32Type>().values(),
        &[7, 7, 7, 7]
    );

    let keys: Vec<_> = table.column(6).as_binary::<i32>().iter().collect();
    assert_eq!(keys, [Some(&b"k"[..]), None, Some(b""), Some(b"k")]);
    let values: Vec<_> = table.column(7).as_binary::<i32>().iter().collect();
    assert_eq!(
        values,
        [Some(&b"first"[..]), Some(b""), None, Some(b"first")]
    );

    let headers = table.column(8).as_list::<i32>();
    assert!(
        headers.is_null(0) && headers.is_null(1) && headers.is_null(3),
        "null, not empty"
    );
    let pairs = headers.value(2);
    let pairs = pairs.as_struct();
    let names: Vec<_> = pairs
        .column(0)
        .as_string::<i32>()
        .iter()
        .flatten()
        .map(str::to_owned)
        .collect();
    assert_eq!(
        names,
        ["a", "a", "\u{fffd}"],
        "in order, doubles kept, broken text replaced"
    );
    let contents: Vec<_> = pairs.column(1).as_binary::<i32>().iter().collect();
    assert_eq!(contents, [Some(&b"1"[..]), None, Some(b"")]);
}

#[test]
fn an_empty_table_has_the_same_schema() {
    for layout in [Layout::poll(), Layout::spark(true), Layout::spark(false)] {
        let mut empty = sink(layout.clone(), UNLIMITED);
        let table = empty.take().expect("a valid table");
        assert_eq!(
            (table.num_rows(), table.schema()),
            (0, Arc::clone(layout.schema()))
        );
        feed(&mut empty, "t", 0, &batch(0, &rows()));
        assert_eq!(
            empty.take().expect("a valid table").schema(),
            *layout.schema()
        );
    }
}

/// The schema that pyspark's `to_arrow_schema(schema, timezone="UTC")` returns for the connector.
#[test]
fn the_spark_schema_is_the_one_that_spark_compares_with() {
    let header = DataType::Struct(
        vec![
            Field::new("key", DataType::Utf8, true),
            Field::new("value", DataType::Binary, true),
        ]
        .into(),
    );
    let expected = Schema::new(vec![
        Field::new("key", DataType::Binary, true),
        Field::new("value", DataType::Binary, true),
        Field::new("topic", DataType::Utf8, true),
        Field::new("partition", DataType::Int32, true),
        Field::new("offset", DataType::Int64, true),
        Field::new(
            "timestamp",
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            true,
        ),
        Field::new("timestampType", DataType::Int32, true),
        Field::new(
            "headers",
            DataType::List(Arc::new(Field::new("element", header, true))),
            true,
        ),
    ]);
    assert_eq!(**Layout::spark(true).schema(), expected);
}

#[test]
fn spark_times_are_microseconds_and_an_impossible_one_stops_before_it() {
    let mut sink = sink(Layout::spark(false), UNLIMITED);
    let mut rows = rows();
    rows[2].timestamp = i64::MAX / 10;
    assert_eq!(feed(&mut sink, "t", 0, &batch(5, &rows)), 2);
    let failure = sink.take_failure().expect("it says why");
    assert!(
        matches!(failure, ColumnsError::MalformedTimestamp { offset: 7, .. }),
        "{failure}"
    );
    let table = sink.take().expect("the rows before it");
    let times = table.column(5).as_primitive::<TimestampMicrosecondType>();
    assert_eq!(times.values(), &[1_000_000, 2_000_000]);
    // A layout without the column does not read it.
    let layout = Layout::spark(false).project(&["offset", "value"]);
    let mut projected = self::sink(layout.expect("it has these columns"), UNLIMITED);
    assert_eq!(feed(&mut projected, "t", 0, &batch(5, &rows)), rows.len());
    assert!(projected.take_failure().is_none());
    let table = projected.take().expect("two columns");
    assert_eq!((table.num_columns(), table.num_rows()), (2, rows.len()));
}

#[test]
fn a_table_is_full_at_its_rows_or_bytes_and_one_record_may_exceed_them() {
    let big: Vec<Row> = (0..10)
        .map(|_| Row {
            value: Some(vec![1; 1000]),
            ..Row::default()
        })
        .collect();
    let limited = |rows_max, bytes_max| TableLimits {
        rows_max,
        bytes_max,
    };
    let by_rows = feed(
        &mut sink(Layout::poll(), limited(4, usize::MAX)),
        "t",
        0,
        &batch(0, &big),
    );
    assert_eq!(by_rows, 4);
    let mut by_bytes = sink(Layout::poll(), limited(usize::MAX, 3500));
    assert_eq!(feed(&mut by_bytes, "t", 0, &batch(0, &big)), 3);
    assert!(by_bytes.bytes() <= 3500);
    assert_eq!(
        feed(
            &mut sink(Layout::poll(), limited(9, 10)),
            "t",
            0,
            &batch(0, &big)
        ),
        1
    );
    // The sink counts the bytes that the columns use.
    let counted = by_bytes.bytes();
    let table = by_bytes.take().expect("a valid table");
    let taken = table.get_array_memory_size();
    assert!(
        counted >= 3000 && counted <= taken,
        "{counted} counted, {taken} taken"
    );
}

#[test]
fn limits_stay_below_what_arrow_offsets_can_tell() {
    assert!(thalweg_columns::TABLE_BYTES_MAX * 3 < i32::MAX as usize);
    assert!(thalweg_columns::TABLE_ROWS_MAX * 249 < i32::MAX as usize);
}

#[test]
fn only_the_columns_asked_for_are_made() {
    let layout = Layout::spark(true)
        .project(&["offset", "headers"])
        .expect("both exist");
    let mut projected = sink(layout, UNLIMITED);
    feed(&mut projected, "t", 0, &batch(0, &rows()));
    let bytes = projected.bytes();
    let table = projected.take().expect("a valid table");
    assert_eq!(table.num_columns(), 2);
    assert!(bytes < 100, "values are not even counted: {bytes}");
    let none: [&str; 0] = [];
    let mut counting = sink(
        Layout::poll().project(&none).expect("nothing is fine"),
        UNLIMITED,
    );
    feed(&mut counting, "t", 0, &batch(0, &rows()));
    assert_eq!(
        counting.take().expect("a valid table").num_rows(),
        3,
        "the count-only path"
    );
}

#[test]
fn memory_is_used_again_once_the_table_is_gone() {
    let pool = pool();
    let mut sink = ArrowSink::new(Layout::poll(), UNLIMITED, Arc::clone(&pool));
    let many: Vec<Row> = (0..2000)
        .map(|_| Row {
            value: Some(vec![1; 100]),
            ..Row::default()
        })
        .collect();
    let many = batch(0, &many);
    let table = |sink: &mut ArrowSink| -> RecordBatch {
        feed(sink, "t", 0, &many);
        sink.take().expect("a valid table")
    };
    let address = |table: &RecordBatch| table.column(7).as_binary::<i32>().value_data().as_ptr();
    let kept = table(&mut sink);
    let first = table(&mut sink);
    let (of_kept, of_first) = (address(&kept), address(&first));
    let slice = first.slice(10, 5);
    drop(first);
    let second = table(&mut sink);
    assert_ne!(address(&second), of_first, "a slice still holds it");
    drop((slice, second));
    // Two sets of buffers are idle now. Each table reuses them without new memory.
    let idle = pool.idle_bytes();
    for _ in 0..10 {
        drop(table(&mut sink));
        assert_eq!(pool.idle_bytes(), idle, "nothing grows");
    }
    assert_eq!(address(&kept), of_kept);
    assert_eq!(kept.column(7).as_binary::<i32>().value(1999), [1; 100]);
}
