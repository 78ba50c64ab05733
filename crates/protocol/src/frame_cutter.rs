//! [`FrameCutter`]: cuts a stream of bytes into frames. It does no I/O.
//!
//! ```text
//! bytes --room--> buffer --take--> a frame that fits into the buffer, copied
//!                    '---> large --> a frame that does not fit, in memory of its own
//! ```
//!
//! A small frame is a copy, because a slice would keep the complete buffer in memory. A large frame
//! ends with memory of exactly its size, because slices of it may be kept for long. Its length is
//! only a claim of the peer, so beyond a limit its memory grows as its bytes arrive.

use bytes::buf::Limit;
use bytes::{BufMut, Bytes};

const LENGTH_BYTES: usize = 4;

/// One read takes up to this much, so that small frames cost at most one system call each.
const BUFFER_BYTES: usize = 16 * 1024;

/// The size of the buffer until a read has filled it. A peer that sends little costs little.
const FIRST_BUFFER_BYTES: usize = 512;

/// What a [`FrameCutter`] accepts, and what it reserves.
#[derive(Debug, Clone, Copy)]
pub struct FrameLimits {
    /// The largest frame, without its length.
    pub frame_bytes_max: usize,
    /// The most memory reserved for a large frame before its bytes arrive. A larger frame moves to
    /// memory of twice the size whenever its memory is full.
    pub claimed_bytes_max: usize,
}

/// A length that is negative or above the limit: a frame that is too large, another protocol such
/// as HTTP or TLS, or an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadLength {
    /// The bytes in place of the length.
    pub prefix: [u8; 4],
    pub frame_bytes_max: usize,
}

/// Returns a frame's length. It must be checked before memory is allocated for the frame.
pub fn frame_length(prefix: [u8; 4], frame_bytes_max: usize) -> Result<usize, BadLength> {
    match usize::try_from(i32::from_be_bytes(prefix)) {
        Ok(length) if length <= frame_bytes_max => Ok(length),
        _ => Err(BadLength {
            prefix,
            frame_bytes_max,
        }),
    }
}

/// Cuts one stream of bytes into frames. Call [`take`](Self::take) until it returns `None`, then
/// put what arrives next into [`room`](Self::room).
#[derive(Debug)]
pub struct FrameCutter {
    limits: FrameLimits,
    /// At most `BUFFER_BYTES`. A frame's length begins at `start`.
    buffer: Vec<u8>,
    start: usize,
    /// A frame that does not fit into the buffer and has arrived in part, and its length.
    large: Option<(Vec<u8>, usize)>,
}

impl FrameCutter {
    pub fn new(limits: FrameLimits) -> Self {
        Self {
            limits,
            buffer: Vec::new(),
            start: 0,
            large: None,
        }
    }

    /// Changes the limits for frames whose length has not been read yet.
    pub fn set_limits(&mut self, limits: FrameLimits) {
        self.limits = limits;
    }

    /// Whether no frame has arrived in part, so that the peer may close without cutting one off.
    pub fn is_between_frames(&self) -> bool {
        self.start == self.buffer.len() && self.large.is_none()
    }

    /// Whether the buffer has no room. It has room whenever [`take`](Self::take) returns
    /// `None`.
    pub fn is_full(&self) -> bool {
        self.buffer.len() - self.start == BUFFER_BYTES
    }

    /// Returns the room for the next bytes.
    pub fn room(&mut self) -> Limit<&mut Vec<u8>> {
        if let Some((frame, length)) = &mut self.large {
            let missing = *length - frame.len();
            if frame.len() == frame.capacity() {
                frame.reserve_exact(missing.min(frame.len().max(BUFFER_BYTES)));
            }
            let room = missing.min(frame.capacity() - frame.len());
            return frame.limit(room);
        }
        let size = match self.buffer.capacity() {
            0 => FIRST_BUFFER_BYTES,
            capacity if capacity == self.buffer.len() => BUFFER_BYTES,
            capacity => capacity.min(BUFFER_BYTES),
        };
        self.buffer.drain(..self.start);
        self.start = 0;
        let room = size - self.buffer.len();
        self.buffer.reserve_exact(room);
        (&mut self.buffer).limit(room)
    }

    /// Returns the next frame, without its length, if all of it has arrived.
    pub fn take(&mut self) -> Result<Option<Bytes>, BadLength> {
        if self.large.is_some() {
            let complete = self.large.take_if(|(frame, length)| frame.len() == *length);
            return Ok(complete.map(|(frame, _)| Bytes::from(frame)));
        }
        let Some((prefix, arrived)) = self.buffer[self.start..].split_first_chunk() else {
            return Ok(None);
        };
        let length = frame_length(*prefix, self.limits.frame_bytes_max)?;
        if let Some(frame) = arrived.get(..length) {
            let frame = Bytes::copy_from_slice(frame);
            self.start += LENGTH_BYTES + length;
            return Ok(Some(frame));
        }
        if LENGTH_BYTES + length > BUFFER_BYTES {
            let mut frame = Vec::with_capacity(length.min(self.limits.claimed_bytes_max));
            frame.extend_from_slice(arrived);
            self.large = Some((frame, length));
            self.buffer.clear();
            self.start = 0;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: FrameLimits = FrameLimits {
        frame_bytes_max: 100_000,
        claimed_bytes_max: 32 * 1024,
    };

    /// Returns the frames that come out if the bytes arrive in pieces of `step`.
    fn cut(bytes: &[u8], step: usize) -> Result<Vec<Bytes>, BadLength> {
        let mut cutter = FrameCutter::new(LIMITS);
        let mut frames = Vec::new();
        let mut rest = bytes;
        loop {
            while let Some(frame) = cutter.take()? {
                frames.push(frame);
            }
            if rest.is_empty() {
                return Ok(frames);
            }
            let mut room = cutter.room();
            let count = step.min(rest.len()).min(room.remaining_mut());
            assert!(count > 0, "a cutter that needs bytes has room");
            room.put_slice(&rest[..count]);
            rest = &rest[count..];
        }
    }

    #[test]
    fn frames_come_out_complete_however_they_came_in() {
        let buffer = BUFFER_BYTES - LENGTH_BYTES;
        let sizes = [0, 1, 2048, buffer, buffer + 1, 50_000, 3, 100_000];
        let mut bytes = Vec::new();
        for size in sizes {
            bytes.extend_from_slice(&(size as i32).to_be_bytes());
            bytes.extend((0..size).map(|index| (index % 253) as u8));
        }
        for step in [1, 3, 1000, 4096, 1_000_000] {
            let frames = cut(&bytes, step).unwrap();
            assert_eq!(frames.iter().map(Bytes::len).collect::<Vec<_>>(), sizes);
            for frame in frames {
                let mut numbered = frame.iter().enumerate();
                assert!(numbered.all(|(index, byte)| *byte == (index % 253) as u8));
            }
        }
    }

    #[test]
    fn a_length_without_its_bytes_takes_no_memory() {
        let length: usize = 10 << 20;
        let mut cutter = FrameCutter::new(FrameLimits {
            frame_bytes_max: length,
            ..LIMITS
        });
        cutter.room().put_i32(length as i32);
        let mut received = 0;
        while received < length {
            assert_eq!(cutter.take(), Ok(None));
            let mut room = cutter.room();
            let count = room.remaining_mut();
            room.put_bytes(7, count);
            received += count;
            let (frame, _) = cutter.large.as_ref().unwrap();
            assert!(frame.capacity() <= LIMITS.claimed_bytes_max.max(received * 2));
        }
        let (frame, _) = cutter.large.as_ref().unwrap();
        assert_eq!(frame.capacity(), length, "exactly what the frame needs");
        let frame = cutter.take().unwrap().unwrap();
        assert_eq!(frame.len(), length);
        assert!(cutter.is_between_frames());
    }

    #[test]
    fn what_waits_in_the_buffer_is_limited() {
        let mut cutter = FrameCutter::new(LIMITS);
        for bytes in [FIRST_BUFFER_BYTES, BUFFER_BYTES - FIRST_BUFFER_BYTES] {
            assert!(!cutter.is_full());
            let mut room = cutter.room();
            assert_eq!(room.remaining_mut(), bytes, "a full buffer grows");
            room.put_bytes(0, bytes);
        }
        assert!(cutter.is_full() && !cutter.room().has_remaining_mut());
        assert_eq!(cutter.take(), Ok(Some(Bytes::new())));
        assert!(!cutter.is_full() && !cutter.is_between_frames());
        assert_eq!(cutter.room().remaining_mut(), LENGTH_BYTES);
    }

    #[test]
    fn impossible_lengths_are_refused() {
        for length in [-1, 100_001, i32::MAX, i32::MIN] {
            let bad = cut(&length.to_be_bytes(), 4).unwrap_err();
            assert_eq!(i32::from_be_bytes(bad.prefix), length);
        }
    }
}
