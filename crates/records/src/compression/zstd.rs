//! zstd, with one context for each direction that is reset and reused.
//!
//! It writes one frame with its content size, which also lets zstd choose smaller tables for small
//! batches. It reads any number of frames, with or without content size (Java streams without), in
//! one call directly into the output. That needs no window buffer, so a frame that requests a
//! window of gigabytes costs nothing. Only the output's limit counts.

use zstd::zstd_safe::{
    CCtx, CParameter, CompressionLevel, DCtx, InBuffer, OutBuffer, ResetDirective, compress_bound,
    zstd_sys::ZSTD_EndDirective,
};

use super::CodecError;
use super::output::Output;

const LEVEL_DEFAULT: CompressionLevel = 3;
/// A block decompresses to at most this many bytes.
const BLOCK_BYTES_MAX: u64 = 128 << 10;
/// Limit of the first guess as a factor of the input, so that the output of a zip bomb has to grow
/// step by step: four times with each attempt.
const FIRST_RATIO_MAX: usize = 32;
const FIRST_BYTES_MIN: usize = 256 << 10;
/// `ZSTD_error_dstSize_tooSmall` of `zstd_errors.h`, as its functions return it.
const DESTINATION_TOO_SMALL: usize = 0_usize.wrapping_sub(70);

pub(super) fn compressed_len_max(input_len: usize) -> usize {
    compress_bound(input_len)
}

pub(super) struct ZstdEncoder {
    level: CompressionLevel,
    context: CCtx<'static>,
}

impl ZstdEncoder {
    pub(super) fn new() -> Self {
        let mut encoder = Self {
            level: LEVEL_DEFAULT,
            context: CCtx::create(),
        };
        encoder.set_level(LEVEL_DEFAULT);
        encoder
    }

    fn set_level(&mut self, level: CompressionLevel) {
        self.context
            .set_parameter(CParameter::CompressionLevel(level))
            .expect("zstd takes any level, and clamps it");
        self.level = level;
    }

    pub(super) fn compress(&mut self, level: Option<i32>, chunks: &[&[u8]], out: &mut Vec<u8>) {
        const CANNOT_FAIL: &str = "zstd fails only without memory or without room for the output";
        let level = level.unwrap_or(LEVEL_DEFAULT);
        self.context
            .reset(ResetDirective::SessionOnly)
            .expect(CANNOT_FAIL);
        if level != self.level {
            self.set_level(level);
        }
        let input_len: usize = chunks.iter().map(|chunk| chunk.len()).sum();
        self.context
            .set_pledged_src_size(Some(input_len as u64))
            .expect(CANNOT_FAIL);
        out.reserve(compress_bound(input_len));
        let end = out.len();
        let mut output = OutBuffer::around_pos(out, end);
        let (last, others) = chunks
            .split_last()
            .map_or((&[][..], chunks), |(l, o)| (*l, o));
        for chunk in others {
            let mut input = InBuffer::around(chunk);
            while input.pos() < chunk.len() {
                self.context
                    .compress_stream2(&mut output, &mut input, ZSTD_EndDirective::ZSTD_e_continue)
                    .expect(CANNOT_FAIL);
            }
        }
        self.end(&mut output, last);
    }

    /// Ends the frame with the last chunk. So zstd compresses a batch of one chunk in one go,
    /// without copying it into its window.
    fn end(&mut self, output: &mut OutBuffer<'_, Vec<u8>>, last: &[u8]) {
        let left = self
            .context
            .compress_stream2(
                output,
                &mut InBuffer::around(last),
                ZSTD_EndDirective::ZSTD_e_end,
            )
            .expect("the content is as long as pledged");
        assert_eq!(
            left, 0,
            "the output has room for the largest compressed size"
        );
    }
}

pub(super) struct ZstdDecoder {
    context: DCtx<'static>,
}

impl ZstdDecoder {
    pub(super) fn new() -> Self {
        Self {
            context: DCtx::create(),
        }
    }

    pub(super) fn decompress(&mut self, input: &[u8], out: &mut Output) -> Result<(), CodecError> {
        loop {
            // All the room of the buffer: a reused one often has more than the guess.
            let result = self.context.decompress(out.some_room()?, input);
            match result {
                Ok(length) => {
                    out.advance(length);
                    return Ok(());
                }
                Err(DESTINATION_TOO_SMALL) => out.start_over()?,
                Err(_) => return Err(CodecError::Corrupt("zstd frame is malformed")),
            }
        }
    }
}

/// Returns the initial room: what the block headers allow at most, but not much more than data of
/// this length usually needs.
pub(super) fn first_guess(input: &[u8]) -> usize {
    let most = input
        .len()
        .saturating_mul(FIRST_RATIO_MAX)
        .max(FIRST_BYTES_MIN);
    content_bytes_max(input).map_or(most, |bytes| {
        usize::try_from(bytes).unwrap_or(most).min(most)
    })
}

/// Returns an upper bound of a single frame's content, from its header and its block headers.
/// Returns `None` for anything other than one plain frame.
fn content_bytes_max(input: &[u8]) -> Option<u64> {
    const DICTIONARY_ID_LENS: [usize; 4] = [0, 1, 2, 4];
    const CONTENT_SIZE_LENS: [usize; 4] = [0, 2, 4, 8];
    let descriptor = *input.strip_prefix(&[0x28, 0xb5, 0x2f, 0xfd])?.first()?;
    let single_segment = descriptor & 0x20 != 0;
    let dictionary_id_len = DICTIONARY_ID_LENS[usize::from(descriptor & 3)];
    let content_size_len = match descriptor >> 6 {
        0 => usize::from(single_segment),
        flag => CONTENT_SIZE_LENS[usize::from(flag)],
    };
    let mut at = 5 + usize::from(!single_segment) + dictionary_id_len + content_size_len;
    let mut bytes = 0;
    loop {
        let &[b0, b1, b2] = input.get(at..)?.first_chunk::<3>()?;
        let header = u32::from_le_bytes([b0, b1, b2, 0]);
        let size = header >> 3;
        let (length, content) = match header >> 1 & 3 {
            0 => (size as usize, u64::from(size)),
            1 => (1, u64::from(size)),
            2 => (size as usize, BLOCK_BYTES_MAX),
            _ => return None,
        };
        at += 3 + length;
        bytes += content;
        if header & 1 != 0 {
            return Some(bytes);
        }
    }
}
