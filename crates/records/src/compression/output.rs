//! The output buffer of a codec: it grows step by step up to the limit, and is reused.
//!
//! ```text
//! Spares::output -> Output (initialized bytes) -> codec fills it -> Output::finish -> Bytes
//!      ^                                                                        |
//!      '------------- the buffer returns when the last slice is dropped --------'
//! ```
//! New buffers of many kilobytes cost page faults and zeroing, which for lz4 takes as long as the
//! decompression itself. A reused buffer is already initialized, so the next codec run overwrites
//! it. A result that fills less than half of its buffer is copied. So what the application keeps
//! never holds much more memory than its own size.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::CodecError;

/// Limits of the bytes of buffers kept for the next batches, and of the size of a kept buffer.
const SPARES_BYTES_MAX: usize = 8 << 20;
const SPARE_BYTES_MAX: usize = 2 << 20;
/// The minimum of the first guess.
const ROOM_MIN: usize = 16 << 10;

/// The buffers of one decompressor that are not in use.
#[derive(Debug, Default)]
pub(super) struct Spares(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl Spares {
    /// Creates an output with room for about `guess` bytes at first, and for at most `limit_bytes`.
    pub(super) fn output(&self, guess: usize, limit_bytes: usize) -> Output {
        let buffer = take(&self.0);
        // One byte more than the limit distinguishes "exactly at the limit" from "more follows".
        let cap = limit_bytes.saturating_add(1);
        let mut output = Output {
            buffer,
            len: 0,
            cap,
        };
        output.grow(guess.max(ROOM_MIN));
        output
    }

    /// Returns what was written as shared bytes, unless the codec failed.
    pub(super) fn finish(
        &self,
        output: Output,
        result: Result<(), CodecError>,
    ) -> Result<Bytes, CodecError> {
        let Output { buffer, len, cap } = output;
        let result = result.and(if len < cap {
            Ok(())
        } else {
            Err(CodecError::TooLarge)
        });
        if result.is_ok() && len >= buffer.len() / 2 {
            let home = Arc::clone(&self.0);
            return Ok(Bytes::from_owner(Recycled { buffer, len, home }));
        }
        let bytes = result.map(|()| Bytes::copy_from_slice(&buffer[..len]));
        keep(&self.0, buffer);
        bytes
    }
}

fn take(kept: &Mutex<Kept>) -> Vec<u8> {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    let buffer = kept.buffers.pop().unwrap_or_default();
    kept.bytes -= buffer.capacity();
    buffer
}

fn keep(kept: &Mutex<Kept>, buffer: Vec<u8>) {
    let bytes = buffer.capacity();
    if bytes > SPARE_BYTES_MAX {
        return;
    }
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.bytes + bytes <= SPARES_BYTES_MAX {
        kept.bytes += bytes;
        kept.buffers.push(buffer);
    }
}

/// A buffer in use by the slices of a batch. Dropping it returns the buffer.
struct Recycled {
    buffer: Vec<u8>,
    len: usize,
    home: Arc<Mutex<Kept>>,
}

impl AsRef<[u8]> for Recycled {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

impl Drop for Recycled {
    fn drop(&mut self) {
        keep(&self.home, std::mem::take(&mut self.buffer));
    }
}

/// The output of a codec in progress.
pub(super) struct Output {
    /// Initialized bytes, of which the first `len` are written.
    buffer: Vec<u8>,
    len: usize,
    cap: usize,
}

impl Output {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn written(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// Returns at least one byte of room, or `TooLarge` if the limit is exceeded.
    pub(super) fn some_room(&mut self) -> Result<&mut [u8], CodecError> {
        if self.len >= self.cap {
            return Err(CodecError::TooLarge);
        }
        if self.len == self.buffer.len() {
            self.grow(self.len + 1);
        }
        Ok(&mut self.buffer[self.len..])
    }

    /// Returns what is written, and room for `want` bytes or as many as the limit allows.
    pub(super) fn room(&mut self, want: usize) -> (&[u8], &mut [u8]) {
        let end = self.len.saturating_add(want).min(self.cap);
        if end > self.buffer.len() {
            self.grow(end);
        }
        let (written, room) = self.buffer.split_at_mut(self.len);
        (written, &mut room[..end - self.len])
    }

    /// Discards the output and makes the buffer four times as long, for codecs that must start
    /// over.
    pub(super) fn start_over(&mut self) -> Result<(), CodecError> {
        if self.buffer.len() >= self.cap {
            return Err(CodecError::TooLarge);
        }
        self.len = 0;
        self.grow(self.buffer.len().saturating_mul(4));
        Ok(())
    }

    pub(super) fn advance(&mut self, bytes: usize) {
        debug_assert!(
            bytes <= self.buffer.len() - self.len,
            "a codec wrote beyond its output buffer"
        );
        self.len += bytes;
    }

    /// Appends bytes that the codec stored uncompressed.
    pub(super) fn extend(&mut self, bytes: &[u8]) -> Result<(), CodecError> {
        let (_, room) = self.room(bytes.len());
        if room.len() < bytes.len() {
            return Err(CodecError::TooLarge);
        }
        room.copy_from_slice(bytes);
        self.advance(bytes.len());
        Ok(())
    }

    fn grow(&mut self, at_least: usize) {
        let doubled = at_least.max(self.len.saturating_mul(2)).min(self.cap);
        if doubled > self.buffer.len() {
            // `reserve_exact`, as the vector's usual doubling could exceed the limit.
            self.buffer.reserve_exact(doubled - self.buffer.len());
            self.buffer.resize(doubled, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lz4::{self, HeaderChecksum};
    use super::{CodecError, ROOM_MIN, SPARES_BYTES_MAX, Spares};

    fn kept(spares: &Spares) -> Vec<usize> {
        let kept = spares.0.lock().unwrap();
        kept.buffers.iter().map(Vec::len).collect()
    }

    #[test]
    fn a_buffer_never_grows_beyond_one_byte_above_the_limit() {
        let spares = Spares::default();
        for limit_bytes in [0, 1, 1000, 100_000, 1_000_000] {
            let mut output = spares.output(usize::MAX, limit_bytes);
            assert!(output.buffer.len() <= limit_bytes + 1);
            let (_, room) = output.room(usize::MAX);
            assert_eq!(room.len(), limit_bytes + 1);
            while output.some_room().is_ok() {
                let room = output.some_room().unwrap().len();
                output.advance(room.min(777));
            }
            assert_eq!(output.start_over(), Err(CodecError::TooLarge));
            assert_eq!(output.extend(b"x"), Err(CodecError::TooLarge));
            assert_eq!(output.buffer.capacity(), limit_bytes + 1);
            assert_eq!(spares.finish(output, Ok(())), Err(CodecError::TooLarge));
            *spares.0.lock().unwrap() = super::Kept::default();
        }
    }

    #[test]
    fn a_buffer_comes_back_with_the_last_slice_and_so_many_bytes_are_kept() {
        let spares = Spares::default();
        let loan = || {
            let mut output = spares.output(0, ROOM_MIN * 4);
            output.extend(&[7; ROOM_MIN]).unwrap();
            spares.finish(output, Ok(())).unwrap()
        };
        let first = loan();
        let slice = first.slice(5..10);
        drop(first);
        assert_eq!(kept(&spares), []);
        drop(slice);
        assert_eq!(kept(&spares), [ROOM_MIN]);
        let fit = SPARES_BYTES_MAX / ROOM_MIN;
        let many: Vec<_> = (0..fit + 3).map(|_| loan()).collect();
        assert_eq!(kept(&spares), []);
        drop(many);
        assert_eq!(kept(&spares).len(), fit);
        let again: Vec<_> = (0..fit + 3).map(|_| loan()).collect();
        assert_eq!(kept(&spares), []);
        drop(again);
        assert_eq!(kept(&spares).len(), fit, "what is taken counts no longer");
    }

    #[test]
    fn little_in_a_large_buffer_is_copied_out() {
        let spares = Spares::default();
        let mut output = spares.output(ROOM_MIN * 8, usize::MAX);
        output.extend(b"little").unwrap();
        let bytes = spares.finish(output, Ok(())).unwrap();
        assert_eq!(&bytes[..], b"little");
        assert_eq!(kept(&spares), [ROOM_MIN * 8], "back at once");
    }

    #[test]
    fn an_lz4_frame_that_allows_large_blocks_takes_no_memory_for_small_ones() {
        // The frame allows blocks of 4 MiB. It has one block of two bytes (one literal) and the end
        // mark.
        let frame = [
            4, 0x22, 0x4d, 0x18, 0x60, 0x70, 0, 2, 0, 0, 0, 0x10, b'x', 0, 0, 0, 0,
        ];
        let mut output = Spares::default().output(0, 64 << 20);
        lz4::decompress(&frame, HeaderChecksum::Ignore, &mut output).unwrap();
        assert_eq!(output.written(), b"x");
        assert_eq!(output.buffer.len(), ROOM_MIN);
    }

    #[test]
    fn a_buffer_too_large_to_keep_is_freed() {
        let spares = Spares::default();
        drop(spares.finish(
            spares.output(super::SPARE_BYTES_MAX + 1, usize::MAX),
            Ok(()),
        ));
        assert_eq!(kept(&spares), []);
    }
}
