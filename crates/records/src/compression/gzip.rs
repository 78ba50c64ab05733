//! gzip (RFC 1952) on top of raw deflate, so that one context serves all members of all batches.
//!
//! It writes one member without name or time, as Java does. It reads any number of members with any
//! header fields, and checks the checksum and length of each. It ignores bytes after the last
//! member, as Java's `GZIPInputStream` does.

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};

use super::CodecError;
use super::output::Output;
use crate::crc::{Crc32, crc32};

const MAGIC: [u8; 2] = [0x1f, 0x8b];
const DEFLATE: u8 = 8;
/// magic, method, flags, time (4), extra flags, operating system (255: unknown).
const HEADER: [u8; 10] = [MAGIC[0], MAGIC[1], DEFLATE, 0, 0, 0, 0, 0, 0, 0xff];
const TRAILER_LEN: usize = 8;
const LEVEL_DEFAULT: u32 = 6;

const FLAG_HEADER_CRC: u8 = 0x02;
const FLAG_EXTRA: u8 = 0x04;
const FLAG_NAME: u8 = 0x08;
const FLAG_COMMENT: u8 = 0x10;
const FLAGS_RESERVED: u8 = 0xe0;

/// Returns the maximum compressed length of `input_len` bytes. Level 1 uses fixed codes of up to
/// nine bits a byte. The other levels store what they cannot compress.
pub(super) fn compressed_len_max(input_len: usize) -> usize {
    HEADER.len() + input_len + input_len.div_ceil(8) + 64 + TRAILER_LEN
}

#[derive(Debug)]
pub(super) struct GzipEncoder {
    level: u32,
    deflate: Compress,
}

impl GzipEncoder {
    pub(super) fn new() -> Self {
        Self {
            level: LEVEL_DEFAULT,
            deflate: deflate(LEVEL_DEFAULT),
        }
    }

    pub(super) fn compress(&mut self, level: Option<i32>, chunks: &[&[u8]], out: &mut Vec<u8>) {
        // -1 is deflate's own value for the default.
        let level = level
            .and_then(|level| u32::try_from(level).ok())
            .unwrap_or(LEVEL_DEFAULT);
        if level == self.level {
            self.deflate.reset();
        } else {
            *self = Self {
                level,
                deflate: deflate(level),
            };
        }
        let input_len: usize = chunks.iter().map(|chunk| chunk.len()).sum();
        out.extend_from_slice(&HEADER);
        let mut crc = Crc32::new();
        for chunk in chunks {
            crc.update(chunk);
            self.push(chunk, FlushCompress::None, out);
        }
        self.push(&[], FlushCompress::Finish, out);
        out.extend_from_slice(&crc.finish().to_le_bytes());
        out.extend_from_slice(&(input_len as u32).to_le_bytes());
    }

    fn push(&mut self, mut input: &[u8], flush: FlushCompress, out: &mut Vec<u8>) {
        loop {
            let before = self.deflate.total_in();
            let status = self
                .deflate
                .compress_vec(input, out, flush)
                .expect("deflate fails only on misuse of its stream");
            input = &input[(self.deflate.total_in() - before) as usize..];
            let done = match flush {
                FlushCompress::Finish => status == Status::StreamEnd,
                _ => input.is_empty(),
            };
            if done {
                return;
            }
            // The vector is full, and compress_vec never grows it.
            out.reserve(out.len().max(1024));
        }
    }
}

fn deflate(level: u32) -> Compress {
    Compress::new(flate2::Compression::new(level), false)
}

#[derive(Debug)]
pub(super) struct GzipDecoder {
    inflate: Decompress,
}

impl GzipDecoder {
    pub(super) fn new() -> Self {
        Self {
            inflate: Decompress::new(false),
        }
    }

    pub(super) fn decompress(&mut self, input: &[u8], out: &mut Output) -> Result<(), CodecError> {
        let mut rest = self.member(input, out)?;
        while rest.starts_with(&MAGIC) {
            rest = self.member(rest, out)?;
        }
        Ok(())
    }

    /// Reads one member, and returns the bytes after it.
    fn member<'a>(&mut self, input: &'a [u8], out: &mut Output) -> Result<&'a [u8], CodecError> {
        let start = out.len();
        let rest = self.inflate(skip_header(input)?, out)?;
        let Some((trailer, rest)) = rest.split_first_chunk::<TRAILER_LEN>() else {
            return Err(CodecError::Corrupt("gzip trailer is cut off"));
        };
        let member = &out.written()[start..];
        let [c0, c1, c2, c3, l0, l1, l2, l3] = *trailer;
        if u32::from_le_bytes([l0, l1, l2, l3]) != member.len() as u32 {
            return Err(CodecError::Corrupt("gzip length does not match"));
        }
        if u32::from_le_bytes([c0, c1, c2, c3]) != crc32(member) {
            return Err(CodecError::Corrupt("gzip checksum does not match"));
        }
        Ok(rest)
    }

    fn inflate<'a>(&mut self, input: &'a [u8], out: &mut Output) -> Result<&'a [u8], CodecError> {
        self.inflate.reset(false);
        let mut rest = input;
        loop {
            let (before_in, before_out) = (self.inflate.total_in(), self.inflate.total_out());
            let status = self
                .inflate
                .decompress(rest, out.some_room()?, FlushDecompress::None)
                .map_err(|_| CodecError::Corrupt("deflate stream is malformed"))?;
            let read = (self.inflate.total_in() - before_in) as usize;
            let written = (self.inflate.total_out() - before_out) as usize;
            rest = &rest[read..];
            out.advance(written);
            if status == Status::StreamEnd {
                return Ok(rest);
            }
            if read == 0 && written == 0 {
                return Err(CodecError::Corrupt("deflate stream is cut off"));
            }
        }
    }
}

/// Skips a member's header and all its optional fields.
fn skip_header(input: &[u8]) -> Result<&[u8], CodecError> {
    const CUT: CodecError = CodecError::Corrupt("gzip header is cut off");
    let (fixed, mut rest) = input.split_first_chunk::<10>().ok_or(CUT)?;
    if fixed[..2] != MAGIC || fixed[2] != DEFLATE || fixed[3] & FLAGS_RESERVED != 0 {
        return Err(CodecError::Corrupt("not a gzip member"));
    }
    let flags = fixed[3];
    if flags & FLAG_EXTRA != 0 {
        let (length, after) = rest.split_first_chunk::<2>().ok_or(CUT)?;
        rest = after
            .get(usize::from(u16::from_le_bytes(*length))..)
            .ok_or(CUT)?;
    }
    for text in [FLAG_NAME, FLAG_COMMENT] {
        if flags & text != 0 {
            let end = rest.iter().position(|&byte| byte == 0).ok_or(CUT)?;
            rest = &rest[end + 1..];
        }
    }
    if flags & FLAG_HEADER_CRC != 0 {
        rest = rest.get(2..).ok_or(CUT)?;
    }
    Ok(rest)
}
