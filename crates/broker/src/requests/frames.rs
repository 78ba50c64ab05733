//! [`FrameCutter`]: cuts the bytes from a socket into frames. It knows no sockets.
//!
//! Small frames are slices of one read buffer. A larger one gets its own memory of exactly its
//! size, because the log may keep slices of it for long.

use bytes::buf::Limit;
use bytes::{BufMut, Bytes, BytesMut};

/// Frames up to this size share a read buffer.
const SHARED_FRAME_BYTES: usize = 2048;
const READ_BUFFER_BYTES: usize = 16 * 1024;
const LENGTH_BYTES: usize = 4;
/// The first memory for a large frame. It then doubles as bytes arrive, so that a length without
/// its bytes costs nothing.
const LARGE_FRAME_FIRST_BYTES: usize = 64 * 1024;

/// A length that no Kafka request has: HTTP, TLS, or an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadLength;

pub(crate) struct FrameCutter {
    frame_bytes_max: usize,
    buffer: BytesMut,
    /// A large frame that has arrived in part, and its length.
    large: Option<(BytesMut, usize)>,
}

impl FrameCutter {
    pub(crate) fn new(frame_bytes_max: usize) -> Self {
        Self {
            frame_bytes_max,
            buffer: BytesMut::new(),
            large: None,
        }
    }

    /// Returns the room for the next bytes.
    pub(crate) fn room(&mut self) -> Limit<&mut BytesMut> {
        if let Some((frame, length)) = &mut self.large {
            if frame.len() == frame.capacity() {
                grow(frame, *length);
            }
            let room = frame.capacity().min(*length) - frame.len();
            return frame.limit(room);
        }
        self.buffer.reserve(READ_BUFFER_BYTES);
        (&mut self.buffer).limit(READ_BUFFER_BYTES)
    }

    /// Whether there is more than what a connection reads at a time.
    pub(crate) fn has_plenty(&self) -> bool {
        self.buffer.len() >= READ_BUFFER_BYTES
    }

    /// The next frame, without its length, if it is whole.
    pub(crate) fn take(&mut self) -> Result<Option<Bytes>, BadLength> {
        if self.large.is_none() {
            let Some(length) = self.length()? else {
                return Ok(None);
            };
            if length <= SHARED_FRAME_BYTES {
                return Ok(self.take_small(length));
            }
            let present = self.buffer.len().min(LENGTH_BYTES + length);
            let first = LARGE_FRAME_FIRST_BYTES.max(present);
            let mut frame = BytesMut::with_capacity(length.min(first));
            frame.extend_from_slice(&self.buffer.split_to(present)[LENGTH_BYTES..]);
            self.large = Some((frame, length));
        }
        let whole = self.large.take_if(|(frame, length)| frame.len() == *length);
        Ok(whole.map(|(frame, _)| frame.freeze()))
    }

    fn length(&self) -> Result<Option<usize>, BadLength> {
        let Some(prefix) = self.buffer.first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = usize::try_from(i32::from_be_bytes(*prefix)).ok();
        match length.filter(|length| *length <= self.frame_bytes_max) {
            Some(length) => Ok(Some(length)),
            None => Err(BadLength),
        }
    }

    fn take_small(&mut self, length: usize) -> Option<Bytes> {
        if self.buffer.len() < LENGTH_BYTES + length {
            return None;
        }
        let mut frame = self.buffer.split_to(LENGTH_BYTES + length);
        Some(frame.split_off(LENGTH_BYTES).freeze())
    }
}

/// Moves a partial frame to memory of twice its size, but at most the frame's length.
fn grow(frame: &mut BytesMut, length: usize) {
    let mut larger = BytesMut::with_capacity(length.min(frame.len() * 2));
    larger.extend_from_slice(frame);
    *frame = larger;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the frames that come out if the bytes arrive in pieces of `step`.
    fn cut(bytes: &[u8], step: usize) -> Result<Vec<Bytes>, BadLength> {
        let mut cutter = FrameCutter::new(100_000);
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
            room.put_slice(&rest[..count]);
            rest = &rest[count..];
        }
    }

    #[test]
    fn frames_come_out_whole_however_they_came_in() {
        let sizes = [0, 1, 2048, 2049, 50_000, 3, 100_000];
        let mut bytes = Vec::new();
        for size in sizes {
            bytes.extend_from_slice(&(size as i32).to_be_bytes());
            bytes.extend((0..size).map(|index| (index % 253) as u8));
        }
        for step in [1, 3, 1000, 4096, 1_000_000] {
            let frames = cut(&bytes, step).unwrap();
            assert_eq!(frames.iter().map(Bytes::len).collect::<Vec<_>>(), sizes);
            for frame in frames {
                assert!(
                    frame
                        .iter()
                        .enumerate()
                        .all(|(index, byte)| *byte == (index % 253) as u8)
                );
            }
        }
    }

    #[test]
    fn a_length_alone_takes_no_memory() {
        let length: i32 = 100 << 20;
        let mut cutter = FrameCutter::new(length as usize);
        cutter.room().put_slice(&length.to_be_bytes());
        let mut received = 0;
        while received < 10 << 20 {
            assert_eq!(cutter.take(), Ok(None));
            let mut room = cutter.room();
            let count = room.remaining_mut();
            room.put_bytes(7, count);
            received += count;
            let (frame, _) = cutter.large.as_ref().unwrap();
            let allowed = received * 2 + LARGE_FRAME_FIRST_BYTES;
            assert!(frame.capacity() <= allowed, "{}", frame.capacity());
        }
    }

    #[test]
    fn impossible_lengths_are_refused() {
        for length in [-1, 100_001, i32::MAX, i32::MIN] {
            assert_eq!(cut(&length.to_be_bytes(), 4), Err(BadLength));
        }
    }
}
