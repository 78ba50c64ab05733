//! The broker's sockets: the only file that knows tokio, and the only one that looks at clocks.
//!
//! ```text
//! EmbeddedBroker --Command--> run (one thread, one current-thread runtime)
//!                               |- per node: accept -> per connection: serve_connection
//!                               '- tick at Core::next_deadline
//! serve_connection: read a frame -> Core::handle -> Outcome -> write, wait, close or fall silent
//! ```
//! A connection's requests are served one after the other, as Kafka does, so answers keep their
//! order however long one of them waits; while it waits the next frame is read, so that a client
//! that goes away is noticed. Other connections go on meanwhile.

#![allow(clippy::disallowed_methods)] // the clocks are read here, so that they need not be elsewhere

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::TcpListener as StdListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout};

use crate::frames::FrameCutter;
use crate::signals::with_signals_blocked;
use crate::{Answer, BrokerError, Connection, Core, Outcome, Wait};

/// How long a caller waits for the broker's thread.
const PATIENCE: Duration = Duration::from_secs(10);
/// After a failed accept (no file descriptors left): no busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Pieces handed to one write.
const WRITE_PIECES_MAX: usize = 64;

pub(crate) type SharedCore = Arc<Mutex<Core>>;

/// The core is never left half changed by a panic in a handler that matters to others: whoever
/// comes next goes on.
pub(crate) fn lock(core: &Mutex<Core>) -> MutexGuard<'_, Core> {
    core.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Milliseconds since 1970.
pub(crate) fn wall_clock_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |time| time.as_millis() as i64)
}

enum Command {
    Stop {
        node: i32,
        done: mpsc::Sender<()>,
    },
    Start {
        node: i32,
        listener: StdListener,
        done: mpsc::Sender<()>,
    },
    Shutdown,
}

/// What a connection may take.
#[derive(Debug, Clone, Copy)]
struct Limits {
    frame_bytes_max: usize,
    idle: Duration,
}

/// The thread with the sockets.
#[derive(Debug)]
pub(crate) struct Server {
    commands: UnboundedSender<Command>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Closed when the thread is done.
    finished: Mutex<mpsc::Receiver<()>>,
}

impl Server {
    /// Serves the nodes' listeners from a thread of its own.
    pub(crate) fn start(
        core: SharedCore,
        listeners: Vec<(i32, StdListener)>,
    ) -> Result<Self, BrokerError> {
        let (commands, inbox) = unbounded_channel();
        let (alive, finished) = mpsc::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(BrokerError::Thread)?;
        let (started, is_started) = mpsc::channel();
        let body = move || {
            let _alive = alive;
            runtime.block_on(run(core, listeners, inbox, started));
            // Dropping the runtime drops its tasks, and with them the sockets.
        };
        let builder = std::thread::Builder::new().name("thalweg-broker".to_owned());
        let thread = with_signals_blocked(|| builder.spawn(body)).map_err(BrokerError::Thread)?;
        is_started
            .recv()
            .map_err(|_| BrokerError::Closed)?
            .map_err(BrokerError::Thread)?;
        Ok(Self {
            commands,
            thread: Mutex::new(Some(thread)),
            finished: Mutex::new(finished),
        })
    }

    /// Closes the node's listener and connections, then lets the topology know.
    pub(crate) fn stop_node(&self, node: i32) -> Result<(), BrokerError> {
        self.ask("stop a node", |done| Command::Stop { node, done })
    }

    pub(crate) fn start_node(&self, node: i32, listener: StdListener) -> Result<(), BrokerError> {
        self.ask("start a node", |done| Command::Start {
            node,
            listener,
            done,
        })
    }

    fn ask(
        &self,
        what: &'static str,
        command: impl FnOnce(mpsc::Sender<()>) -> Command,
    ) -> Result<(), BrokerError> {
        let (done, is_done) = mpsc::channel();
        self.commands
            .send(command(done))
            .map_err(|_| BrokerError::Closed)?;
        match is_done.recv_timeout(PATIENCE) {
            Ok(()) => Ok(()),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(BrokerError::Closed),
            Err(mpsc::RecvTimeoutError::Timeout) => Err(BrokerError::Timeout {
                what,
                seconds: PATIENCE.as_secs(),
            }),
        }
    }

    /// Ends the thread; at most [`PATIENCE`] is waited for it. Any number of times.
    pub(crate) fn close(&self) {
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(thread) = thread else { return };
        // An error means that the thread is over already.
        let _ = self.commands.send(Command::Shutdown);
        let finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = finished.recv_timeout(PATIENCE);
        if outcome == Err(mpsc::RecvTimeoutError::Disconnected) {
            // It is past its last statement, so this does not block; a panic was reported.
            let _ = thread.join();
        }
    }
}

/// A node that listens: its task ends, and with it all its connections, when told.
struct Running {
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

async fn run(
    core: SharedCore,
    listeners: Vec<(i32, StdListener)>,
    mut inbox: UnboundedReceiver<Command>,
    started: mpsc::Sender<io::Result<()>>,
) {
    let mut nodes = BTreeMap::new();
    for (node, listener) in listeners {
        match spawn_node(&core, node, listener) {
            Ok(running) => {
                nodes.insert(node, running);
            }
            Err(error) => {
                let _ = started.send(Err(error));
                return;
            }
        }
    }
    let _ = started.send(Ok(()));
    loop {
        let deadline = lock(&core).next_deadline();
        tokio::select! {
            command = inbox.recv() => match command {
                Some(Command::Stop { node, done }) => {
                    if let Some(running) = nodes.remove(&node) {
                        stop_node(running).await;
                    }
                    // The callers checked the node's number.
                    let _ = lock(&core).stop_node(node);
                    let _ = done.send(());
                }
                Some(Command::Start { node, listener, done }) => {
                    if let Ok(running) = spawn_node(&core, node, listener) {
                        let _ = lock(&core).start_node(node);
                        nodes.insert(node, running);
                        let _ = done.send(());
                    }
                }
                Some(Command::Shutdown) | None => return,
            },
            () = sleep_until(deadline.into()) => {
                lock(&core).tick(Instant::now(), wall_clock_ms());
            }
        }
    }
}

fn spawn_node(core: &SharedCore, node: i32, listener: StdListener) -> io::Result<Running> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(serve_node(Arc::clone(core), node, listener, stopped));
    Ok(Running { stop, task })
}

async fn stop_node(running: Running) {
    let _ = running.stop.send(());
    // An error would be a panic of the task, which has dropped its sockets too.
    let _ = running.task.await;
}

async fn serve_node(
    core: SharedCore,
    node: i32,
    listener: TcpListener,
    mut stopped: oneshot::Receiver<()>,
) {
    let limits = {
        let core = lock(&core);
        Limits {
            frame_bytes_max: core.options.request_bytes_max,
            idle: Duration::from_millis(core.options.connections_max_idle_ms),
        }
    };
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let connection = Connection { node, client_host: peer.ip().to_string() };
                    connections.spawn(serve_connection(
                        Arc::clone(&core), connection, stream, limits,
                    ));
                }
                Err(_) => sleep(ACCEPT_PAUSE).await,
            },
        }
    }
    drop(listener);
    connections.shutdown().await;
}

async fn serve_connection(
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
                if write_pieces(&mut write, &pieces).await.is_err() {
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
        lock(core).forget_wait(&wait);
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

/// Writes the pieces from where they lie.
async fn write_pieces(write: &mut OwnedWriteHalf, pieces: &[Bytes]) -> io::Result<()> {
    let (mut index, mut offset) = (0, 0);
    while index < pieces.len() {
        let mut slices = [IoSlice::new(&[]); WRITE_PIECES_MAX];
        let mut count = 0;
        for piece in pieces[index..].iter().take(WRITE_PIECES_MAX) {
            let from = if count == 0 { offset } else { 0 };
            slices[count] = IoSlice::new(&piece[from..]);
            count += 1;
        }
        let mut written = write.write_vectored(&slices[..count]).await?;
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
