//! A few threads for compression, checksums and decompression.
//!
//! As many as there are cores: a core that the application and the I/O thread leave idle is there to
//! be used, and one that they need is shared, as the system does it.
//!
//! One queue for all clients of the process. It is bounded by its users: a client hands in so many
//! jobs for each thread ([`Role::JOBS_PER_THREAD`]) and keeps the rest in its core.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

#[cfg(doc)]
use thalweg_cluster::Role;

use crate::signals::with_signals_blocked;

type Task = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Task>,
    /// Threads that sleep on the condition; a task wakes one only if there is one.
    idle: usize,
    /// How many were started.
    threads: usize,
    stopping: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    ready: Condvar,
}

/// Started at the first job.
pub(crate) struct CodecPool {
    shared: Arc<Shared>,
    threads: usize,
}

impl CodecPool {
    pub(crate) fn new(threads: usize) -> Self {
        let shared = Shared {
            queue: Mutex::default(),
            ready: Condvar::new(),
        };
        Self {
            shared: Arc::new(shared),
            threads: threads.max(1),
        }
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    pub(crate) fn submit(&self, task: impl FnOnce() + Send + 'static) {
        let mut queue = self
            .shared
            .queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if queue.threads == 0 {
            queue.threads = self.start();
        }
        if queue.threads == 0 {
            // Slow on the caller's thread is better than not at all; the next job tries again.
            drop(queue);
            task();
            return;
        }
        queue.tasks.push_back(Box::new(task));
        if queue.idle > 0 {
            self.shared.ready.notify_one();
        }
    }

    /// How many threads the system let us have.
    fn start(&self) -> usize {
        let spawn = |index: usize| {
            let shared = Arc::clone(&self.shared);
            let builder = thread::Builder::new().name(format!("thalweg-codec-{index}"));
            with_signals_blocked(|| builder.spawn(move || work(&shared)))
        };
        (0..self.threads)
            .take_while(|&index| spawn(index).is_ok())
            .count()
    }

    pub(crate) fn thread_names(&self) -> Vec<String> {
        let queue = self
            .shared
            .queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let running = if queue.stopping { 0 } else { queue.threads };
        (0..running)
            .map(|index| format!("thalweg-codec-{index}"))
            .collect()
    }

    /// Ends the threads after the job that each has in hand.
    pub(crate) fn stop(&self) {
        let mut queue = self
            .shared
            .queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        queue.stopping = true;
        queue.tasks.clear();
        self.shared.ready.notify_all();
    }
}

fn work(shared: &Shared) {
    let mut queue = shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if queue.stopping {
            return;
        }
        if let Some(task) = queue.tasks.pop_front() {
            drop(queue);
            task();
            queue = shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        } else {
            queue.idle += 1;
            queue = shared
                .ready
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }
}
