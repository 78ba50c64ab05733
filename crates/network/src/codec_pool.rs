//! A few threads for compression, checksums and decompression.
//!
//! ```text
//! clients ── submit() ──▶ [A: job job job | B: job | ...] ──▶ a thread: one of A, one of B, ...
//! ```
//! All clients of the process share the threads and take turns, so that a busy client does not hold
//! up the others. The queue is bounded because each client limits itself: it has at most
//! [`CodecPool::jobs_max_per_client`] jobs here and keeps the others in its core.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use crate::signals::with_signals_blocked;

const JOBS_PER_THREAD_MAX: usize = 4;

type Task = Box<dyn FnOnce() + Send>;

/// The tasks of each client, in turns. A client without tasks has no entry.
#[derive(Default)]
struct Turns(VecDeque<(usize, VecDeque<Task>)>);

impl Turns {
    fn push(&mut self, client: usize, task: Task) {
        if let Some((_, tasks)) = self.0.iter_mut().find(|(known, _)| *known == client) {
            tasks.push_back(task);
        } else {
            self.0.push_back((client, VecDeque::from([task])));
        }
    }

    fn pop(&mut self) -> Option<Task> {
        let (client, mut tasks) = self.0.pop_front()?;
        let task = tasks.pop_front();
        if !tasks.is_empty() {
            self.0.push_back((client, tasks));
        }
        task
    }
}

#[derive(Default)]
struct Queue {
    tasks: Turns,
    /// Threads that sleep on the condition. A new task wakes one only if there is one.
    idle: usize,
    /// The number of threads that were started.
    threads: usize,
    stopping: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    ready: Condvar,
}

/// The pool. Its threads start with the first job.
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

    /// Returns a number of jobs that keeps every thread busy while results travel back and the I/O
    /// thread reads a response of megabytes. With many more, decoded data would have left the CPU
    /// caches before it is drained.
    pub(crate) fn jobs_max_per_client(&self) -> usize {
        self.threads * JOBS_PER_THREAD_MAX
    }

    /// Queues a task. `client` is a number that no other living client has.
    pub(crate) fn submit(&self, client: usize, task: impl FnOnce() + Send + 'static) {
        let mut queue = self
            .shared
            .queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if queue.threads == 0 {
            queue.threads = self.start();
        }
        if queue.threads == 0 {
            // Running it slowly on the caller's thread is better than not at all. The next job
            // tries again to start threads.
            drop(queue);
            task();
            return;
        }
        queue.tasks.push(client, Box::new(task));
        if queue.idle > 0 {
            self.shared.ready.notify_one();
        }
    }

    /// Starts the threads. Returns how many the system allowed.
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

    /// Ends each thread after its current job.
    pub(crate) fn stop(&self) {
        let mut queue = self
            .shared
            .queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        queue.stopping = true;
        queue.tasks = Turns::default();
        self.shared.ready.notify_all();
    }
}

fn work(shared: &Shared) {
    let mut queue = shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if queue.stopping {
            return;
        }
        if let Some(task) = queue.tasks.pop() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_take_turns_and_each_has_its_own_order() {
        let done = Arc::new(Mutex::new(Vec::new()));
        let mut turns = Turns::default();
        for (client, job) in [(1, 'a'), (1, 'b'), (1, 'c'), (2, 'x'), (3, 'y'), (3, 'z')] {
            let done = Arc::clone(&done);
            turns.push(client, Box::new(move || done.lock().unwrap().push(job)));
        }
        while let Some(task) = turns.pop() {
            task();
        }
        assert_eq!(*done.lock().unwrap(), ['a', 'x', 'y', 'b', 'z', 'c']);
        assert!(
            turns.0.is_empty(),
            "nothing is kept of who has nothing to do"
        );
    }
}
