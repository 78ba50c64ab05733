//! The forms of each codec that other clients write, and the bombs and corrupt data that are
//! refused.

#[path = "support/seeds.rs"]
mod seeds;

use std::io::Write as _;

use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use proptest::prelude::*;
use thalweg_records::compression::CodecError;
use thalweg_records::{
    Attributes, BatchBuilder, BatchHeader, CONTROL_BATCH_BYTES_MAX, Compression, Compressor,
    Decompressor, RecordsError, batches,
};
use zstd::zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, zstd_sys::ZSTD_EndDirective};

const LIMIT_BYTES: usize = 4 << 20;

fn sample() -> Vec<u8> {
    let lines = (0..9000_u32).map(|i| format!("line {} of a river\n", i.wrapping_mul(i) % 8191));
    lines.collect::<String>().into_bytes()
}

fn open(codec: Compression, packed: &[u8]) -> Result<Vec<u8>, CodecError> {
    Decompressor::new()
        .decompress(codec, packed, LIMIT_BYTES)
        .map(|bytes| bytes.to_vec())
}

fn pack(codec: Compression, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Compressor::new()
        .compress(codec, None, &[data], &mut out)
        .expect("no level is given");
    out
}

// --- gzip ---

/// Returns a member with every optional field of the header.
fn decorated_gzip(data: &[u8]) -> Vec<u8> {
    let encoder = flate2::GzBuilder::new()
        .filename("name")
        .comment("comment")
        .extra(b"extra".to_vec())
        .mtime(7)
        .write(Vec::new(), flate2::Compression::best());
    let mut encoder = encoder;
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn gzip_members_follow_each_other_with_any_header_fields() {
    let data = sample();
    let (head, tail) = data.split_at(1000);
    let mut packed = decorated_gzip(head);
    packed.extend_from_slice(&pack(Compression::Gzip, tail));
    assert_eq!(open(Compression::Gzip, &packed).unwrap(), data);
    packed.extend_from_slice(&[0; 9]);
    assert_eq!(
        open(Compression::Gzip, &packed).unwrap(),
        data,
        "padding is ignored"
    );
}

#[test]
fn gzip_checks_its_checksum_and_its_length() {
    let packed = pack(Compression::Gzip, b"some bytes");
    for at in packed.len() - 8..packed.len() {
        let mut broken = packed.clone();
        broken[at] ^= 1;
        assert!(
            matches!(
                open(Compression::Gzip, &broken),
                Err(CodecError::Corrupt(_))
            ),
            "{at}"
        );
    }
}

// --- snappy ---

#[test]
fn snappy_is_read_raw_framed_and_concatenated() {
    let data = sample();
    let raw = snap::raw::Encoder::new().compress_vec(&data).unwrap();
    assert_eq!(open(Compression::Snappy, &raw).unwrap(), data);
    let framed = pack(Compression::Snappy, &data);
    assert_eq!(&framed[..16], b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01");
    assert_eq!(
        open(Compression::Snappy, &[&framed[..], &framed].concat()).unwrap(),
        data.repeat(2)
    );
    // A framing header with the other byte order, as a broker once wrote it.
    let mut odd = framed.clone();
    odd[8..16].copy_from_slice(b"\x01\0\0\0\x01\0\0\0");
    assert_eq!(open(Compression::Snappy, &odd).unwrap(), data);
}

#[test]
fn a_snappy_length_that_its_data_cannot_give_is_refused_before_anything_is_allocated() {
    // Declares 4 GiB - 1 in five bytes, and has no data.
    let claim = [0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0];
    assert!(matches!(
        Decompressor::new().decompress(Compression::Snappy, &claim, usize::MAX - 1),
        Err(CodecError::Corrupt(_))
    ));
    let mut framed = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
    framed.extend_from_slice(&i32::MAX.to_be_bytes());
    assert!(matches!(
        open(Compression::Snappy, &framed),
        Err(CodecError::Corrupt(_))
    ));
}

// --- lz4 ---

fn lz4_frame(info: FrameInfo, data: &[u8]) -> Vec<u8> {
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn lz4_frames_of_every_kind_are_read() {
    let data = sample();
    for size in [
        BlockSize::Max64KB,
        BlockSize::Max256KB,
        BlockSize::Max1MB,
        BlockSize::Max4MB,
    ] {
        for mode in [BlockMode::Independent, BlockMode::Linked] {
            for checksums in [false, true] {
                for content_size in [None, Some(data.len() as u64)] {
                    let info = FrameInfo::new()
                        .block_size(size)
                        .block_mode(mode)
                        .block_checksums(checksums)
                        .content_checksum(checksums)
                        .content_size(content_size);
                    let packed = lz4_frame(info, &data);
                    let opened = open(Compression::Lz4, &packed);
                    assert_eq!(opened.as_ref(), Ok(&data), "{size:?} {mode:?} {checksums}");
                }
            }
        }
    }
}

#[test]
fn lz4_frames_follow_each_other_and_skippable_ones_are_skipped() {
    let data = sample();
    let mut packed = vec![0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    packed.extend_from_slice(&pack(Compression::Lz4, &data));
    let linked = FrameInfo::new().block_mode(BlockMode::Linked);
    packed.extend_from_slice(&lz4_frame(linked, &data));
    assert_eq!(open(Compression::Lz4, &packed).unwrap(), data.repeat(2));
}

#[test]
fn lz4_checksums_are_checked() {
    let data = sample();
    let info = FrameInfo::new()
        .block_checksums(true)
        .content_checksum(true);
    let packed = lz4_frame(info, &data);
    let mut header = packed.clone();
    header[6] ^= 1;
    assert_eq!(
        open(Compression::Lz4, &header),
        Err(CodecError::Corrupt("lz4 header checksum does not match"))
    );
    let mut content = packed.clone();
    *content.last_mut().unwrap() ^= 1;
    assert_eq!(
        open(Compression::Lz4, &content),
        Err(CodecError::Corrupt("lz4 content checksum does not match"))
    );
}

#[test]
fn our_lz4_frame_is_the_one_that_java_writes() {
    let packed = pack(Compression::Lz4, &b"x".repeat(100_000));
    assert_eq!(&packed[..7], [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82]);
    assert_eq!(&packed[packed.len() - 4..], [0; 4]);
    let golden = include_bytes!("../../../tests/conformance/records/golden/java/v2-lz4.bin");
    assert_eq!(&golden[61..68], &packed[..7]);
    let stored = pack(Compression::Lz4, &(0..=255).collect::<Vec<u8>>());
    assert_eq!(
        &stored[7..11],
        (256_u32 | 1 << 31).to_le_bytes(),
        "stored as it is"
    );
}

// --- zstd ---

fn zstd_stream(data: &[u8], parameters: &[CParameter]) -> Vec<u8> {
    let mut context = CCtx::create();
    for parameter in parameters {
        context.set_parameter(*parameter).unwrap();
    }
    let mut out = Vec::with_capacity(data.len() + 1024);
    let mut output = OutBuffer::around(&mut out);
    let (head, tail) = data.split_at(data.len() / 2);
    for (part, end) in [
        (head, ZSTD_EndDirective::ZSTD_e_flush),
        (tail, ZSTD_EndDirective::ZSTD_e_end),
    ] {
        let mut input = InBuffer::around(part);
        assert_eq!(
            context
                .compress_stream2(&mut output, &mut input, end)
                .unwrap(),
            0
        );
    }
    out
}

#[test]
fn zstd_frames_without_content_size_with_checksum_and_several_in_a_row_are_read() {
    let data = sample();
    let streamed = zstd_stream(&data, &[CParameter::ChecksumFlag(true)]);
    assert_eq!(
        zstd::zstd_safe::get_frame_content_size(&streamed).unwrap(),
        None
    );
    assert_eq!(open(Compression::Zstd, &streamed).unwrap(), data);
    let ours = pack(Compression::Zstd, &data);
    assert_eq!(
        zstd::zstd_safe::get_frame_content_size(&ours).unwrap(),
        Some(data.len() as u64)
    );
    assert_eq!(
        open(Compression::Zstd, &[streamed, ours].concat()).unwrap(),
        data.repeat(2)
    );
}

#[test]
fn a_zstd_window_beyond_the_usual_limit_is_read_as_no_window_is_needed() {
    let data = sample();
    let parameters = [CParameter::WindowLog(29), CParameter::CompressionLevel(1)];
    let packed = zstd_stream(&data, &parameters);
    assert_eq!(packed[5] >> 3, 29 - 10, "the frame asks for the window");
    assert_eq!(open(Compression::Zstd, &packed).unwrap(), data);
}

// --- all codecs ---

#[test]
fn bombs_are_refused_at_the_limit_with_an_error_that_names_it() {
    let zeros = vec![0; 64 << 20];
    let mut compressor = Compressor::new();
    for codec in &Compression::ALL[1..] {
        let mut builder = BatchBuilder::new(42);
        builder.append(0, None, Some(&zeros), &[][..]);
        let wire = builder
            .finish_compressed(&mut compressor, *codec, None)
            .unwrap();
        assert!(wire.len() < 8 << 20, "{codec}: {} bytes", wire.len());
        let raw = batches(wire.into()).next().unwrap().unwrap();
        raw.validate_crc().unwrap();
        let error = raw.decode(&mut Decompressor::new(), 1_000_000).unwrap_err();
        let limit_bytes = 1_000_000;
        assert_eq!(
            error,
            RecordsError::TooLarge {
                base_offset: 42,
                codec: *codec,
                limit_bytes
            }
        );
        let text = error.to_string();
        assert!(text.contains("1000000") && text.contains("42"), "{text}");
    }
}

/// A client decodes control batches on its I/O thread, so they must be small.
#[test]
fn a_compressed_control_batch_is_refused_beyond_a_few_kilobytes() {
    let mut compressor = Compressor::new();
    let attributes = Attributes::default().with_control(true);
    for codec in &Compression::ALL[1..] {
        let mut open = |value: &[u8]| {
            let mut builder = BatchBuilder::with_header(BatchHeader {
                base_offset: 42,
                attributes,
                ..BatchHeader::default()
            });
            builder.append(0, Some(&[0, 0, 0, 1]), Some(value), &[][..]);
            let wire = builder.finish_compressed(&mut compressor, *codec, None);
            let raw = batches(wire.unwrap().into()).next().unwrap().unwrap();
            assert!(raw.is_control() && raw.compression() == Ok(*codec));
            raw.decode(&mut Decompressor::new(), LIMIT_BYTES)
        };
        let marker = open(&[0; 6]).expect("odd, but no harm").control_record();
        assert_eq!(marker.map(|record| record.type_id()), Some(1));
        let error = open(&vec![0; CONTROL_BATCH_BYTES_MAX]).unwrap_err();
        assert_eq!(
            error,
            RecordsError::ControlTooLarge {
                base_offset: 42,
                codec: *codec
            }
        );
        let text = error.to_string();
        assert!(
            text.contains("offset 42") && text.contains("16384"),
            "{text}"
        );
    }
}

#[test]
fn levels_outside_of_the_range_are_refused_with_the_range() {
    let mut compressor = Compressor::new();
    let mut refuse = |codec, level| {
        let error = compressor
            .compress(codec, Some(level), &[b"x"], &mut Vec::new())
            .unwrap_err();
        error.to_string()
    };
    assert_eq!(
        refuse(Compression::Gzip, 10),
        "compression level 10 is out of range: gzip accepts 1 to 9"
    );
    assert_eq!(
        refuse(Compression::Gzip, 0),
        "compression level 0 is out of range: gzip accepts 1 to 9"
    );
    assert_eq!(
        refuse(Compression::Lz4, 18),
        "compression level 18 is out of range: lz4 accepts 1 to 17"
    );
    assert_eq!(
        refuse(Compression::Zstd, 23),
        "compression level 23 is out of range: zstd accepts -131072 to 22"
    );
    assert_eq!(
        refuse(Compression::Snappy, 1),
        "snappy has no compression levels"
    );
    assert!(
        Compression::Gzip.check_level(Some(-1)).is_ok(),
        "deflate's own default"
    );
}

#[test]
fn a_higher_level_compresses_better() {
    let data = sample();
    let packed_len = |codec, level| {
        let mut out = Vec::new();
        Compressor::new()
            .compress(codec, Some(level), &[&data], &mut out)
            .unwrap();
        assert_eq!(open(codec, &out).unwrap(), data);
        out.len()
    };
    assert!(packed_len(Compression::Gzip, 9) < packed_len(Compression::Gzip, 1));
    assert!(
        packed_len(Compression::Lz4, 1) < packed_len(Compression::Lz4, 9),
        "9 is the fast one"
    );
    assert!(packed_len(Compression::Lz4, 12) < packed_len(Compression::Lz4, 2));
    assert!(packed_len(Compression::Zstd, 19) < packed_len(Compression::Zstd, 1));
    assert!(packed_len(Compression::Zstd, 1) < packed_len(Compression::Zstd, -50));
}

#[test]
fn contexts_are_used_again_across_levels_and_after_errors() {
    let data = sample();
    let mut compressor = Compressor::new();
    let mut decompressor = Decompressor::new();
    for round in 0..3 {
        for codec in Compression::ALL {
            for level in [None, codec.levels().map(|_| 1), codec.default_level()] {
                let mut packed = Vec::new();
                compressor
                    .compress(codec, level, &[&data[round..]], &mut packed)
                    .unwrap();
                let opened = decompressor
                    .decompress(codec, &packed, LIMIT_BYTES)
                    .unwrap();
                assert_eq!(&opened[..], &data[round..], "{codec} {level:?}");
                let cut = &packed[..packed.len() / 2];
                if codec != Compression::None {
                    assert!(
                        decompressor.decompress(codec, cut, LIMIT_BYTES).is_err(),
                        "{codec}"
                    );
                }
                assert!(
                    decompressor.decompress(codec, &packed, 1000).is_err(),
                    "{codec}"
                );
            }
        }
    }
}

#[test]
fn names_and_ids_are_kafka_s() {
    let names = ["none", "gzip", "snappy", "lz4", "zstd"];
    for (id, name) in names.into_iter().enumerate() {
        let codec = Compression::from_id(id as u8).unwrap();
        assert_eq!((codec.id(), codec.name()), (id as u8, name));
        assert_eq!(Compression::from_name(name), Some(codec));
    }
    assert_eq!(Compression::from_id(5), None);
    assert_eq!(Compression::from_name("brotli"), None);
}

proptest! {
    #![proptest_config(seeds::kept())]

    /// Whatever the bytes are, a codec returns within its limit and does not panic.
    #[test]
    fn any_bytes_are_answered(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        const SMALL_LIMIT_BYTES: usize = 20_000;
        let mut decompressor = Decompressor::new();
        for codec in Compression::ALL {
            let _ = decompressor.decompress(codec, &bytes, SMALL_LIMIT_BYTES);
            let mut broken = pack(codec, &bytes.repeat(20));
            for (at, with) in &flips {
                let at = at.index(broken.len().max(1));
                if let Some(byte) = broken.get_mut(at) {
                    *byte ^= with;
                }
            }
            broken.truncate(cut.index(broken.len() * 4 + 1));
            if let Ok(opened) = decompressor.decompress(codec, &broken, SMALL_LIMIT_BYTES) {
                prop_assert!(opened.len() <= SMALL_LIMIT_BYTES);
            }
        }
    }
}
