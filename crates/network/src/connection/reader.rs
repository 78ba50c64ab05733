//! From a byte stream to frames: small ones by one read, large ones into a buffer of their size.

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

/// One read takes up to this much ahead, so that small answers cost one system call each (or less).
const AHEAD_BYTES: usize = 16 * 1024;

/// The reading half of a connection.
#[derive(Debug)]
pub(super) struct FrameReader {
    receive_max: usize,
    /// Read ahead: starts at a frame's length.
    ahead: BytesMut,
    /// A frame too large for `ahead`, and its whole size.
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

    /// Nothing of a frame has been read: the peer may close without cutting one.
    pub(super) fn is_between_frames(&self) -> bool {
        self.ahead.is_empty() && self.large.is_none()
    }

    /// The next frame without its length. `Ok(None)` is the end of the stream.
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
                ready!(poll_read(stream, &mut (&mut *body).limit(missing), cx))
            } else {
                // Nothing else holds this buffer, so this moves the rest to its front.
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

    /// A frame that needs no further reading. A large one is moved to a buffer of its own.
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
            // Copied: a small frame must not keep the whole buffer alive.
            let frame = Bytes::copy_from_slice(&self.ahead[..size]);
            self.ahead.advance(size);
            return Ok(Some(frame));
        }
        if PREFIX_BYTES + size > AHEAD_BYTES {
            let mut body = BytesMut::with_capacity(size);
            body.put_slice(&self.ahead[PREFIX_BYTES..]);
            self.ahead.clear();
            self.large = Some((body, size));
        }
        Ok(None)
    }
}

/// One read into spare room that need not be zeroed first.
fn poll_read(
    stream: &mut BoxStream,
    room: &mut impl BufMut,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    // The future keeps nothing between polls, so a new one each time loses nothing.
    pin!(stream.read_buf(room)).poll(cx)
}
