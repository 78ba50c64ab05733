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
    /// Total bytes queued and written. They tell where a frame ends in the stream.
    queued: u64,
    written: u64,
    notify: VecDeque<(u64, RequestId)>,
    unflushed: bool,
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
            self.unflushed = true;
            self.advance(wrote);
        }
        if self.unflushed {
            // TLS holds back data that does not fill a record. For TCP this does nothing.
            ready!(Pin::new(stream).poll_flush(cx))?;
            self.unflushed = false;
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

    /// Returns the next completely written request that asked to be notified.
    pub(super) fn poll_notify(&mut self) -> Option<RequestId> {
        let &(end, request) = self.notify.front()?;
        if self.written < end {
            return None;
        }
        self.notify.pop_front();
        Some(request)
    }
}
