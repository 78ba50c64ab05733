//! One runtime a process: the I/O thread and the codec threads, started at first use.
//!
//! The cell is keyed by process id. A forked child finds its parent's cell, leaves it alone (its
//! threads do not exist here, its locks may be held for ever) and makes a new one. A counter that
//! `pthread_atfork` moves tells a handle in a few nanoseconds that it was inherited.
#![allow(unsafe_code)]

use std::future::Future;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::codec_pool::CodecPool;
use crate::signals::with_signals_blocked;

static CELL: AtomicPtr<Cell> = AtomicPtr::new(ptr::null_mut());
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Never freed: handles refer to it for as long as the process lives, and a child leaks its parent's.
struct Cell {
    pid: u32,
    runtime: OnceLock<Runtime>,
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

/// Which process, counted by forks, a handle belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generation(u64);

impl Generation {
    pub(crate) fn current() -> Self {
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// The handle was made by a parent process.
    pub(crate) fn is_inherited(self) -> bool {
        self != Self::current()
    }
}

impl Runtime {
    /// The runtime of this process; starts it if there is none.
    pub fn current() -> &'static Self {
        let pid = std::process::id();
        let mut cell = CELL.load(Ordering::Acquire);
        loop {
            // SAFETY: a cell that was published is never freed.
            if let Some(found) = unsafe { cell.as_ref() }
                && found.pid == pid
            {
                return found.runtime.get_or_init(Self::start);
            }
            let fresh = Box::into_raw(Box::new(Cell {
                pid,
                runtime: OnceLock::new(),
            }));
            match CELL.compare_exchange(cell, fresh, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => cell = fresh,
                Err(other) => {
                    // SAFETY: `fresh` was not published, so it is ours alone.
                    drop(unsafe { Box::from_raw(fresh) });
                    cell = other;
                }
            }
        }
    }

    /// The runtime of this process if it was started.
    pub fn existing() -> Option<&'static Self> {
        // SAFETY: a cell that was published is never freed.
        let cell = unsafe { CELL.load(Ordering::Acquire).as_ref() }?;
        if cell.pid == std::process::id() {
            cell.runtime.get()
        } else {
            None
        }
    }

    fn start() -> Self {
        watch_forks();
        let (stop, stop_asked) = oneshot::channel::<()>();
        let (handle_out, handle_in) = mpsc::sync_channel(1);
        let (stopped_out, stopped) = mpsc::sync_channel(1);
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .thread_name("thalweg-dns")
                .build()
                .expect("the system refuses an epoll instance");
            let _ = handle_out.send(runtime.handle().clone());
            let _ = runtime.block_on(stop_asked);
            // A name lookup may hang in a blocking thread: it must not hold the process up.
            runtime.shutdown_background();
            let _ = stopped_out.send(());
        };
        let builder = thread::Builder::new().name("thalweg-io".to_owned());
        with_signals_blocked(|| builder.spawn(run)).expect("the system refuses to start a thread");
        let handle = handle_in
            .recv()
            .expect("the I/O thread sends its handle or panics");
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self {
            handle,
            codec: CodecPool::new(cores.saturating_sub(1)),
            thread: Mutex::new(Some(IoThread { stop, stopped })),
        }
    }

    /// Ends the threads; false if the I/O thread did not end in time. Clients must be closed before,
    /// whatever they still hold is lost. Nothing can be started afterwards in this process.
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

    /// Names of the threads that this process runs for us.
    pub fn thread_names(&self) -> Vec<String> {
        let running = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some();
        let io = running.then(|| "thalweg-io".to_owned());
        io.into_iter().chain(self.codec.thread_names()).collect()
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(task);
    }

    /// Jobs that one client may have in the pool.
    pub(crate) fn codec_jobs_max() -> usize {
        Self::existing().map_or(4, |runtime| runtime.codec.jobs_max_per_client())
    }

    pub(crate) fn codec(&self) -> &CodecPool {
        &self.codec
    }
}

/// Counts forks from the child's side; the handler does nothing but one atomic add.
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
