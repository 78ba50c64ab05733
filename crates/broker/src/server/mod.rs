//! The broker's sockets. Only this module and those below it use tokio and read clocks.
//!
//! ```text
//! EmbeddedBroker --Command--> run (one thread, one current-thread runtime)
//!                               |- per node: accept -> per connection: serve_connection
//!                               '- tick at Core::next_deadline
//! ```

#![allow(clippy::disallowed_methods)] // clocks are read here, so that other modules need not

pub(crate) mod authority;
mod bound;
mod connection;
mod groups;
#[allow(unsafe_code)]
mod signals;
mod tls;
mod unread;

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener as StdListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::{Wake, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

use crate::server::signals::with_signals_blocked;
use crate::{BrokerError, Core};
use connection::{Limits, LoginPermit, serve_stream};
use unread::{UNREAD_BYTES_MAX, Unread};

pub(crate) use bound::BoundPort;
pub use groups::{GroupClock, GroupService};
pub(crate) use tls::Tls;

/// How long a caller waits for the broker's thread.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause after a failed accept (no file descriptors left), which prevents a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The limit on open connections of one node. Further ones are closed at once. Each connection may
/// hold a request and a response.
const CONNECTIONS_MAX: usize = 10_000;

pub(crate) type SharedCore = Arc<Mutex<Core>>;

/// Locks the core. A poisoned lock is ignored: a panic in a handler does not leave the core in a
/// state that breaks later requests.
pub(crate) fn lock(core: &Mutex<Core>) -> MutexGuard<'_, Core> {
    core.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the milliseconds since 1970.
pub(crate) fn wall_clock_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |time| time.as_millis() as i64)
}

enum Command {
    Stop {
        node: i32,
        done: mpsc::Sender<io::Result<()>>,
    },
    Start {
        node: i32,
        listener: StdListener,
        done: mpsc::Sender<io::Result<()>>,
    },
    Shutdown,
}

/// The thread with the sockets.
#[derive(Debug)]
pub(crate) struct Server {
    commands: UnboundedSender<Command>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Closed when the thread ends.
    finished: Mutex<mpsc::Receiver<()>>,
}

impl Server {
    /// Serves the nodes' listeners from a new thread.
    pub(crate) fn start(
        core: SharedCore,
        listeners: Vec<(i32, StdListener)>,
        tls: Option<Arc<Tls>>,
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
            runtime.block_on(run(core, listeners, tls, inbox, started));
            // Dropping the runtime drops its tasks and their sockets.
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

    /// Closes the node's listener and connections, then updates the topology.
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
        command: impl FnOnce(mpsc::Sender<io::Result<()>>) -> Command,
    ) -> Result<(), BrokerError> {
        let (done, is_done) = mpsc::channel();
        self.commands
            .send(command(done))
            .map_err(|_| BrokerError::Closed)?;
        match is_done.recv_timeout(PATIENCE) {
            Ok(outcome) => outcome.map_err(BrokerError::Thread),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(BrokerError::Closed),
            Err(mpsc::RecvTimeoutError::Timeout) => Err(BrokerError::Timeout {
                what,
                seconds: PATIENCE.as_secs(),
            }),
        }
    }

    /// Ends the thread, and waits at most [`PATIENCE`] for it. It may be called repeatedly.
    pub(crate) fn close(&self) {
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(thread) = thread else { return };
        // An error means that the thread has already ended.
        let _ = self.commands.send(Command::Shutdown);
        let finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = finished.recv_timeout(PATIENCE);
        if outcome == Err(mpsc::RecvTimeoutError::Disconnected) {
            // The thread has run its last statement, so this does not block. A panic was already
            // reported.
            let _ = thread.join();
        }
    }
}

/// A listening node. When it is told to stop, its task ends, and with it all its connections.
struct Running {
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

/// Woken when the core's deadline has become earlier.
#[derive(Default)]
struct Nearer(Notify);

impl Wake for Nearer {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

async fn run(
    core: SharedCore,
    listeners: Vec<(i32, StdListener)>,
    tls: Option<Arc<Tls>>,
    mut inbox: UnboundedReceiver<Command>,
    started: mpsc::Sender<io::Result<()>>,
) {
    let unread = Unread::new(UNREAD_BYTES_MAX);
    let mut nodes = BTreeMap::new();
    for (node, listener) in listeners {
        match spawn_node(&core, &unread, node, listener, tls.clone()) {
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
    let nearer = Arc::new(Nearer::default());
    let waker = Waker::from(Arc::clone(&nearer));
    loop {
        let deadline = lock(&core).poll_deadline(&waker);
        tokio::select! {
            command = inbox.recv() => match command {
                Some(Command::Stop { node, done }) => {
                    if let Some(running) = nodes.remove(&node) {
                        stop_node(running).await;
                    }
                    // The callers have checked the node's number.
                    let _ = lock(&core).stop_node(node, Instant::now());
                    let _ = done.send(Ok(()));
                }
                Some(Command::Start { node, listener, done }) => {
                    let spawned = spawn_node(&core, &unread, node, listener, tls.clone());
                    let spawned = spawned.map(|running| {
                        let _ = lock(&core).start_node(node, Instant::now());
                        nodes.insert(node, running);
                    });
                    let _ = done.send(spawned);
                }
                Some(Command::Shutdown) | None => return,
            },
            () = nearer.0.notified() => {}
            () = sleep_until(deadline.into()) => {
                lock(&core).tick(Instant::now(), wall_clock_ms());
            }
        }
    }
}

fn spawn_node(
    core: &SharedCore,
    unread: &Unread,
    node: i32,
    listener: StdListener,
    tls: Option<Arc<Tls>>,
) -> io::Result<Running> {
    listener.set_nonblocking(true)?;
    let listener = Listener(TcpListener::from_std(listener)?);
    let (stop, stopped) = oneshot::channel();
    let serving = serve_node(
        Arc::clone(core),
        unread.clone(),
        node,
        listener,
        tls,
        stopped,
    );
    let task = tokio::spawn(serving);
    Ok(Running { stop, task })
}

async fn stop_node(running: Running) {
    let _ = running.stop.send(());
    // An error would be a panic of the task, which has dropped its sockets too.
    let _ = running.task.await;
}

/// A listener that is shut down when it is dropped. Closing it is not enough: a forked child of the
/// program holds a copy, and the port would stay taken and still accept connections.
struct Listener(TcpListener);

impl Drop for Listener {
    fn drop(&mut self) {
        // Some systems refuse this for a listener. There, closing it must be enough.
        let _ = SockRef::from(&self.0).shutdown(Shutdown::Both);
    }
}

async fn serve_node(
    core: SharedCore,
    unread: Unread,
    node: i32,
    listener: Listener,
    tls: Option<Arc<Tls>>,
    mut stopped: oneshot::Receiver<()>,
) {
    let limits = {
        let core = lock(&core);
        Limits {
            frame_bytes_max: core.options.request_bytes_max,
            idle: Duration::from_millis(core.options.connections_max_idle_ms),
            login_frame_bytes_max: core.options.sasl_request_bytes_max,
            login: core.options.authentication_timeout,
        }
    };
    let logins = Arc::new(Semaphore::new({
        lock(&core).options.unauthenticated_connections_max
    }));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            Some(_) = connections.join_next() => {}
            accepted = accept(&listener.0, &logins) => match accepted {
                Ok(_) if connections.len() >= CONNECTIONS_MAX => {}
                Ok((stream, peer, permit)) => {
                    let ip = peer.ip().to_canonical().to_string();
                    if let Err(wait) = lock(&core).admit(&ip, Instant::now()) {
                        // Closed later, so that a client that tries at once gains nothing.
                        connections.spawn(async move {
                            sleep(wait).await;
                            drop((stream, permit));
                        });
                        continue;
                    }
                    let connection = lock(&core).connect(node, format!("/{}", peer.ip().to_canonical()));
                    connections.spawn(serve_stream(
                        Arc::clone(&core), connection, stream, limits, unread.clone(),
                        (tls.clone(), permit),
                    ));
                }
                Err(_) => sleep(ACCEPT_PAUSE).await,
            },
        }
    }
    drop(listener);
    connections.shutdown().await;
}

/// Accepts a connection when there is room for another client that has not logged in. Otherwise
/// clients that never log in could take all connections.
async fn accept(
    listener: &TcpListener,
    logins: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, LoginPermit)> {
    let permit = Arc::clone(logins).acquire_owned().await;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, permit.map_err(io::Error::other)?))
}

#[cfg(all(test, target_os = "linux"))] // elsewhere shutting a listener down may be refused
mod tests {
    use std::net::TcpStream;

    use super::*;
    use crate::NodeAddress;
    use crate::options::BrokerOptions;

    /// A copy of the listener stands for the one that a forked child holds.
    #[test]
    fn a_port_is_free_again_although_a_forked_child_holds_its_listener() {
        for ends_by in ["stop_node", "close"] {
            let listener = StdListener::bind(("127.0.0.1", 0)).unwrap();
            let address = listener.local_addr().unwrap();
            let copy = listener.try_clone().unwrap();
            let node = NodeAddress {
                host: "127.0.0.1".to_owned(),
                port: address.port(),
            };
            let options = BrokerOptions::parse(&BTreeMap::new()).unwrap();
            let core = Core::new(&[node], options, 42, Instant::now());
            let server =
                Server::start(Arc::new(Mutex::new(core)), vec![(1, listener)], None).unwrap();
            TcpStream::connect(address).unwrap();
            match ends_by {
                "stop_node" => server.stop_node(1).unwrap(),
                _ => server.close(),
            }
            let refused = TcpStream::connect(address).map(|_| ());
            assert!(refused.is_err(), "connected after {ends_by}");
            let again = StdListener::bind(address).unwrap();
            drop((copy, again));
            server.close();
        }
    }
}
