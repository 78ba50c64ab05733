//! One connection: it serves requests one after the other and writes the responses in the same
//! order.
//!
//! ```text
//! read a frame -> Core::handle -> Outcome -> write, wait, close or fall silent -> read ...
//! ```
//! Like Kafka, it serves the next request only when the last one has its response. So responses
//! keep their order, however long one of them waits. While a response waits, the connection reads
//! what follows, up to a limit, so that it notices a client that goes away. It then drops the
//! response, but still serves the requests that the client has sent: the client may be leaving a
//! group.

#![allow(clippy::disallowed_methods)] // clocks are read here, so that other modules need not

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use thalweg_protocol::{FrameCutter, FrameLimits};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep_until, timeout};

use super::tls::{Tls, subject};
use super::unread::{Held, Unread};
use super::{SharedCore, lock, wall_clock_ms};
use crate::{Connection, FaultAction, Outcome, Response, Wait};

/// The number of pieces passed to one write.
const WRITE_PIECES_MAX: usize = 64;

/// The most memory for a large frame before its bytes arrive. It is small, because anyone may
/// connect and claim a length.
const CLAIMED_BYTES_MAX: usize = 64 * 1024;
/// The same for a client that has not logged in.
const LOGIN_CLAIMED_BYTES_MAX: usize = 1024;

/// The limits of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) frame_bytes_max: usize,
    pub(super) idle: Duration,
    /// The largest frame, and the time, of a client that has not logged in.
    pub(super) login_frame_bytes_max: usize,
    pub(super) login: Duration,
}

impl Limits {
    fn before_login(self) -> FrameLimits {
        FrameLimits {
            frame_bytes_max: self.login_frame_bytes_max.min(self.frame_bytes_max),
            claimed_bytes_max: LOGIN_CLAIMED_BYTES_MAX,
        }
    }

    fn after_login(self) -> FrameLimits {
        FrameLimits {
            frame_bytes_max: self.frame_bytes_max,
            claimed_bytes_max: CLAIMED_BYTES_MAX,
        }
    }
}

/// What a connection holds until its client has logged in. Its number per node is limited.
pub(super) type LoginPermit = OwnedSemaphorePermit;

/// Serves a client, after the TLS handshake if there is one. The time for a login includes the
/// handshake.
pub(super) async fn serve_stream(
    core: SharedCore,
    connection: Connection,
    stream: TcpStream,
    limits: Limits,
    unread: Unread,
    (tls, permit): (Option<Arc<Tls>>, LoginPermit),
) {
    // Responses are complete frames, so waiting for more to send would only delay them.
    let _ = stream.set_nodelay(true);
    let login = Login {
        deadline: Instant::now() + limits.login,
        _permit: permit,
    };
    match tls {
        None => {
            serve_connection(core, connection, stream.into_split(), limits, unread, login).await;
        }
        // In a box, because a connection without TLS would otherwise have room for its state, too.
        Some(tls) => {
            let served = serve_tls(core, connection, stream, limits, unread, (tls, login));
            Box::pin(served).await;
        }
    }
}

async fn serve_tls(
    core: SharedCore,
    mut connection: Connection,
    stream: TcpStream,
    limits: Limits,
    unread: Unread,
    (tls, login): (Arc<Tls>, Login),
) {
    let fault = lock(&core).faults.take_for_tls(connection.node);
    let version = match fault {
        Some(FaultAction::TlsVersion(version)) => Some(version),
        Some(_) => {
            let _ = timeout(limits.login, stream.readable()).await;
            return;
        }
        None => None,
    };
    let tls = tls.acceptor(version);
    // A client that fails gets an alert, which says why.
    let Ok(Ok(stream)) = timeout(limits.login, tls.accept(stream)).await else {
        return;
    };
    if let Some(subject) = subject(stream.get_ref().1) {
        connection.identify(&subject);
    }
    let halves = tokio::io::split(stream);
    serve_connection(core, connection, halves, limits, unread, login).await;
}

/// Serves a client until it disconnects, is idle for too long, or must be cut off.
async fn serve_connection(
    core: SharedCore,
    mut connection: Connection,
    (read, mut write): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    limits: Limits,
    unread: Unread,
    login: Login,
) {
    let mut login = (!connection.is_authenticated()).then_some(login);
    let mut requests = Requests {
        frames: FrameReader {
            read,
            cutter: FrameCutter::new(match login {
                Some(_) => limits.before_login(),
                None => limits.after_login(),
            }),
        },
        ahead: None,
    };
    loop {
        let patience = match &login {
            Some(login) => login.deadline.saturating_duration_since(Instant::now()),
            None => limits.idle,
        }
        .min(limits.idle);
        // A client with frames in its buffer never waits.
        if patience.is_zero() {
            return;
        }
        let Some(frame) = requests.next(patience).await else {
            return;
        };
        let outcome = handle(&core, &mut connection, frame);
        if login.is_some() && connection.is_authenticated() {
            login = None;
            requests.frames.cutter.set_limits(limits.after_login());
        }
        let outcome = match outcome {
            Outcome::Wait(wait) => requests.wait(&core, wait).await,
            other => Some(other),
        };
        let mut mute_until = connection.take_mute();
        match outcome {
            Some(Outcome::Response(response)) => {
                mute_until = mute_until.max(response.mute_until);
                if let Some(time) = response.not_before
                    && !requests.sleep_until(time).await
                {
                    continue;
                }
                // A client that reads nothing must not stay in its login for longer, either.
                let patience = login.as_ref().map_or(limits.idle, |_| patience);
                if write_response(&mut write, &response, patience, &unread)
                    .await
                    .is_err()
                    || response.is_last
                {
                    return;
                }
            }
            Some(Outcome::Nothing) | None => {}
            Some(Outcome::Mute) => return requests.swallow().await,
            Some(Outcome::Close | Outcome::Wait(_)) => return,
        }
        // If the client goes away meanwhile, the next read notices it.
        if let Some(until) = mute_until {
            requests.sleep_until(until).await;
        }
    }
}

/// Handles a request, and records the time that this takes.
fn handle(core: &SharedCore, connection: &mut Connection, frame: Bytes) -> Outcome {
    let mut core = lock(core);
    let began = Instant::now();
    let outcome = core.handle(connection, frame, began, wall_clock_ms());
    let ended = Instant::now();
    core.spend_time(connection, ended - began, ended);
    outcome
}

/// The login of a client, until it has succeeded.
struct Login {
    deadline: Instant,
    _permit: LoginPermit,
}

/// A connection's frames, one of which may be read ahead.
struct Requests<R> {
    frames: FrameReader<R>,
    ahead: Option<Bytes>,
}

impl<R: AsyncRead + Unpin> Requests<R> {
    /// Returns the next frame, or `None` if the client has disconnected, was idle for too long, or
    /// does not speak Kafka's protocol.
    async fn next(&mut self, idle: Duration) -> Option<Bytes> {
        if let Some(frame) = self.ahead.take() {
            return Some(frame);
        }
        timeout(idle, self.frames.next()).await.ok()?.ok()?
    }

    /// Reads one frame ahead, or what follows it. False if the client is gone.
    async fn read_ahead(&mut self) -> bool {
        if self.ahead.is_some() {
            return self.frames.read_more().await;
        }
        match self.frames.next().await {
            Ok(Some(frame)) => {
                self.ahead = Some(frame);
                true
            }
            Ok(None) | Err(_) => false,
        }
    }

    /// `None`: the client went away.
    async fn wait(&mut self, core: &SharedCore, mut wait: Wait) -> Option<Outcome> {
        let deadline = wait.deadline();
        loop {
            let response = poll_fn(|context| {
                let now = Instant::now();
                match lock(core).poll_wait(&mut wait, context.waker(), now) {
                    Some(outcome) => Poll::Ready(outcome),
                    None => Poll::Pending,
                }
            });
            tokio::select! {
                biased;
                outcome = response => return Some(outcome),
                // At the deadline the next `poll_wait` has a response.
                () = at(deadline) => {}
                is_there = self.read_ahead() => if !is_there { break },
            }
        }
        lock(core).forget_wait(&wait, Instant::now());
        None
    }

    /// Returns false if the client disconnected before that time.
    async fn sleep_until(&mut self, time: Instant) -> bool {
        loop {
            tokio::select! {
                biased;
                () = sleep_until(time.into()) => return true,
                is_there = self.read_ahead() => if !is_there { return false },
            }
        }
    }

    /// Reads and ignores frames until the client disconnects.
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

/// Reads a connection's frames. If a call is cancelled, the bytes that it read stay here.
struct FrameReader<R> {
    read: R,
    cutter: FrameCutter,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// Returns the next frame, or `None` at the end of the stream.
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

    /// Reads what follows a frame. False at the end of the stream; never returns if too much waits
    /// already.
    async fn read_more(&mut self) -> bool {
        if self.cutter.is_full() {
            std::future::pending::<()>().await;
        }
        let read = self.read.read_buf(&mut self.cutter.room()).await;
        read.is_ok_and(|count| count > 0)
    }
}

/// Writes a response, unless others need its memory more.
async fn write_response(
    write: &mut (impl AsyncWrite + Unpin),
    response: &Response,
    idle: Duration,
    unread: &Unread,
) -> io::Result<()> {
    let Some(mut held) = unread.hold(response.own_bytes) else {
        return write_pieces(write, &response.pieces, idle, None).await;
    };
    let cut_off = held.cut_off();
    tokio::select! {
        written = write_pieces(write, &response.pieces, idle, Some(&mut held)) => written,
        () = cut_off => Err(io::ErrorKind::OutOfMemory.into()),
    }
}

/// Writes the pieces without copying them. A client that takes no bytes for too long counts as
/// idle, because it must not hold its response's memory.
async fn write_pieces(
    write: &mut (impl AsyncWrite + Unpin),
    pieces: &[Bytes],
    idle: Duration,
    mut held: Option<&mut Held>,
) -> io::Result<()> {
    let (mut index, mut offset) = (0, 0);
    while index < pieces.len() {
        // The slices are made again at each try, so that a connection has no room for them.
        let some = poll_fn(|context| {
            let mut slices = [IoSlice::new(&[]); WRITE_PIECES_MAX];
            let mut count = 0;
            for piece in pieces[index..].iter().take(WRITE_PIECES_MAX) {
                let from = if count == 0 { offset } else { 0 };
                slices[count] = IoSlice::new(&piece[from..]);
                count += 1;
            }
            Pin::new(&mut *write).poll_write_vectored(context, &slices[..count])
        });
        let mut written = timeout(idle, some).await??;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        if let Some(held) = &mut held {
            held.has_progressed();
        }
        while index < pieces.len() && written >= pieces[index].len() - offset {
            written -= pieces[index].len() - offset;
            index += 1;
            offset = 0;
        }
        offset += written;
    }
    // TLS may still have a part of the response.
    timeout(idle, write.flush()).await?
}
