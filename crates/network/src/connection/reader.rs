//! Reads frames from a stream.

use std::future::Future as _;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes};
use thalweg_cluster::ConnectionError;
use thalweg_protocol::{FrameCutter, FrameLimits};
use tokio::io::AsyncReadExt as _;

use super::hint::explain;
use crate::transport::BoxStream;

/// The most memory reserved for a large frame before its bytes arrive, as its length is only the
/// peer's claim. It is twice what a fetch requests by default, because a growing frame may be
/// copied. The system assigns pages only as bytes arrive.
const CLAIMED_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The reading half of a connection.
#[derive(Debug)]
pub(super) struct FrameReader {
    cutter: FrameCutter,
}

impl FrameReader {
    pub(super) fn new(receive_max: usize) -> Self {
        Self {
            cutter: FrameCutter::new(FrameLimits {
                frame_bytes_max: receive_max,
                claimed_bytes_max: CLAIMED_BYTES_MAX,
            }),
        }
    }

    /// Whether no frame is partly read, so that the peer may close without cutting one.
    pub(super) fn is_between_frames(&self) -> bool {
        self.cutter.is_between_frames()
    }

    /// Returns the next frame without its length, or `Ok(None)` at the end of the stream.
    pub(super) fn poll_frame(
        &mut self,
        stream: &mut BoxStream,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ConnectionError>> {
        loop {
            match self.cutter.take() {
                Ok(Some(frame)) => return Poll::Ready(Ok(Some(frame))),
                Ok(None) => {}
                Err(bad) => return Poll::Ready(Err(ConnectionError::Malformed(explain(bad)))),
            }
            match ready!(poll_read(stream, &mut self.cutter.room(), cx)) {
                Ok(0) => return Poll::Ready(Ok(None)),
                Ok(_) => {}
                // TLS: the broker closed without a closure alert. Frames have lengths, so the
                // client still notices a frame that was cut short.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Poll::Ready(Ok(None));
                }
                Err(error) => return Poll::Ready(Err(ConnectionError::Io(error.to_string()))),
            }
        }
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
    use std::pin::Pin;

    use tokio::io::{AsyncRead, AsyncWriteExt as _, ReadBuf};

    use super::*;

    #[tokio::test]
    async fn a_stream_may_end_within_a_frame() {
        let (mut near, far) = tokio::io::duplex(64 * 1024);
        let mut stream: BoxStream = Box::new(far);
        let mut reader = FrameReader::new(100_000_000);
        let claim = 90_000_000_i32.to_be_bytes();
        let bytes = [&claim[..], &vec![7; 20_000]].concat();
        near.write_all(&bytes).await.expect("it fits into the pipe");
        drop(near);
        let end = poll_fn(|cx| reader.poll_frame(&mut stream, cx)).await;
        assert_eq!(end, Ok(None));
        assert!(!reader.is_between_frames());
    }

    #[tokio::test]
    async fn a_close_without_an_alert_of_tls_is_the_end_of_the_stream() {
        /// Fails as rustls does if the peer closes without a closure alert.
        struct Cut;
        impl AsyncRead for Cut {
            fn poll_read(
                self: Pin<&mut Self>,
                _: &mut Context<'_>,
                _: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                let text = "peer closed connection without sending TLS close_notify: https://...";
                Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, text)))
            }
        }
        let mut stream: BoxStream = Box::new(tokio::io::join(Cut, tokio::io::sink()));
        let mut reader = FrameReader::new(1000);
        let end = poll_fn(|cx| reader.poll_frame(&mut stream, cx)).await;
        assert_eq!(end, Ok(None));
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
