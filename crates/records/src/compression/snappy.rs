//! snappy: written in the framing of xerial's `SnappyOutputStream`, which Java writes and every
//! client reads. It reads both framed (Java, kafka-python) and raw data (librdkafka).
//!
//! ```text
//! magic 82 "SNAPPY" 00 | version BE32 | compatible with BE32 | blocks: length BE32, raw snappy
//! ```
//! Framed streams may be concatenated: another header may follow instead of a block.

use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

use super::CodecError;
use super::chunks::for_each_block;
use super::output::Output;

const MAGIC: [u8; 8] = *b"\x82SNAPPY\0";
const HEADER_LEN: usize = 16;
const VERSION: i32 = 1;
/// Bytes of a block before compression, as in Java.
const BLOCK_BYTES: usize = 32 << 10;
/// Raw snappy expands by at most this factor: the best copy produces 64 bytes from 3.
const RATIO_MAX: usize = 64;

pub(super) fn compressed_len_max(input_len: usize) -> usize {
    let blocks = input_len.div_ceil(BLOCK_BYTES);
    HEADER_LEN + blocks * (4 + max_compress_len(BLOCK_BYTES) - BLOCK_BYTES) + input_len
}

pub(super) struct SnappyEncoder {
    encoder: Encoder,
    gather: Vec<u8>,
    block: Vec<u8>,
}

impl SnappyEncoder {
    pub(super) fn new() -> Self {
        let block = vec![0; max_compress_len(BLOCK_BYTES)];
        Self {
            encoder: Encoder::new(),
            gather: Vec::new(),
            block,
        }
    }

    pub(super) fn compress(&mut self, chunks: &[&[u8]], out: &mut Vec<u8>) {
        let Self {
            encoder,
            gather,
            block,
        } = self;
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&VERSION.to_be_bytes());
        for_each_block(chunks, BLOCK_BYTES, gather, |input| {
            let length = encoder
                .compress(input, block)
                .expect("the block buffer is large enough for any block of 32 KiB");
            out.extend_from_slice(&(length as u32).to_be_bytes());
            out.extend_from_slice(&block[..length]);
        });
    }
}

pub(super) fn decompress(input: &[u8], out: &mut Output) -> Result<(), CodecError> {
    let mut decoder = Decoder::new();
    let Some(mut rest) = input.strip_prefix(&MAGIC) else {
        return raw(&mut decoder, input, out);
    };
    rest = skip_versions(rest)?;
    while !rest.is_empty() {
        if let Some(next) = rest.strip_prefix(&MAGIC) {
            rest = skip_versions(next)?;
            continue;
        }
        let Some((length, after)) = rest.split_first_chunk::<4>() else {
            return Err(CodecError::Corrupt("snappy block length is cut off"));
        };
        let length = i32::from_be_bytes(*length);
        let block = usize::try_from(length)
            .ok()
            .and_then(|length| after.split_at_checked(length));
        let Some((block, after)) = block else {
            return Err(CodecError::Corrupt(
                "snappy block length is beyond the data",
            ));
        };
        raw(&mut decoder, block, out)?;
        rest = after;
    }
    Ok(())
}

fn skip_versions(input: &[u8]) -> Result<&[u8], CodecError> {
    let Some((versions, rest)) = input.split_first_chunk::<8>() else {
        return Err(CodecError::Corrupt("snappy header is cut off"));
    };
    let [v0, v1, v2, v3, ..] = *versions;
    if i32::from_be_bytes([v0, v1, v2, v3]) < VERSION {
        return Err(CodecError::Corrupt("snappy framing of an unknown version"));
    }
    Ok(rest)
}

fn raw(decoder: &mut Decoder, block: &[u8], out: &mut Output) -> Result<(), CodecError> {
    let length =
        decompress_len(block).map_err(|_| CodecError::Corrupt("snappy length is malformed"))?;
    if length / RATIO_MAX > block.len() {
        return Err(CodecError::Corrupt(
            "snappy length is more than its data can decompress to",
        ));
    }
    let (_, room) = out.room(length);
    if room.len() < length {
        return Err(CodecError::TooLarge);
    }
    let written = decoder
        .decompress(block, room)
        .map_err(|_| CodecError::Corrupt("snappy block is malformed"))?;
    out.advance(written);
    Ok(())
}
