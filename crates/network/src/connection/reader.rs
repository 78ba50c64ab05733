//! Splits a byte stream into frames: many small ones per read, large ones into their own buffers.

use std::future::Future as _;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BufMut, Bytes, BytesMut};
use thalweg_cluster::ConnectionError;
use tokio::io::AsyncReadExt as _;

use super::hint::frame_length;
use crate::transport::BoxStream;

const PREFIX_BYTES: usize = 4;

/// One read takes up to this much ahead, so that small answers cost at most one system call each.
const AHEAD_BYTES: usize = 16 * 1024;

/// The most memory reserved for a large frame before its bytes arrive, as its length is only the
/// peer's claim. It is twice what a fetch requests by default, because a growing buffer is copied.
/// The system assigns pages only as bytes arrive.
const CLAIMED_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The reading half of a connection.
#[derive(Debug)]
pub(super) struct FrameReader {
    receive_max: usize,
    /// Bytes read ahead. They start with a frame's length.
    ahead: BytesMut,
    /// A frame that is too large for `ahead`, and its full size.
    large: Option<(BytesMut, usize)>,
}

impl FrameReader {
    pub(super) fn new(receive_max: usize) -> Self {
        Self {
            receive_max,
            ahead: BytesMut::with_capacity(AHEAD_BYTES),
            large: None,
        }
    }

    /// Whether no frame is partly read, so that the peer may close without cutting one.
    pub(super) fn is_between_frames(&self) -> bool {
        self.ahead.is_empty() && self.large.is_none()
    }

    /// Returns the next frame without its length, or `Ok(None)` at the end of the stream.
    pub(super) fn poll_frame(
        &mut self,
        stream: &mut BoxStream,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ConnectionError>> {
        loop {
            if let Some(frame) = self.buffered()? {
                return Poll::Ready(Ok(Some(frame)));
            }
            let read = if let Some((body, size)) = &mut self.large {
                let missing = *size - body.len();
                if body.len() == body.capacity() {
                    body.reserve(missing.min(body.len()));
                }
                ready!(poll_read(stream, &mut (&mut *body).limit(missing), cx))
            } else {
                // Nothing else holds this buffer, so this moves the remaining bytes to its front.
                self.ahead.reserve(AHEAD_BYTES - self.ahead.len());
                let room = AHEAD_BYTES - self.ahead.len();
                ready!(poll_read(stream, &mut (&mut self.ahead).limit(room), cx))
            };
            match read {
                Ok(0) => return Poll::Ready(Ok(None)),
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(ConnectionError::Io(error.to_string()))),
            }
        }
    }

    /// Returns a frame that needs no further reading. A large frame moves to its own buffer.
    fn buffered(&mut self) -> Result<Option<Bytes>, ConnectionError> {
        if let Some((body, size)) = &self.large {
            if body.len() < *size {
                return Ok(None);
            }
            return Ok(self.large.take().map(|(body, _)| body.freeze()));
        }
        let Some(prefix) = self.ahead.first_chunk::<PREFIX_BYTES>() else {
            return Ok(None);
        };
        let size = frame_length(*prefix, self.receive_max)?;
        if self.ahead.len() >= PREFIX_BYTES + size {
            self.ahead.advance(PREFIX_BYTES);
            // Copied, because a small frame must not keep the read-ahead buffer alive.
            let frame = Bytes::copy_from_slice(&self.ahead[..size]);
            self.ahead.advance(size);
            return Ok(Some(frame));
        }
        if PREFIX_BYTES + size > AHEAD_BYTES {
            let mut body = BytesMut::with_capacity(size.min(CLAIMED_BYTES_MAX));
            body.put_slice(&self.ahead[PREFIX_BYTES..]);
            self.ahead.clear();
            self.large = Some((body, size));
        }
        Ok(None)
    }
}

/// Reads once into spare room, which need not be zeroed first.
fn poll_read(
    stream: &mut BoxStream,
    room: &mut impl BufMut,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    // The future keeps no state between polls, so a new one each time loses nothing.
    pin!(stream.read_buf(room)).poll(cx)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn a_frame_takes_memory_as_its_bytes_come() {
        let (mut near, far) = tokio::io::duplex(64 * 1024);
        let mut stream: BoxStream = Box::new(far);
        let mut reader = FrameReader::new(100_000_000);
        let claim = 90_000_000_i32.to_be_bytes();
        let bytes = [&claim[..], &vec![7; 20_000]].concat();
        near.write_all(&bytes).await.expect("it fits into the pipe");
        drop(near);
        let end = poll_fn(|cx| reader.poll_frame(&mut stream, cx)).await;
        assert_eq!(end, Ok(None), "the stream ends within the frame");
        let (body, size) = reader.large.expect("a frame was begun");
        assert_eq!((body.len(), size), (20_000, 90_000_000));
        assert!(
            body.capacity() <= 2 * CLAIMED_BYTES_MAX,
            "{}",
            body.capacity()
        );
    }

    #[tokio::test]
    async fn a_frame_larger_than_its_first_room_comes_whole() {
        let (mut near, far) = tokio::io::duplex(64 * 1024);
        let mut stream: BoxStream = Box::new(far);
        let mut reader = FrameReader::new(100_000_000);
        let sent: Vec<u8> = (0..5 * CLAIMED_BYTES_MAX / 2).map(|n| n as u8).collect();
        let claim = u32::to_be_bytes(sent.len() as u32);
        let bytes = [&claim[..], &sent].concat();
        let writing = tokio::spawn(async move { near.write_all(&bytes).await });
        let frame = poll_fn(|cx| reader.poll_frame(&mut stream, cx)).await;
        assert_eq!(frame, Ok(Some(Bytes::from(sent))));
        writing.await.expect("no panic").expect("all was read");
    }
}
