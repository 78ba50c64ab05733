//! What is written is read back, for every codec and every division into chunks.

#[path = "support/seeds.rs"]
mod seeds;

use bytes::Bytes;
use proptest::prelude::*;
use thalweg_records::record::{self, RecordFields, RecordSink};
use thalweg_records::{
    Attributes, BatchBuilder, BatchHeader, Compression, Compressor, Crc32c, DecodedBatch,
    Decompressor, HeaderRef, TimestampType, batches, crc32c,
};

const LIMIT_BYTES: usize = 16 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Owned {
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Owned {
    fn with_headers<T>(&self, f: impl FnOnce(&[HeaderRef<'_>]) -> T) -> T {
        let headers: Vec<_> = self
            .headers
            .iter()
            .map(|(key, value)| HeaderRef {
                key,
                value: value.as_deref(),
            })
            .collect();
        f(&headers)
    }
}

fn nullable(len_max: usize) -> impl Strategy<Value = Option<Vec<u8>>> {
    prop_oneof![
        1 => Just(None),
        1 => Just(Some(Vec::new())),
        6 => prop::collection::vec(any::<u8>(), 0..len_max).prop_map(Some),
        // Compressible, and long enough for lengths of two and three bytes.
        2 => (any::<u8>(), 0..len_max * 40).prop_map(|(byte, len)| Some(vec![byte; len])),
    ]
}

fn records() -> impl Strategy<Value = Vec<Owned>> {
    let timestamp = prop_oneof![
        4 => 1_700_000_000_000..1_700_000_100_000_i64,
        1 => any::<i64>(),
        1 => Just(-1),
    ];
    let header = (prop::collection::vec(any::<u8>(), 0..8), nullable(12));
    let record = (
        timestamp,
        nullable(200),
        nullable(300),
        prop::collection::vec(header, 0..4),
    )
        .prop_map(|(timestamp, key, value, headers)| Owned {
            timestamp,
            key,
            value,
            headers,
        });
    prop::collection::vec(record, 1..40)
}

fn build(records: &[Owned], base_offset: i64) -> BatchBuilder {
    let mut builder = BatchBuilder::new(base_offset);
    for record in records {
        record.with_headers(|headers| {
            let (key, value) = (record.key.as_deref(), record.value.as_deref());
            builder.append(record.timestamp, key, value, headers);
        });
    }
    builder
}

fn decode_one(wire: Vec<u8>) -> DecodedBatch {
    let mut iter = batches(Bytes::from(wire));
    let raw = iter.next().expect("a batch").expect("a sound batch");
    assert!(iter.next().is_none());
    raw.validate_crc().expect("the checksum holds");
    raw.decode(&mut Decompressor::new(), LIMIT_BYTES)
        .expect("decodes")
}

fn read_back(batch: &DecodedBatch) -> Vec<Owned> {
    let mut out = Vec::new();
    for (index, record) in batch.iter().enumerate() {
        let record = record.expect("a sound record");
        assert_eq!(record.offset, batch.base_offset() + index as i64);
        out.push(Owned {
            timestamp: record.timestamp,
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
            headers: record
                .headers
                .iter()
                .map(|header| (header.key.to_vec(), header.value.map(<[u8]>::to_vec)))
                .collect(),
        });
    }
    out
}

/// A rope of chunks of a fixed size, like the producer's batches.
struct Rope {
    chunk_len: usize,
    chunks: Vec<Vec<u8>>,
    /// Whether records that fit into a chunk are written in one piece.
    contiguous: bool,
}

impl Rope {
    fn new(chunk_len: usize, contiguous: bool) -> Self {
        Self {
            chunk_len,
            chunks: vec![Vec::new()],
            contiguous,
        }
    }

    fn slices(&self) -> Vec<&[u8]> {
        self.chunks.iter().map(Vec::as_slice).collect()
    }
}

impl RecordSink for Rope {
    fn put(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let last = self.chunks.last_mut().expect("never empty");
            let (now, later) = bytes.split_at(bytes.len().min(self.chunk_len - last.len()));
            last.extend_from_slice(now);
            bytes = later;
            if last.len() == self.chunk_len {
                self.chunks.push(Vec::new());
            }
        }
    }

    fn contiguous(&mut self, len: usize) -> Option<&mut [u8]> {
        let last = self.chunks.last_mut().expect("never empty");
        if !self.contiguous || self.chunk_len - last.len() < len {
            return None;
        }
        let at = last.len();
        last.resize(at + len, 0);
        Some(&mut last[at..])
    }
}

proptest! {
    #![proptest_config(seeds::kept())]

    #[test]
    fn every_codec_gives_the_records_back(records in records(), base in 0..i64::MAX / 2) {
        let mut compressor = Compressor::new();
        for codec in Compression::ALL {
            let wire =
                build(&records, base).finish_compressed(&mut compressor, codec, None).unwrap();
            let batch = decode_one(wire);
            prop_assert_eq!(batch.header.attributes.compression(), Some(codec));
            prop_assert_eq!(batch.len(), records.len());
            prop_assert_eq!(batch.last_offset(), base + records.len() as i64 - 1);
            prop_assert_eq!(batch.next_offset(), base + records.len() as i64);
            prop_assert_eq!(read_back(&batch), records.clone());
        }
    }

    #[test]
    fn chunk_boundaries_anywhere_change_nothing(
        records in records(),
        chunk_len in 1..700_usize,
        contiguous in any::<bool>(),
    ) {
        let mut rope = Rope::new(chunk_len, contiguous);
        let mut flat = Vec::new();
        for (index, record) in records.iter().enumerate() {
            record.with_headers(|headers| {
                let fields = RecordFields {
                    offset_delta: index as i32,
                    timestamp_delta: record.timestamp.wrapping_sub(records[0].timestamp),
                    key: record.key.as_deref(),
                    value: record.value.as_deref(),
                    headers: headers.into(),
                };
                let before = flat.len();
                let total = record::encode(&fields, &mut rope);
                assert_eq!(total, record::encoded_len(&fields));
                assert_eq!(total, record::encode(&fields, &mut flat));
                assert_eq!(total, flat.len() - before);
            });
        }
        prop_assert_eq!(rope.slices().concat(), flat.clone());
        prop_assert_eq!(crc32c(rope.slices()), crc32c([&flat[..]]));

        // A batch from chunks decodes to the same records as one from a single piece, for every
        // codec.
        let mut compressor = Compressor::new();
        for codec in Compression::ALL {
            let mut from_chunks = Vec::new();
            let mut from_flat = Vec::new();
            compressor.compress(codec, None, &rope.slices(), &mut from_chunks).unwrap();
            compressor.compress(codec, None, &[&flat], &mut from_flat).unwrap();
            let limit_bytes = flat.len();
            let mut decompressor = Decompressor::new();
            let opened = decompressor.decompress(codec, &from_chunks, limit_bytes).unwrap();
            prop_assert_eq!(&opened[..], &flat[..]);
            let opened = decompressor.decompress(codec, &from_flat, limit_bytes).unwrap();
            prop_assert_eq!(&opened[..], &flat[..]);
        }
        let header = BatchHeader {
            records_count: records.len() as i32,
            last_offset_delta: records.len() as i32 - 1,
            base_timestamp: records[0].timestamp,
            ..BatchHeader::default()
        };
        let mut wire = header.clone().finish(rope.slices()).to_vec();
        wire.extend_from_slice(&flat);
        let whole = build(&records, 0).finish();
        prop_assert_eq!(read_back(&decode_one(wire)), read_back(&decode_one(whole)));
    }

    #[test]
    fn every_header_field_survives(
        base_offset in any::<i64>(), epoch in any::<i32>(), attributes in any::<i16>(),
        delta in any::<i32>(), timestamps in any::<(i64, i64)>(), producer in any::<(i64, i16)>(),
        base_sequence in any::<i32>(), records_count in any::<i32>(), crc in any::<u32>(),
        batch_length in 49..i32::MAX,
    ) {
        let header = BatchHeader {
            base_offset, batch_length, partition_leader_epoch: epoch, magic: 2, crc,
            attributes: Attributes(attributes), last_offset_delta: delta,
            base_timestamp: timestamps.0, max_timestamp: timestamps.1,
            producer_id: producer.0, producer_epoch: producer.1, base_sequence, records_count,
        };
        prop_assert_eq!(BatchHeader::parse(&header.encode()).unwrap(), header);
    }

    #[test]
    fn compression_of_any_bytes_is_undone_within_the_exact_limit_and_refused_below_it(
        data in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..5000),
            (any::<u8>(), 0..300_000_usize).prop_map(|(byte, len)| vec![byte; len]),
            (prop::collection::vec(0..4_u8, 1..300), 1..800_usize)
                .prop_map(|(part, times)| part.repeat(times)),
        ],
        level in 1..=9_i32,
    ) {
        let mut compressor = Compressor::new();
        let mut decompressor = Decompressor::new();
        for codec in Compression::ALL {
            let level = codec.levels().map(|_| level);
            let mut packed = vec![7; 3];
            compressor.compress(codec, level, &[&data], &mut packed).unwrap();
            let packed = &packed[3..];
            prop_assert!(
                packed.len() <= thalweg_records::compression::compressed_len_max(codec, data.len())
            );
            let opened = decompressor.decompress(codec, packed, data.len()).unwrap();
            prop_assert_eq!(&opened[..], &data[..]);
            drop(opened);
            if !data.is_empty() {
                let refused = decompressor.decompress(codec, packed, data.len() - 1);
                prop_assert!(refused.is_err(), "{} passed its limit", codec);
            }
        }
    }

    #[test]
    fn a_walk_can_stop_and_go_on_anywhere(records in records(), pause in 0..40_usize) {
        let batch = decode_one(build(&records, 5).finish());
        let mut first = batch.iter();
        let taken = first.by_ref().take(pause).count();
        let rest: Vec<_> = batch.iter_at(first.position()).map(|record| record.unwrap().offset).collect();
        let expected: Vec<_> = (5 + taken as i64..5 + records.len() as i64).collect();
        prop_assert_eq!(first.position().index() as usize, taken);
        prop_assert_eq!(rest, expected);
    }
}

#[test]
fn log_append_time_is_the_batch_s_greatest_timestamp_for_every_record() {
    let mut builder = BatchBuilder::new(0);
    builder.append(10, None, Some(b"a"), &[][..]);
    builder.append(5, None, Some(b"b"), &[][..]);
    let mut wire = builder.finish();
    thalweg_records::batch_header::set_log_append_time(&mut wire, 77);
    let batch = decode_one(wire);
    assert_eq!(batch.timestamp_type(), TimestampType::LogAppendTime);
    for record in &batch {
        let record = record.unwrap();
        assert_eq!(
            (record.timestamp, record.timestamp_type),
            (77, TimestampType::LogAppendTime)
        );
    }
}

#[test]
fn a_broker_sets_offset_and_epoch_without_a_new_checksum() {
    let mut builder = BatchBuilder::new(0);
    builder.append(10, Some(b"k"), Some(b"a"), &[][..]);
    let mut wire = builder.finish();
    thalweg_records::batch_header::set_base_offset_and_epoch(&mut wire, 1234, 9);
    let batch = decode_one(wire);
    assert_eq!(batch.base_offset(), 1234);
    assert_eq!(batch.header.partition_leader_epoch, 9);
}

#[test]
fn several_batches_are_walked_and_a_truncated_last_one_ends_it_silently() {
    let mut wire = Vec::new();
    for base in [0, 10, 20] {
        let mut builder = BatchBuilder::new(base);
        builder.append(1, None, Some(b"value"), &[][..]);
        wire.extend_from_slice(&builder.finish());
    }
    let one = wire.len() / 3;
    for cut in 0..=wire.len() {
        let mut iter = batches(Bytes::copy_from_slice(&wire[..cut]));
        let bases: Vec<_> = iter
            .by_ref()
            .map(|raw| raw.unwrap().base_offset())
            .collect();
        assert_eq!(bases, [0, 10, 20][..cut / one], "cut at {cut}");
        assert_eq!(iter.remaining(), cut % one);
    }
}

#[test]
fn an_incremental_checksum_equals_that_of_the_whole() {
    let data: Vec<u8> = (0..100_000_u32).map(|i| ((i * 31) >> 3) as u8).collect();
    assert_eq!(crc32c([&b"123456789"[..]]), 0xe306_9283);
    let whole = crc32c([&data[..]]);
    for step in [1, 7, 255, 4096, 65_536] {
        let mut crc = Crc32c::new();
        data.chunks(step).for_each(|chunk| crc.update(chunk));
        assert_eq!(crc.finish(), whole);
    }
}
