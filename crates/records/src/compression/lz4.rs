//! lz4 frames, implemented on top of the block codec. So the tables are reused, chunks are read in
//! place, and the frames are those that Java reads and writes.
//!
//! ```text
//! magic 04 22 4d 18 | FLG | BD | [content size 8] | header checksum 1
//!   | blocks: size LE32 (top bit: stored), data, [checksum 4] | end mark 0 | [content checksum 4]
//! ```
//! It writes independent blocks of 64 KiB, without content size or checksums (the batch has its
//! own). Java's reader refuses dependent blocks. Level 9, the default, is the fast encoder, as in
//! Java (KIP-390). Every other level is the high-compression encoder of liblz4, as in Java. liblz4
//! treats 1 like 2, and 13 to 17 like 12. The other code here is safe Rust, and only it reads what
//! comes from outside.
//!
//! It reads dependent blocks, all block sizes, content size, both checksums, skippable frames and
//! several frames in a row. It ignores bytes after the last frame, as Java does.

use lz4::block::{CompressionMode, compress_to_buffer};
use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, decompress_into_with_dict,
    get_maximum_output_size,
};

use twox_hash::XxHash32;

use super::CodecError;
use super::chunks::for_each_block;
use super::output::Output;

const MAGIC: u32 = 0x184d_2204;
const SKIPPABLE_MAGIC: u32 = 0x184d_2a50;
const SKIPPABLE_MASK: u32 = 0xffff_fff0;
/// Version 1, independent blocks.
const FLG: u8 = 0x60;
/// Blocks of at most 64 KiB.
const BD: u8 = 0x40;
/// Second byte of the XXH32 of FLG and BD. Both are constant, and so is this.
const HEADER_CHECKSUM: u8 = 0x82;
const BLOCK_BYTES: usize = 64 << 10;
/// The level that selects the fast encoder.
const LEVEL_FAST: i32 = 9;
const STORED_BIT: u32 = 1 << 31;
/// One byte of a block decompresses to at most this many bytes.
const RATIO_MAX: usize = 255;
/// The maximum distance of a match in a dependent block.
const WINDOW_BYTES: usize = 64 << 10;
/// Blocks shorter than this may use a table of 16-bit positions.
const SMALL_BLOCK_BYTES: usize = u16::MAX as usize;

const FLG_VERSION_MASK: u8 = 0xc0;
const FLG_VERSION: u8 = 0x40;
const FLG_INDEPENDENT: u8 = 0x20;
const FLG_BLOCK_CHECKSUM: u8 = 0x10;
const FLG_CONTENT_SIZE: u8 = 0x08;
const FLG_CONTENT_CHECKSUM: u8 = 0x04;
const FLG_RESERVED: u8 = 0x02;
const FLG_DICTIONARY: u8 = 0x01;

const CUT: CodecError = CodecError::Corrupt("lz4 frame is cut off");

pub(super) fn compressed_len_max(input_len: usize) -> usize {
    7 + input_len + input_len.div_ceil(BLOCK_BYTES) * 4 + 4
}

pub(super) struct Lz4Encoder {
    small: CompressTable,
    large: CompressTable,
    gather: Vec<u8>,
    block: Vec<u8>,
}

impl Lz4Encoder {
    pub(super) fn new() -> Self {
        Self {
            small: CompressTable::small(),
            large: CompressTable::large(),
            gather: Vec::new(),
            block: vec![0; get_maximum_output_size(BLOCK_BYTES)],
        }
    }

    pub(super) fn compress(&mut self, level: Option<i32>, chunks: &[&[u8]], out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC.to_le_bytes());
        out.extend_from_slice(&[FLG, BD, HEADER_CHECKSUM]);
        match level {
            None | Some(LEVEL_FAST) => self.fast_blocks(chunks, out),
            Some(level) => self.high_blocks(level, chunks, out),
        }
        out.extend_from_slice(&0_u32.to_le_bytes());
    }

    fn fast_blocks(&mut self, chunks: &[&[u8]], out: &mut Vec<u8>) {
        let Self {
            small,
            large,
            gather,
            block,
        } = self;
        for_each_block(chunks, BLOCK_BYTES, gather, |input| {
            let table = if input.len() < SMALL_BLOCK_BYTES {
                &mut *small
            } else {
                &mut *large
            };
            let length = compress_into_with_table(input, block, table)
                .expect("the block buffer is large enough for any block of 64 KiB");
            put_block(input, &block[..length], out);
        });
    }

    fn high_blocks(&mut self, level: i32, chunks: &[&[u8]], out: &mut Vec<u8>) {
        let Self { gather, block, .. } = self;
        for_each_block(chunks, BLOCK_BYTES, gather, |input| {
            let mode = CompressionMode::HIGHCOMPRESSION(level);
            let length = compress_to_buffer(input, Some(mode), false, block)
                .expect("the block buffer is large enough for any block of 64 KiB");
            put_block(input, &block[..length], out);
        });
    }
}

/// Writes a block, uncompressed if compression does not make it shorter.
fn put_block(input: &[u8], packed: &[u8], out: &mut Vec<u8>) {
    let (length, bytes) = if packed.len() < input.len() {
        (packed.len() as u32, packed)
    } else {
        (input.len() as u32 | STORED_BIT, input)
    };
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Whether a frame's header checksum must be correct. Clients of magic 0 computed it over the wrong
/// bytes (KAFKA-3160), so there it is ignored, as in Java.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderChecksum {
    Verify,
    Ignore,
}

pub(super) fn decompress(
    input: &[u8],
    checksum: HeaderChecksum,
    out: &mut Output,
) -> Result<(), CodecError> {
    let mut rest = input;
    let mut frames = 0;
    while let Some((magic, after)) = rest.split_first_chunk::<4>() {
        let magic = u32::from_le_bytes(*magic);
        if magic & SKIPPABLE_MASK == SKIPPABLE_MAGIC {
            let (length, after) = take_u32(after)?;
            rest = after.get(length as usize..).ok_or(CUT)?;
        } else if magic == MAGIC {
            rest = frame(after, checksum, out)?;
            frames += 1;
        } else {
            break;
        }
    }
    if frames == 0 {
        Err(CodecError::Corrupt("not an lz4 frame"))
    } else {
        Ok(())
    }
}

struct FrameHeader {
    flags: u8,
    block_bytes_max: usize,
    content_bytes: Option<u64>,
}

/// Reads one frame after its magic, and returns the bytes after the frame.
fn frame<'a>(
    input: &'a [u8],
    checksum: HeaderChecksum,
    out: &mut Output,
) -> Result<&'a [u8], CodecError> {
    let (header, mut rest) = frame_header(input, checksum)?;
    let start = out.len();
    loop {
        let (size, after) = take_u32(rest)?;
        if size == 0 {
            rest = after;
            break;
        }
        let length = (size & !STORED_BIT) as usize;
        if length > header.block_bytes_max {
            return Err(CodecError::Corrupt(
                "lz4 block is longer than the frame allows",
            ));
        }
        let (data, after) = after.split_at_checked(length).ok_or(CUT)?;
        rest = after;
        if header.flags & FLG_BLOCK_CHECKSUM != 0 {
            rest = check(rest, data, "lz4 block checksum does not match")?;
        }
        if size & STORED_BIT != 0 {
            out.extend(data)?;
        } else {
            block(&header, data, start, out)?;
        }
    }
    let content = &out.written()[start..];
    if header
        .content_bytes
        .is_some_and(|bytes| bytes != content.len() as u64)
    {
        return Err(CodecError::Corrupt("lz4 content size does not match"));
    }
    if header.flags & FLG_CONTENT_CHECKSUM != 0 {
        rest = check(rest, content, "lz4 content checksum does not match")?;
    }
    Ok(rest)
}

fn frame_header(
    input: &[u8],
    checksum: HeaderChecksum,
) -> Result<(FrameHeader, &[u8]), CodecError> {
    let &[flags, descriptor, ..] = input else {
        return Err(CUT);
    };
    if flags & FLG_VERSION_MASK != FLG_VERSION || flags & FLG_RESERVED != 0 {
        return Err(CodecError::Corrupt("lz4 frame of an unknown version"));
    }
    if flags & FLG_DICTIONARY != 0 {
        return Err(CodecError::Corrupt("lz4 frame needs a dictionary"));
    }
    let block_bytes_max = match descriptor {
        0x40 => 64 << 10,
        0x50 => 256 << 10,
        0x60 => 1 << 20,
        0x70 => 4 << 20,
        _ => return Err(CodecError::Corrupt("lz4 frame with an unknown block size")),
    };
    let mut header_len = 2;
    let mut content_bytes = None;
    if flags & FLG_CONTENT_SIZE != 0 {
        let bytes = input
            .get(2..10)
            .and_then(<[u8]>::first_chunk::<8>)
            .ok_or(CUT)?;
        content_bytes = Some(u64::from_le_bytes(*bytes));
        header_len = 10;
    }
    let (fields, rest) = input.split_at(header_len);
    let (&stored, rest) = rest.split_first().ok_or(CUT)?;
    if checksum == HeaderChecksum::Verify && stored != (XxHash32::oneshot(0, fields) >> 8) as u8 {
        return Err(CodecError::Corrupt("lz4 header checksum does not match"));
    }
    Ok((
        FrameHeader {
            flags,
            block_bytes_max,
            content_bytes,
        },
        rest,
    ))
}

fn block(
    header: &FrameHeader,
    data: &[u8],
    frame_start: usize,
    out: &mut Output,
) -> Result<(), CodecError> {
    // The maximum size of a block is only what the frame claims.
    let most = header
        .block_bytes_max
        .min(data.len().saturating_mul(RATIO_MAX));
    let (written, room) = out.room(most);
    let limited = room.len() < most;
    let window = &written[frame_start.max(written.len().saturating_sub(WINDOW_BYTES))..];
    let independent = header.flags & FLG_INDEPENDENT != 0 || window.is_empty();
    let result = if independent {
        decompress_into(data, room)
    } else {
        decompress_into_with_dict(data, room, window)
    };
    match result {
        Ok(length) => {
            out.advance(length);
            Ok(())
        }
        Err(lz4_flex::block::DecompressError::OutputTooSmall { .. }) if limited => {
            Err(CodecError::TooLarge)
        }
        Err(_) => Err(CodecError::Corrupt("lz4 block is malformed")),
    }
}

fn check<'a>(rest: &'a [u8], bytes: &[u8], mismatch: &'static str) -> Result<&'a [u8], CodecError> {
    let (stored, rest) = take_u32(rest)?;
    if stored == XxHash32::oneshot(0, bytes) {
        Ok(rest)
    } else {
        Err(CodecError::Corrupt(mismatch))
    }
}

fn take_u32(input: &[u8]) -> Result<(u32, &[u8]), CodecError> {
    let (bytes, rest) = input.split_first_chunk::<4>().ok_or(CUT)?;
    Ok((u32::from_le_bytes(*bytes), rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Compression, Compressor, Decompressor};
    use super::BLOCK_BYTES;

    fn round_trip(compressor: &mut Compressor, input: &[u8], level: i32) -> usize {
        let mut packed = Vec::new();
        compressor
            .compress(Compression::Lz4, Some(level), &[input], &mut packed)
            .expect("a level of lz4");
        let opened = Decompressor::new()
            .decompress(Compression::Lz4, &packed, input.len())
            .expect("a sound frame");
        assert_eq!(opened, input);
        packed.len()
    }

    #[test]
    fn the_shortest_and_the_longest_blocks_are_right() {
        let mut compressor = Compressor::new();
        let noise: Vec<u8> = (0..=BLOCK_BYTES as u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 23) as u8)
            .collect();
        for len in (0..40).chain([270, 271, 65_000, BLOCK_BYTES, BLOCK_BYTES + 1]) {
            for level in 1..=17 {
                round_trip(&mut compressor, &vec![7; len], level);
                round_trip(&mut compressor, &noise[..len], level);
            }
        }
        assert!(round_trip(&mut compressor, &vec![7; 60_000], 2) < 290);
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(
            words in prop::collection::vec(prop::collection::vec(0..3_u8, 1..9), 1..8),
            picks in prop::collection::vec(any::<prop::sample::Index>(), 0..4000),
            level in 1..=17,
        ) {
            let input: Vec<u8> = picks.iter().flat_map(|pick| pick.get(&words)).copied().collect();
            let mut compressor = Compressor::new();
            round_trip(&mut compressor, &input, level);
            // An earlier block must have no effect.
            round_trip(&mut compressor, &input[input.len() / 2..], level);
        }
    }
}
