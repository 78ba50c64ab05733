//! The hot paths of record batches: `cargo bench -p thalweg-records`.
//!
//! Half of a payload is compressible: random letters, of which every second run repeats.

use std::hint::black_box;
use std::time::Duration;

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use thalweg_records::record::{self, RecordFields, RecordSink};
use thalweg_records::{
    BATCH_HEADER_LEN, BatchHeader, Compression, Compressor, DecodedBatch, Decompressor, batches,
    crc32c,
};

const CHUNK_BYTES: usize = 16 << 10;
const BATCH_BYTES: usize = 128 << 10;

/// A rope of zeroed chunks of one size, like those from the producer's pool.
struct Rope {
    chunks: Vec<Box<[u8]>>,
    full: usize,
    at: usize,
}

impl Rope {
    fn new(bytes: usize) -> Self {
        let chunks = (0..=bytes / CHUNK_BYTES)
            .map(|_| vec![0; CHUNK_BYTES].into())
            .collect();
        Self {
            chunks,
            full: 0,
            at: 0,
        }
    }

    fn clear(&mut self) {
        (self.full, self.at) = (0, 0);
    }

    fn len(&self) -> usize {
        self.full * CHUNK_BYTES + self.at
    }

    fn slices(&self) -> Vec<&[u8]> {
        let mut slices: Vec<&[u8]> = self.chunks[..self.full]
            .iter()
            .map(|chunk| &chunk[..])
            .collect();
        slices.push(&self.chunks[self.full][..self.at]);
        slices
    }
}

impl RecordSink for Rope {
    fn put(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK_BYTES - self.at));
            self.chunks[self.full][self.at..self.at + now.len()].copy_from_slice(now);
            self.at += now.len();
            bytes = later;
            if self.at == CHUNK_BYTES {
                (self.full, self.at) = (self.full + 1, 0);
            }
        }
    }

    #[inline]
    fn contiguous(&mut self, len: usize) -> Option<&mut [u8]> {
        let room = self.chunks[self.full].get_mut(self.at..self.at + len)?;
        self.at += len;
        Some(room)
    }
}

fn payloads(len: usize) -> Vec<Vec<u8>> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut letter = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        b'a' + (state >> 33) as u8 % 26
    };
    let repeated: Vec<u8> = (0..len / 2).map(|_| letter()).collect();
    (0..1024)
        .map(|_| {
            let mut payload: Vec<u8> = (0..len - repeated.len()).map(|_| letter()).collect();
            payload.extend_from_slice(&repeated);
            payload
        })
        .collect()
}

/// Returns values of 10 to 300 bytes in irregular order, so that the CPU cannot predict branches on
/// lengths.
fn mixed() -> Vec<Vec<u8>> {
    let mut values = payloads(300);
    for (index, value) in values.iter_mut().enumerate() {
        value.truncate(10 + (index * 7919 + index * index * 31) % 291);
    }
    values
}

fn fields(values: &[Vec<u8>], index: usize) -> RecordFields<'_> {
    RecordFields {
        offset_delta: index as i32,
        timestamp_delta: index as i64 / 64,
        value: Some(&values[index % values.len()]),
        ..RecordFields::default()
    }
}

fn fill(values: &[Vec<u8>], rope: &mut Rope) -> usize {
    rope.clear();
    let mut index = 0;
    while rope.len() + values[index % values.len()].len() + 20 < BATCH_BYTES {
        record::encode(&fields(values, index), rope);
        index += 1;
    }
    index
}

fn header(records: usize, codec: Compression) -> BatchHeader {
    BatchHeader {
        records_count: records as i32,
        last_offset_delta: records as i32 - 1,
        base_timestamp: 1_700_000_000_000,
        attributes: thalweg_records::Attributes::default().with_compression(codec),
        ..BatchHeader::default()
    }
}

fn sizes() -> [(&'static str, Vec<Vec<u8>>); 3] {
    [
        ("100", payloads(100)),
        ("1000", payloads(1000)),
        ("10 to 300", mixed()),
    ]
}

fn encode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("encode");
    for (len, values) in sizes() {
        let mut rope = Rope::new(BATCH_BYTES);
        let records = fill(&values, &mut rope);
        group.throughput(Throughput::Elements(records as u64));
        group.bench_function(format!("rope/{len}"), |bencher| {
            bencher.iter(|| fill(black_box(&values), &mut rope));
        });
        group.bench_function(format!("rope and batch close/{len}"), |bencher| {
            bencher.iter(|| {
                let records = fill(black_box(&values), &mut rope);
                header(records, Compression::None).finish(rope.slices())
            });
        });
        let mut flat = Vec::with_capacity(BATCH_BYTES);
        group.bench_function(format!("vec/{len}"), |bencher| {
            bencher.iter(|| {
                flat.clear();
                for index in 0..records {
                    record::encode(&fields(black_box(&values), index), &mut flat);
                }
            });
        });
    }
    group.finish();
}

fn wire(values: &[Vec<u8>], codec: Compression) -> (Bytes, usize) {
    let mut rope = Rope::new(BATCH_BYTES);
    let records = fill(values, &mut rope);
    let mut section = Vec::new();
    Compressor::new()
        .compress(codec, None, &rope.slices(), &mut section)
        .expect("no level");
    let mut out = header(records, codec).finish([&section[..]]).to_vec();
    out.extend_from_slice(&section);
    (out.into(), records)
}

fn open(wire: &Bytes, decompressor: &mut Decompressor) -> DecodedBatch {
    let raw = batches(wire.clone())
        .next()
        .expect("a batch")
        .expect("a sound batch");
    raw.decode(decompressor, 64 << 20).expect("sound records")
}

fn decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    for (len, values) in sizes() {
        let (wire, records) = wire(&values, Compression::None);
        let batch = open(&wire, &mut Decompressor::new());
        group.throughput(Throughput::Elements(records as u64));
        group.bench_function(format!("walk/{len}"), |bencher| {
            bencher.iter(|| black_box(&batch).validate().expect("sound"));
        });
        group.bench_function(format!("iterate/{len}"), |bencher| {
            bencher.iter(|| {
                let records = black_box(&batch)
                    .iter()
                    .map(|record| record.expect("sound"));
                records.fold(0, |sum, record| sum ^ record.offset ^ record.timestamp)
            });
        });
        group.bench_function(format!("crc and walk/{len}"), |bencher| {
            bencher.iter(|| {
                let raw = batches(black_box(&wire).clone())
                    .next()
                    .expect("one")
                    .expect("sound");
                raw.validate_crc().expect("sound");
                raw.decode(&mut Decompressor::new(), 0)
                    .expect("sound")
                    .validate()
                    .expect("sound")
            });
        });
    }
    group.finish();
}

fn codecs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("codec");
    let values = payloads(100);
    let mut rope = Rope::new(BATCH_BYTES);
    fill(&values, &mut rope);
    group.throughput(Throughput::Bytes(rope.len() as u64));
    let (mut compressor, mut decompressor) = (Compressor::new(), Decompressor::new());
    for codec in &Compression::ALL[1..] {
        let mut out = Vec::with_capacity(2 * BATCH_BYTES);
        group.bench_function(format!("compress/{codec}"), |bencher| {
            bencher.iter(|| {
                out.clear();
                compressor
                    .compress(*codec, None, &rope.slices(), &mut out)
                    .expect("no level");
                out.len()
            });
        });
        group.bench_function(format!("decompress/{codec}"), |bencher| {
            bencher.iter(|| {
                decompressor
                    .decompress(*codec, &out, 64 << 20)
                    .expect("sound")
                    .len()
            });
        });
    }
    group.finish();
}

fn checksum(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("crc32c");
    for len in [BATCH_HEADER_LEN, 1 << 10, 16 << 10, 128 << 10] {
        let data = vec![0x5a; len];
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(len.to_string(), |bencher| {
            bencher.iter(|| crc32c([black_box(&data[..])]));
        });
    }
    group.finish();
}

fn close(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("close");
    let values = payloads(100);
    let mut rope = Rope::new(BATCH_BYTES);
    let records = fill(&values, &mut rope);
    group.throughput(Throughput::Elements(records as u64));
    let mut compressor = Compressor::new();
    for codec in Compression::ALL {
        group.bench_function(codec.name(), |bencher| {
            bencher.iter_batched_ref(
                || Vec::with_capacity(BATCH_BYTES),
                |out| {
                    out.clear();
                    compressor
                        .compress(codec, None, &rope.slices(), out)
                        .expect("no level");
                    header(records, codec).finish([&out[..]])
                },
                BatchSize::NumIterations(16),
            );
        });
    }
    group.finish();
}

criterion_group! {
    name = records;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20);
    targets = encode, decode, codecs, checksum, close
}
criterion_main!(records);
