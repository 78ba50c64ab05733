//! Bytes that no correct client writes: each is an error with its position, and never a panic.

#[path = "support/seeds.rs"]
mod seeds;

use bytes::Bytes;
use proptest::prelude::*;
use thalweg_records::record::{self, RecordFields};
use thalweg_records::{
    Attributes, BatchBuilder, BatchHeader, Compression, Compressor, DecodedBatch, Decompressor,
    HeaderRef, RecordProblem, RecordsError, batches, crc32c,
};

const LIMIT_BYTES: usize = 1 << 20;

/// Returns a batch with this records section and a correct checksum.
fn wire(section: &[u8], header: BatchHeader) -> Vec<u8> {
    let mut header = header;
    let mut out = header.finish([section]).to_vec();
    out.extend_from_slice(section);
    out
}

fn decode(wire: Vec<u8>) -> Result<DecodedBatch, RecordsError> {
    let raw = batches(Bytes::from(wire)).next().expect("a batch")?;
    raw.validate_crc()?;
    raw.decode(&mut Decompressor::new(), LIMIT_BYTES)
}

/// Returns the error of a batch at offset 500 with this section and count.
fn problem(section: &[u8], records_count: i32) -> (i64, RecordProblem) {
    let header = BatchHeader {
        base_offset: 500,
        records_count,
        ..BatchHeader::default()
    };
    let batch = decode(wire(section, header)).expect("the batch itself is sound");
    let error = batch.validate().expect_err("a record is malformed");
    assert!(error.to_string().contains("offset 500"), "{error}");
    assert!(
        batch.iter().filter(Result::is_err).count() == 1,
        "an error ends the walk"
    );
    (error.offset(), error.problem)
}

fn sound(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    record::encode(
        &RecordFields {
            value: Some(value),
            ..RecordFields::default()
        },
        &mut out,
    );
    out
}

#[test]
fn a_record_whose_length_disagrees_with_its_content_is_named_by_its_offset() {
    let first = sound(b"fine");
    // Length 8, attributes, two deltas, no key, value of 1, no headers: one byte too many.
    let longer = [&first[..], &[16, 0, 0, 0, 1, 2, b'x', 0, 0]].concat();
    assert_eq!(problem(&longer, 2), (501, RecordProblem::Underrun));
    let shorter = [&first[..], &[10, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0]].concat();
    assert_eq!(problem(&shorter, 2), (501, RecordProblem::Overrun));
    let cut_in_its_fields = [&first[..], &[6, 0, 0, 0, 1, 1, 0]].concat();
    assert_eq!(problem(&cut_in_its_fields, 2), (501, RecordProblem::Varint));
    let value_overruns = [&first[..], &[12, 0, 0, 0, 1, 40, b'x']].concat();
    assert_eq!(problem(&value_overruns, 2), (501, RecordProblem::Overrun));
    let beyond_the_batch = [&first[..], &[60, 0, 0, 0, 1, 1, 0]].concat();
    assert_eq!(problem(&beyond_the_batch, 2), (501, RecordProblem::Length));
    let negative = [&first[..], &[3, 0, 0, 0, 1, 1, 0]].concat();
    assert_eq!(problem(&negative, 2), (501, RecordProblem::Length));
    let before_the_batch = [&first[..], &[12, 0, 0, 1, 1, 1, 0]].concat();
    assert_eq!(
        problem(&before_the_batch, 2),
        (501, RecordProblem::OffsetDelta)
    );
    let endless_varint = [&first[..], &[0xff; 7]].concat();
    assert_eq!(problem(&endless_varint, 2), (501, RecordProblem::Varint));
}

/// A count allocates nothing before it is known that the bytes can hold it. Scenario 10.
#[test]
fn a_count_of_headers_that_the_record_cannot_hold_is_refused() {
    let record = |count: [u8; 5], rest: &[u8]| {
        let body_len = 5 + count.len() + rest.len();
        [&[(body_len * 2) as u8, 0, 0, 0, 1, 1], &count[..], rest].concat()
    };
    let huge = [0xfe, 0xff, 0xff, 0xff, 0x0f];
    assert_eq!(
        problem(&record(huge, &[]), 1),
        (500, RecordProblem::HeaderCount)
    );
    let negative = [0xff, 0xff, 0xff, 0xff, 0x0f];
    assert_eq!(
        problem(&record(negative, &[]), 1),
        (500, RecordProblem::HeaderCount)
    );
    let one = [0x82, 0x80, 0x80, 0x80, 0];
    assert_eq!(
        problem(&record(one, &[1, 1]), 1),
        (500, RecordProblem::HeaderKey)
    );
    assert_eq!(
        problem(&record(one, &[2, b'k']), 1),
        (500, RecordProblem::Varint)
    );
    assert_eq!(
        problem(&record(one, &[2, b'k', 1, 9]), 1),
        (500, RecordProblem::Underrun)
    );
}

/// The number of records is checked in the same way: negative, too many, too few. Scenario 10.
#[test]
fn a_count_of_records_that_lies_is_refused() {
    let section = sound(b"value").repeat(3);
    assert_eq!(problem(&section, 2), (502, RecordProblem::TrailingBytes));
    assert_eq!(problem(&section, 4), (503, RecordProblem::Missing));
    for records_count in [-1, i32::MIN, i32::MAX, 1000] {
        let header = BatchHeader {
            records_count,
            ..BatchHeader::default()
        };
        let error = decode(wire(&section, header)).unwrap_err();
        let section_bytes = section.len();
        let count = records_count;
        assert_eq!(
            error,
            RecordsError::RecordsCount {
                base_offset: 0,
                count,
                section_bytes
            }
        );
    }
}

#[test]
fn a_batch_without_records_still_has_its_offsets() {
    for attributes in [0, 1, 2, 3, 4] {
        let mut header = BatchHeader {
            base_offset: 2000,
            last_offset_delta: 99,
            attributes: Attributes(attributes),
            ..BatchHeader::default()
        };
        let batch = decode(header.finish([]).to_vec()).unwrap();
        assert!(batch.is_empty());
        assert_eq!(
            (
                batch.iter().count(),
                batch.last_offset(),
                batch.next_offset()
            ),
            (0, 2099, 2100)
        );
    }
}

#[test]
fn a_flipped_bit_anywhere_under_the_checksum_is_found() {
    let mut builder = BatchBuilder::new(7);
    builder.append(
        1,
        Some(b"key"),
        Some(b"value"),
        &[HeaderRef {
            key: b"h",
            value: None,
        }][..],
    );
    let sound = builder.finish();
    for at in 17..sound.len() {
        let mut broken = sound.clone();
        broken[at] ^= 0x10;
        let raw = batches(Bytes::from(broken)).next().unwrap().unwrap();
        let error = raw.validate_crc().unwrap_err();
        assert!(
            matches!(error, RecordsError::Crc { base_offset: 7, .. }),
            "{at}: {error}"
        );
        assert!(error.to_string().contains("offset 7"));
    }
}

#[test]
fn lengths_and_magics_that_cannot_be_end_the_walk_with_an_error() {
    let sound = BatchBuilder::new(7).finish();
    let with = |at: usize, bytes: &[u8]| {
        let mut out = sound.clone();
        out[at..at + bytes.len()].copy_from_slice(bytes);
        let mut iter = batches(Bytes::from(out));
        let first = iter.next();
        assert!(iter.next().is_none());
        first
    };
    for length in [-1, 0, 48, i32::MIN] {
        let error = with(8, &length.to_be_bytes()).unwrap().unwrap_err();
        assert_eq!(
            error,
            RecordsError::BatchLength {
                base_offset: 7,
                length,
                length_min: 49
            }
        );
    }
    assert!(
        with(8, &i32::MAX.to_be_bytes()).is_none(),
        "longer than the response: cut off there"
    );
    for magic in [3_i8, -1, 127, -128] {
        let error = with(16, &[magic.cast_unsigned()]).unwrap().unwrap_err();
        assert_eq!(
            error,
            RecordsError::Magic {
                base_offset: 7,
                magic
            }
        );
    }
    let error = decode(wire(
        b"",
        BatchHeader {
            attributes: Attributes(5),
            ..BatchHeader::default()
        },
    ));
    assert_eq!(
        error.unwrap_err(),
        RecordsError::CompressionId {
            base_offset: 0,
            id: 5,
            magic: 2
        }
    );
}

#[test]
fn extreme_offsets_timestamps_and_sequences_do_not_overflow() {
    let mut builder = BatchBuilder::with_header(BatchHeader {
        base_offset: i64::MAX,
        base_timestamp: i64::MAX,
        base_sequence: i32::MAX,
        producer_id: 1,
        ..BatchHeader::default()
    });
    for timestamp_delta in [i64::MAX, i64::MIN, 0] {
        let fields = RecordFields {
            offset_delta: i32::MAX,
            timestamp_delta,
            ..RecordFields::default()
        };
        builder.append_fields(&fields);
    }
    let batch = decode(builder.finish()).unwrap();
    assert_eq!(batch.iter().flatten().count(), 3);
    assert_eq!(
        batch.last_offset(),
        i64::MAX.wrapping_add(i64::from(i32::MAX))
    );
    assert_eq!(
        batch.header.last_sequence(),
        i32::MAX - 1,
        "sequences wrap to 0, not below"
    );
}

// --- message sets ---

fn message(magic: u8, offset: i64, attributes: u8, value: Option<&[u8]>) -> Vec<u8> {
    let mut body = vec![magic, attributes];
    if magic == 1 {
        body.extend_from_slice(&9_i64.to_be_bytes());
    }
    body.extend_from_slice(&(-1_i32).to_be_bytes());
    body.extend_from_slice(&value.map_or(-1, |value| value.len() as i32).to_be_bytes());
    body.extend_from_slice(value.unwrap_or_default());
    let mut out = offset.to_be_bytes().to_vec();
    out.extend_from_slice(&(body.len() as i32 + 4).to_be_bytes());
    let mut crc = flate2::Crc::new();
    crc.update(&body);
    out.extend_from_slice(&crc.sum().to_be_bytes());
    out.extend_from_slice(&body);
    out
}

fn wrapper(magic: u8, codec: Compression, set: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    Compressor::new()
        .compress(codec, None, &[set], &mut packed)
        .unwrap();
    message(magic, 1000, codec.id(), Some(&packed))
}

fn broken_set(wire: Vec<u8>) -> String {
    match decode(wire).unwrap_err() {
        RecordsError::MessageSet {
            base_offset: 1000,
            reason,
        } => reason.to_owned(),
        other => panic!("not the expected error: {other}"),
    }
}

#[test]
fn message_sets_that_break_the_rules_of_nesting_are_refused() {
    let gzip = Compression::Gzip;
    for magic in [0, 1] {
        let plain = message(magic, 0, 0, Some(b"x"));
        let other = message(1 - magic, 0, 0, Some(b"x"));
        let again = wrapper(magic, gzip, &plain);
        let reason = |set: &[u8]| broken_set(wrapper(magic, gzip, set));
        assert_eq!(reason(&again), "an inner message is compressed again");
        assert_eq!(
            reason(&other),
            "an inner message has a different magic from its wrapper"
        );
        assert_eq!(reason(b""), "a compressed message contains no messages");
        assert_eq!(
            reason(&plain[..plain.len() - 1]),
            "an inner message is cut off"
        );
        assert_eq!(reason(&plain[..5]), "an inner message is cut off");
        assert_eq!(reason(&plain.repeat(2)), "inner offsets do not ascend");
        let null = message(magic, 1000, gzip.id(), None);
        assert_eq!(broken_set(null), "a compressed message has no value");
    }
}

#[test]
fn inner_offsets_are_relative_in_magic_1_and_absolute_in_magic_0() {
    for (magic, expected) in [(0, [3, 7]), (1, [996, 1000])] {
        let set = [
            message(magic, 3, 0, Some(b"a")),
            message(magic, 7, 0, Some(b"b")),
        ]
        .concat();
        for codec in &Compression::ALL[1..4] {
            let batch = decode(wrapper(magic, *codec, &set)).unwrap();
            let offsets: Vec<_> = batch.iter().map(|record| record.unwrap().offset).collect();
            assert_eq!(offsets, expected, "magic {magic}, {codec}");
            assert_eq!(batch.last_offset(), expected[1]);
        }
    }
}

#[test]
fn the_wrong_lz4_header_checksum_is_taken_in_magic_0_only() {
    // The golden frame of a client of that time. The checksum includes the frame's magic.
    let golden = include_bytes!("../../../tests/conformance/records/golden/java/v0-lz4.bin");
    let frame = golden
        .windows(4)
        .position(|four| four == [0x04, 0x22, 0x4d, 0x18])
        .unwrap();
    assert_ne!(
        golden[frame + 6],
        0x82,
        "the checksum of this header would be 0x82"
    );
    let batch = decode(golden.to_vec()).unwrap();
    assert_eq!(batch.validate().unwrap().records, 27);
    let set = message(1, 0, 0, Some(b"a"));
    let mut sound = Vec::new();
    Compressor::new()
        .compress(Compression::Lz4, None, &[&set], &mut sound)
        .unwrap();
    sound[6] = golden[frame + 6];
    let error = decode(message(1, 1000, Compression::Lz4.id(), Some(&sound))).unwrap_err();
    assert!(error.to_string().contains("lz4 header checksum"), "{error}");
}

#[test]
fn a_bomb_in_a_message_set_is_refused_at_the_limit() {
    for magic in [0, 1] {
        let set = message(magic, 0, 0, Some(&vec![0; 8 << 20]));
        for codec in &Compression::ALL[1..4] {
            let error = decode(wrapper(magic, *codec, &set)).unwrap_err();
            let limit_bytes = LIMIT_BYTES;
            let expected = RecordsError::TooLarge {
                base_offset: 1000,
                codec: *codec,
                limit_bytes,
            };
            assert_eq!(error, expected);
        }
    }
}

// --- anything ---

/// Walks everything that can be walked, with and without checking the checksum.
fn walk(data: &[u8]) {
    let mut decompressor = Decompressor::new();
    for raw in batches(Bytes::copy_from_slice(data)).flatten() {
        let _ = raw.validate_crc();
        let _ = (
            raw.last_offset(),
            raw.next_offset(),
            raw.header.last_sequence(),
        );
        let Ok(batch) = raw.decode(&mut decompressor, 100_000) else {
            continue;
        };
        assert!(batch.len() <= batch.records.len());
        let _ = batch.control_record();
        let mut seen = 0;
        for record in batch.iter().flatten() {
            seen += 1;
            assert_eq!(record.headers.iter().count(), record.headers.len());
        }
        assert!(seen <= batch.len());
    }
}

fn golden_files() -> Vec<Vec<u8>> {
    let root = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/conformance/records/golden"
    );
    let mut files = Vec::new();
    for writer in ["java", "kafka-python", "librdkafka"] {
        for entry in std::fs::read_dir(format!("{root}/{writer}")).expect("golden files are there")
        {
            let path = entry.expect("a folder entry").path();
            if path.extension().is_some_and(|extension| extension == "bin") {
                files.push(std::fs::read(path).expect("a readable file"));
            }
        }
    }
    files
}

#[test]
fn real_batches_cut_and_broken_everywhere_never_panic() {
    for file in golden_files() {
        let step = file.len() / 150 + 1;
        for at in (0..file.len()).step_by(step).chain(0..file.len().min(130)) {
            walk(&file[..at]);
            for with in [0x01, 0x80, 0xff] {
                let mut broken = file.clone();
                broken[at] ^= with;
                walk(&broken);
            }
        }
    }
}

proptest! {
    #![proptest_config(seeds::kept())]

    #[test]
    fn any_bytes_are_walked(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        walk(&bytes);
    }

    /// Random records after a valid header reach the walk, which random bytes rarely do.
    #[test]
    fn any_section_is_walked(
        section in prop::collection::vec(prop_oneof![any::<u8>(), 0..20_u8], 0..300),
        records_count in -2..50_i32,
        attributes in 0..5_i16,
    ) {
        let attributes = Attributes(attributes);
        let header = BatchHeader { records_count, attributes, ..BatchHeader::default() };
        let data = wire(&section, header);
        prop_assert_eq!(&crc32c([&data[21..]]).to_be_bytes()[..], &data[17..21]);
        walk(&data);
    }

    #[test]
    fn any_message_set_is_walked(
        set in prop::collection::vec(any::<u8>(), 0..200),
        magic in 0..2_u8,
        codec in 0..5_u8,
    ) {
        walk(&message(magic, 5, codec, Some(&set)));
        walk(&wrapper(magic, Compression::from_id(codec).unwrap(), &set));
    }
}
