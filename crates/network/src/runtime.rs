//! One runtime per process: the I/O thread and the codec threads, started at first use.
//!
//! A forked child makes its own (see [`PerProcess`]). A counter, which a `pthread_atfork` handler
//! increments, tells a handle in a few nanoseconds that it was inherited.
#![allow(unsafe_code)]

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::codec_pool::CodecPool;
use crate::error::ClientError;
use crate::per_process::PerProcess;
use crate::signals::with_signals_blocked;

static CELL: PerProcess<Cell> = PerProcess::new();
static FORKS: AtomicU64 = AtomicU64::new(0);

#[derive(Default)]
struct Cell {
    runtime: OnceLock<Runtime>,
    starting: Mutex<()>,
}

/// The process's runtime.
pub struct Runtime {
    handle: tokio::runtime::Handle,
    codec: CodecPool,
    thread: Mutex<Option<IoThread>>,
}

struct IoThread {
    stop: oneshot::Sender<()>,
    stopped: mpsc::Receiver<()>,
}

/// The process that a handle belongs to, numbered by forks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation(u64);

impl Generation {
    pub fn current() -> Self {
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Whether a parent process made the handle.
    pub fn is_inherited(self) -> bool {
        self != Self::current()
    }
}

impl Runtime {
    /// Returns the runtime of this process, and starts it if necessary.
    pub fn current() -> Result<&'static Self, ClientError> {
        let cell = CELL.get_or_make(Cell::default);
        if let Some(runtime) = cell.runtime.get() {
            return Ok(runtime);
        }
        let _starting = cell.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = cell.runtime.get() {
            return Ok(runtime);
        }
        let runtime = Self::start().map_err(|error| ClientError::System(error.to_string()))?;
        Ok(cell.runtime.get_or_init(|| runtime))
    }

    /// Returns the runtime of this process if it was started.
    pub fn existing() -> Option<&'static Self> {
        CELL.existing()?.runtime.get()
    }

    fn start() -> io::Result<Self> {
        watch_forks();
        let (stop, stop_asked) = oneshot::channel::<()>();
        let (handle_out, handle_in) = mpsc::sync_channel(1);
        let (stopped_out, stopped) = mpsc::sync_channel(1);
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .thread_name("thalweg-blocking")
                .build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => {
                    let _ = handle_out.send(Err(error));
                    return;
                }
            };
            let _ = handle_out.send(Ok(runtime.handle().clone()));
            let _ = runtime.block_on(stop_asked);
            // A name lookup may hang in a blocking thread. It must not delay the end of the
            // process.
            runtime.shutdown_background();
            let _ = stopped_out.send(());
        };
        let builder = thread::Builder::new().name("thalweg-io".to_owned());
        with_signals_blocked(|| builder.spawn(run))?;
        let ended = |_| io::Error::other("the I/O thread ended at its start");
        let handle = handle_in.recv().map_err(ended)??;
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            handle,
            // One per core. An idle core should be used, and a core that the application or the I/O
            // thread needs is shared by the system's scheduler.
            codec: CodecPool::new(cores),
            thread: Mutex::new(Some(IoThread { stop, stopped })),
        })
    }

    /// Ends the threads. Returns false if the I/O thread did not end in time. Close all clients
    /// first: whatever they still hold is lost. Nothing can be started in this process afterwards.
    pub fn shutdown(&self, timeout: Duration) -> bool {
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        self.codec.stop();
        let Some(IoThread { stop, stopped }) = thread else {
            return true;
        };
        let _ = stop.send(());
        stopped.recv_timeout(timeout).is_ok()
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(task);
    }

    pub(crate) fn codec(&self) -> &CodecPool {
        &self.codec
    }
}

/// Counts forks, in the child. The handler is only one atomic add.
fn watch_forks() {
    #[cfg(unix)]
    {
        static ONCE: std::sync::Once = std::sync::Once::new();
        extern "C" fn in_child() {
            FORKS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the handler is async-signal-safe and lives as long as the process.
        ONCE.call_once(|| unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        });
    }
}
