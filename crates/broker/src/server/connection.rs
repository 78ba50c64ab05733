//! One connection: its requests one after the other, its answers in their order.
//!
//! ```text
//! read a frame -> Core::handle -> Outcome -> write, wait, close or fall silent -> read ...
//! ```
//! As Kafka does, the next request is served when the last one is answered, so answers keep their
//! order however long one of them waits. While it waits the next frame is read, so that a client
//! that goes away is noticed.

#![allow(clippy::disallowed_methods)] // the clocks are read here, so that they need not be elsewhere

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{sleep_until, timeout};

use super::{SharedCore, lock, wall_clock_ms};
use crate::frames::FrameCutter;
use crate::{Answer, Connection, Outcome, Wait};

/// Pieces handed to one write.
const WRITE_PIECES_MAX: usize = 64;

/// What a connection may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) frame_bytes_max: usize,
    pub(super) idle: Duration,
}
/// Serves a client until it goes away, falls silent for too long, or must be cut off.
pub(super) async fn serve_connection(
    core: SharedCore,
    connection: Connection,
    stream: TcpStream,
    limits: Limits,
) {
    // Answers are whole frames: waiting for more to send would only delay them.
    let _ = stream.set_nodelay(true);
    let (read, mut write) = stream.into_split();
    let mut requests = Requests {
        frames: FrameReader {
            read,
            cutter: FrameCutter::new(limits.frame_bytes_max),
        },
        ahead: None,
    };
    while let Some(frame) = requests.next(limits.idle).await {
        let outcome = lock(&core).handle(&connection, frame, Instant::now(), wall_clock_ms());
        let outcome = match outcome {
            Outcome::Wait(wait) => requests.wait(&core, wait).await,
            other => Some(other),
        };
        match outcome {
            Some(Outcome::Answer(Answer { pieces, not_before })) => {
                if let Some(time) = not_before
                    && !requests.sleep_until(time).await
                {
                    return;
                }
                if write_pieces(&mut write, &pieces, limits.idle)
                    .await
                    .is_err()
                {
                    return;
                }
            }
            Some(Outcome::Nothing) => {}
            Some(Outcome::Mute) => return requests.swallow().await,
            Some(Outcome::Close | Outcome::Wait(_)) | None => return,
        }
    }
}

/// A connection's frames, one of which may be read ahead.
struct Requests {
    frames: FrameReader,
    ahead: Option<Bytes>,
}

impl Requests {
    /// `None`: the client is gone, idle for too long, or does not speak Kafka's protocol.
    async fn next(&mut self, idle: Duration) -> Option<Bytes> {
        if let Some(frame) = self.ahead.take() {
            return Some(frame);
        }
        timeout(idle, self.frames.next()).await.ok()?.ok()?
    }

    /// Reads one frame ahead if there is none; false if the client is gone. Never returns
    /// otherwise, unless a frame came.
    async fn read_ahead(&mut self) -> bool {
        if self.ahead.is_some() {
            std::future::pending::<()>().await;
        }
        match self.frames.next().await {
            Ok(Some(frame)) => {
                self.ahead = Some(frame);
                true
            }
            Ok(None) | Err(_) => false,
        }
    }

    async fn wait(&mut self, core: &SharedCore, mut wait: Wait) -> Option<Outcome> {
        let deadline = wait.deadline();
        loop {
            let answer = poll_fn(|context| {
                let now = Instant::now();
                match lock(core).poll_wait(&mut wait, context.waker(), now) {
                    Some(outcome) => Poll::Ready(outcome),
                    None => Poll::Pending,
                }
            });
            tokio::select! {
                biased;
                outcome = answer => return Some(outcome),
                // At the deadline the next look has an answer.
                () = at(deadline) => {}
                is_there = self.read_ahead() => if !is_there { break },
            }
        }
        lock(core).forget_wait(&wait, Instant::now());
        None
    }

    /// False if the client went away before the time.
    async fn sleep_until(&mut self, time: Instant) -> bool {
        loop {
            tokio::select! {
                biased;
                () = sleep_until(time.into()) => return true,
                is_there = self.read_ahead() => if !is_there { return false },
            }
        }
    }

    /// Reads and forgets until the client goes away.
    async fn swallow(&mut self) {
        while let Ok(Some(_)) = self.frames.next().await {}
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

/// A connection's frames. What was read stays here if a call is cancelled.
struct FrameReader {
    read: OwnedReadHalf,
    cutter: FrameCutter,
}

impl FrameReader {
    /// `None` at the end of the stream.
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            let frame = self.cutter.take();
            let not_kafka = |_| io::Error::new(io::ErrorKind::InvalidData, "not a Kafka request");
            if let Some(frame) = frame.map_err(not_kafka)? {
                return Ok(Some(frame));
            }
            if self.read.read_buf(&mut self.cutter.room()).await? == 0 {
                return Ok(None);
            }
        }
    }
}

/// Writes the pieces from where they lie. A client that takes nothing of them for too long is as
/// idle as one that asks nothing: it must not hold its answer's memory.
async fn write_pieces(
    write: &mut OwnedWriteHalf,
    pieces: &[Bytes],
    idle: Duration,
) -> io::Result<()> {
    let (mut index, mut offset) = (0, 0);
    while index < pieces.len() {
        let mut slices = [IoSlice::new(&[]); WRITE_PIECES_MAX];
        let mut count = 0;
        for piece in pieces[index..].iter().take(WRITE_PIECES_MAX) {
            let from = if count == 0 { offset } else { 0 };
            slices[count] = IoSlice::new(&piece[from..]);
            count += 1;
        }
        let mut written = timeout(idle, write.write_vectored(&slices[..count])).await??;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        while index < pieces.len() && written >= pieces[index].len() - offset {
            written -= pieces[index].len() - offset;
            index += 1;
            offset = 0;
        }
        offset += written;
    }
    Ok(())
}
