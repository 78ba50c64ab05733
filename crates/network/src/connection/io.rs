//! A connection's task: writes the frames in its outbox and reads frames, until one side closes. In
//! between it authenticates again, when the cluster asks for it.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use thalweg_cluster::{ConnectionError, ConnectionId, Event, Frame};

use super::hint::closed_early;
use super::open::{Opened, Opener};
use super::outbox::Outbox;
use super::reader::FrameReader;
use super::writer::FrameWriter;
use crate::transport::BoxStream;

/// Takes the events of connections. This is the client actor's inbox.
pub(crate) trait EventSink: Send + Sync {
    fn push(&self, event: Event);
}

/// Why the task stops reading and writing although the connection works.
enum Pause {
    Closed,
    Reauthenticate,
}

struct Io {
    conn: ConnectionId,
    stream: BoxStream,
    outbox: Arc<Outbox>,
    taken: Vec<Frame>,
    reader: FrameReader,
    writer: FrameWriter,
    answered: bool,
    reauthenticate: bool,
    /// The error if the broker closes before it has responded to anything.
    unanswered: ConnectionError,
}

/// Runs a connection until it breaks (the sink then gets the error) or the outbox is closed.
pub(crate) async fn run(
    conn: ConnectionId,
    opened: Opened,
    outbox: Arc<Outbox>,
    sink: &dyn EventSink,
    opener: &Opener,
) {
    let Opened {
        stream,
        label,
        versions,
        ..
    } = opened;
    let mut io = Io {
        conn,
        stream,
        outbox,
        taken: Vec::new(),
        reader: FrameReader::new(opener.receive_max),
        writer: FrameWriter::default(),
        answered: false,
        reauthenticate: false,
        unanswered: closed_early(opener.tls.is_some(), opener.sasl.is_some()),
    };
    loop {
        let ended = match poll_fn(|cx| io.poll(sink, cx)).await {
            Ok(Pause::Closed) => return,
            Ok(Pause::Reauthenticate) => {
                let awaiting = |step| sink.push(Event::Awaiting { conn, step });
                let again = opener.reauthenticate(&mut io.stream, &label, &versions, &awaiting);
                match io.outbox.until_closed(again).await {
                    None => return,
                    Some(Ok(session)) => {
                        sink.push(Event::Authenticated { conn, session });
                        Ok(())
                    }
                    Some(Err(error)) => Err(ConnectionError::Reauthentication(Box::new(error))),
                }
            }
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            return sink.push(Event::Disconnected { conn, error });
        }
    }
}

impl Io {
    /// Returns `Ready(Ok)` when the outbox was closed, or when all is written and the connection is
    /// to authenticate again.
    fn poll(
        &mut self,
        sink: &dyn EventSink,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Pause, ConnectionError>> {
        let wanted = &mut self.reauthenticate;
        if !self.outbox.take(&mut self.taken, wanted, cx) {
            return Poll::Ready(Ok(Pause::Closed));
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
        // Read first: a response may come before the end of the stream that made the write fail.
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
            Poll::Ready(Ok(())) if self.reauthenticate => Poll::Ready(self.pause()),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
        }
    }

    /// Leaves the stream to a re-authentication. Nothing is in flight, so nothing may arrive.
    fn pause(&mut self) -> Result<Pause, ConnectionError> {
        if !self.reader.is_between_frames() {
            let reason = "the broker sent bytes while no request was in flight";
            return Err(ConnectionError::Malformed(reason.to_owned()));
        }
        self.reauthenticate = false;
        Ok(Pause::Reauthenticate)
    }

    fn end(&self) -> ConnectionError {
        if !self.reader.is_between_frames() {
            return ConnectionError::Io(
                "the broker closed the connection before the end of a response".to_owned(),
            );
        }
        if !self.answered {
            return self.unanswered.clone();
        }
        ConnectionError::ClosedByPeer
    }
}
