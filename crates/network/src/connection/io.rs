//! A connection's task: writes the frames in its outbox and reads frames, until one side closes.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use thalweg_cluster::{ConnectionError, ConnectionId, Event, Frame};

use super::outbox::Outbox;
use super::reader::FrameReader;
use super::writer::FrameWriter;
use crate::transport::BoxStream;

/// Takes the events of connections. This is the client actor's inbox.
pub(crate) trait EventSink: Send + Sync {
    fn push(&self, event: Event);
}

struct Io {
    conn: ConnectionId,
    stream: BoxStream,
    outbox: Arc<Outbox>,
    taken: Vec<Frame>,
    reader: FrameReader,
    writer: FrameWriter,
    answered: bool,
}

/// Runs a connection until it breaks (the sink then gets the error) or the outbox is closed.
pub(crate) async fn run(
    conn: ConnectionId,
    stream: BoxStream,
    outbox: Arc<Outbox>,
    sink: &dyn EventSink,
    receive_max: usize,
) {
    let mut io = Io {
        conn,
        stream,
        outbox,
        taken: Vec::new(),
        reader: FrameReader::new(receive_max),
        writer: FrameWriter::default(),
        answered: false,
    };
    if let Err(error) = poll_fn(|cx| io.poll(sink, cx)).await {
        sink.push(Event::Disconnected { conn, error });
    }
}

impl Io {
    /// Returns `Ready(Ok)` when the outbox was closed.
    fn poll(
        &mut self,
        sink: &dyn EventSink,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), ConnectionError>> {
        if !self.outbox.take(&mut self.taken, cx) {
            return Poll::Ready(Ok(()));
        }
        for frame in self.taken.drain(..) {
            self.writer.push(frame);
        }
        let written = self.writer.poll_write(&mut self.stream, cx);
        while let Some(request) = self.writer.poll_notify() {
            sink.push(Event::Written {
                conn: self.conn,
                request,
            });
        }
        // Read first: an answer may come before the end of the stream that made the write fail.
        loop {
            match self.reader.poll_frame(&mut self.stream, cx) {
                Poll::Ready(Ok(Some(frame))) => {
                    self.answered = true;
                    sink.push(Event::Frame {
                        conn: self.conn,
                        frame,
                    });
                }
                Poll::Ready(Ok(None)) => return Poll::Ready(Err(self.end())),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => break,
            }
        }
        match written {
            Poll::Ready(Err(error)) => Poll::Ready(Err(ConnectionError::Io(error.to_string()))),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
        }
    }

    fn end(&self) -> ConnectionError {
        if !self.reader.is_between_frames() {
            return ConnectionError::Io(
                "the broker closed the connection before the end of a response".to_owned(),
            );
        }
        if !self.answered {
            let hint = "the broker closed the connection without responding to a request. If \
                        the listener requires SASL, set security_protocol to SASL_PLAINTEXT or \
                        SASL_SSL";
            return ConnectionError::Io(hint.to_owned());
        }
        ConnectionError::ClosedByPeer
    }
}
