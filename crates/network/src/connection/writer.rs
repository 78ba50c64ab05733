//! Writes frames to a byte stream: many pieces per system call, none of them copied.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use thalweg_cluster::{Frame, RequestId};
use tokio::io::AsyncWrite as _;

use crate::transport::BoxStream;

/// The pieces passed to one system call. Linux accepts 1024, but more than this gains nothing.
const SLICES_MAX: usize = 64;

/// The writing half of a connection.
#[derive(Debug, Default)]
pub(super) struct FrameWriter {
    pieces: VecDeque<Bytes>,
    /// Total bytes queued, written, and taken by the socket. They tell where a frame ends in the
    /// stream. TLS has a buffer of its own between writing and the socket.
    queued: u64,
    written: u64,
    flushed: u64,
    notify: VecDeque<(u64, RequestId)>,
}

impl FrameWriter {
    pub(super) fn push(&mut self, frame: Frame) {
        self.queued += frame.len() as u64;
        self.pieces.push_back(frame.head);
        self.pieces.extend(
            frame
                .segments
                .into_iter()
                .filter(|segment| !segment.is_empty()),
        );
        if let Some(request) = frame.notify {
            self.notify.push_back((self.queued, request));
        }
    }

    /// Writes until nothing is left or the socket is full.
    pub(super) fn poll_write(
        &mut self,
        stream: &mut BoxStream,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let wrote = self.poll_pieces(stream, cx);
        if self.flushed < self.written && !matches!(wrote, Poll::Ready(Err(_))) {
            // TLS holds back data that does not fill a record. For TCP this does nothing.
            ready!(Pin::new(stream).poll_flush(cx))?;
            self.flushed = self.written;
        }
        wrote
    }

    fn poll_pieces(
        &mut self,
        stream: &mut BoxStream,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.pieces.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = self.pieces.len().min(SLICES_MAX);
            for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
                *slice = IoSlice::new(piece);
            }
            let wrote = ready!(Pin::new(&mut *stream).poll_write_vectored(cx, &slices[..count]))?;
            if wrote == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.advance(wrote);
        }
        Poll::Ready(Ok(()))
    }

    /// Drops the written pieces. A batch's buffer returns to its pool here.
    fn advance(&mut self, mut wrote: usize) {
        self.written += wrote as u64;
        while let Some(first) = self.pieces.front_mut() {
            if first.len() > wrote {
                first.advance(wrote);
                return;
            }
            wrote -= first.len();
            self.pieces.pop_front();
        }
    }

    /// Returns the next request that asked to be notified and that the socket has taken completely.
    pub(super) fn poll_notify(&mut self) -> Option<RequestId> {
        let &(end, request) = self.notify.front()?;
        if self.flushed < end {
            return None;
        }
        self.notify.pop_front();
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Waker;

    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    use super::*;

    /// Like a TLS stream: it accepts bytes while the socket is full.
    #[derive(Debug)]
    struct Buffering {
        is_full: Arc<AtomicBool>,
    }

    impl AsyncRead for Buffering {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for Buffering {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            if self.is_full.load(Ordering::Relaxed) {
                return Poll::Pending;
            }
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn a_frame_in_the_buffer_of_tls_is_not_written_yet() {
        let is_full = Arc::new(AtomicBool::new(true));
        let buffering = Buffering {
            is_full: Arc::clone(&is_full),
        };
        let mut stream: BoxStream = Box::new(buffering);
        let mut writer = FrameWriter::default();
        let request = RequestId(7);
        writer.push(Frame {
            head: Bytes::from_static(b"head"),
            segments: vec![Bytes::from_static(b"records")],
            notify: Some(request),
        });
        let cx = &mut Context::from_waker(Waker::noop());
        for _ in 0..2 {
            assert!(writer.poll_write(&mut stream, cx).is_pending());
            assert_eq!(writer.poll_notify(), None);
        }
        is_full.store(false, Ordering::Relaxed);
        assert!(writer.poll_write(&mut stream, cx).is_ready());
        assert_eq!(writer.poll_notify(), Some(request));
    }
}
