//! Writes batches of every codec and kind into a folder, each with a text of its content, for other
//! clients to decode: `cargo run -p thalweg-records --example write_golden -- DIR`.

#[path = "../tests/support/text.rs"]
mod text;

use std::path::Path;
use std::{env, fs, io};

use thalweg_records::control::{EndTransactionMarker, end_transaction_batch};
use thalweg_records::{
    Attributes, BatchBuilder, BatchHeader, Compression, Compressor, HeaderRef, RecordFields,
    batch_header, record,
};

const T0: i64 = 1_700_000_000_000;
/// Small, so that records, codec blocks and chunks end at different positions.
const CHUNK_BYTES: usize = 1000;
const LEVELS: [(Compression, i32); 9] = [
    (Compression::Gzip, 1),
    (Compression::Gzip, 9),
    (Compression::Lz4, 1),
    (Compression::Lz4, 12),
    (Compression::Lz4, 17),
    (Compression::Zstd, -7),
    (Compression::Zstd, 1),
    (Compression::Zstd, 12),
    (Compression::Zstd, 22),
];

fn main() -> io::Result<()> {
    let folder = env::args().nth(1).expect("usage: write_golden DIR");
    let folder = Path::new(&folder);
    fs::create_dir_all(folder)?;
    for (name, wire) in files() {
        fs::write(folder.join(&name).with_extension("bin"), &wire)?;
        fs::write(folder.join(&name).with_extension("txt"), text::dump(&wire))?;
    }
    Ok(())
}

fn files() -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for codec in Compression::ALL {
        let wire = from_chunks(codec, None, BatchHeader::default());
        files.push((format!("{codec}-chunks"), wire));
        files.push((format!("{codec}-one-piece"), from_builder(codec)));
    }
    for (codec, level) in LEVELS {
        let wire = from_chunks(codec, Some(level), BatchHeader::default());
        files.push((format!("{codec}-level-{level}"), wire));
    }
    let producer = BatchHeader {
        base_offset: i64::from(u32::MAX),
        partition_leader_epoch: 12,
        producer_id: i64::MAX,
        producer_epoch: i16::MAX,
        base_sequence: i32::MAX,
        attributes: Attributes::default().with_transactional(true),
        ..BatchHeader::default()
    };
    files.push((
        "transactional".to_owned(),
        from_chunks(Compression::Lz4, None, producer),
    ));
    let mut appended = from_builder(Compression::Snappy);
    batch_header::set_base_offset_and_epoch(&mut appended, 5000, 3);
    batch_header::set_log_append_time(&mut appended, T0 + 99);
    files.push(("log-append-time".to_owned(), appended));
    files.push((
        "markers".to_owned(),
        [marker(true, 10), marker(false, 11)].concat(),
    ));
    files.push((
        "empty".to_owned(),
        BatchHeader {
            last_offset_delta: 9,
            ..producer
        }
        .finish([])
        .to_vec(),
    ));
    files.push(("stored".to_owned(), incompressible()));
    files
}

/// Timestamp, key, value, and whether the record has headers.
type Entry = (i64, Option<Vec<u8>>, Option<Vec<u8>>, bool);

fn entries() -> Vec<Entry> {
    let mut out = vec![
        (T0, None, Some(Vec::new()), false),
        (T0 + 1, Some(b"key-1".to_vec()), None, false),
        (T0 + 64, Some(Vec::new()), Some(b"value-2".to_vec()), true),
        (
            T0 - 5_000,
            Some(vec![0xff, 0xfe, 0]),
            Some((0..=255).collect()),
            false,
        ),
        (T0 + (1 << 33), None, None, false),
        (
            T0 + 2,
            Some(vec![b'k'; 70]),
            Some(b"nine thousand ".repeat(9)),
            false,
        ),
    ];
    let line = |index: usize| {
        format!(
            "the river bed where the water runs deepest, line {}\n",
            index % 31
        )
    };
    let lines: String = (0..3000).map(line).collect();
    out.push((
        T0 + 3,
        Some(b"large".to_vec()),
        Some(lines.into_bytes()),
        false,
    ));
    for index in 0..200 {
        let value = format!("small value {index}").into_bytes();
        out.push((
            T0 + index,
            Some(vec![b'k', index as u8]),
            Some(value),
            index % 50 == 0,
        ));
    }
    out
}

fn headers(on: bool) -> Vec<HeaderRef<'static>> {
    let all = [
        HeaderRef {
            key: b"a",
            value: Some(b"1"),
        },
        HeaderRef {
            key: b"b",
            value: None,
        },
        HeaderRef {
            key: b"a",
            value: Some(b"2"),
        },
        HeaderRef {
            key: b"",
            value: Some(b""),
        },
        HeaderRef {
            key: "ключ".as_bytes(),
            value: Some(b"\xff\x00"),
        },
    ];
    if on { all.to_vec() } else { Vec::new() }
}

fn from_builder(codec: Compression) -> Vec<u8> {
    let mut builder = BatchBuilder::new(100);
    for (timestamp, key, value, has_headers) in entries() {
        builder.append(
            timestamp,
            key.as_deref(),
            value.as_deref(),
            &headers(has_headers)[..],
        );
    }
    builder
        .finish_compressed(&mut Compressor::new(), codec, None)
        .expect("no level is given")
}

/// Builds a batch as the producer does: records in chunks, compressed across the chunks, then the
/// header.
fn from_chunks(codec: Compression, level: Option<i32>, header: BatchHeader) -> Vec<u8> {
    let mut records = Vec::new();
    let entries = entries();
    for (index, (timestamp, key, value, has_headers)) in entries.iter().enumerate() {
        let headers = headers(*has_headers);
        let fields = RecordFields {
            offset_delta: index as i32,
            timestamp_delta: timestamp - T0,
            key: key.as_deref(),
            value: value.as_deref(),
            headers: headers[..].into(),
        };
        record::encode(&fields, &mut records);
    }
    let chunks: Vec<_> = records.chunks(CHUNK_BYTES).collect();
    let mut section = Vec::new();
    Compressor::new()
        .compress(codec, level, &chunks, &mut section)
        .expect("a level in range");
    let mut header = BatchHeader {
        attributes: header.attributes.with_compression(codec),
        last_offset_delta: entries.len() as i32 - 1,
        base_timestamp: T0,
        max_timestamp: T0 + (1 << 33),
        records_count: entries.len() as i32,
        ..header
    };
    let mut wire = header.finish(section.chunks(CHUNK_BYTES)).to_vec();
    wire.extend_from_slice(&section);
    wire
}

fn marker(commit: bool, base_offset: i64) -> Vec<u8> {
    let marker = EndTransactionMarker {
        commit,
        coordinator_epoch: 17,
        producer_id: 4711,
        producer_epoch: 3,
        timestamp: T0,
    };
    end_transaction_batch(&marker, base_offset, 4)
}

fn incompressible() -> Vec<u8> {
    let mut state = 42_u32;
    let mut value = Vec::new();
    for _ in 0..70_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        value.push((state >> 24) as u8);
    }
    let mut builder = BatchBuilder::new(0);
    builder.append(T0, None, Some(&value), &[][..]);
    builder
        .finish_compressed(&mut Compressor::new(), Compression::Lz4, None)
        .expect("no level")
}
