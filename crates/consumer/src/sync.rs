//! Waits for the locks that the application's thread and the I/O thread share.
//!
//! A free lock is taken at once. To wait for a taken lock, the thread calls a function of the
//! binding. The binding releases the interpreter's lock during the wait, because the holder may be
//! slow to get a CPU core. It takes the interpreter's lock back before it holds one of our locks
//! again, so no thread waits for the interpreter while it holds our locks. If two locks are
//! needed, the thread tries both, and waits for a taken one without holding the other.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

/// A function that runs the wait passed to it.
type Waiting = fn(&mut (dyn FnMut() + Send));

static WAITING: OnceLock<Waiting> = OnceLock::new();

/// Runs all later waits for consumers' locks in this process with `waiting`. Only the first call
/// has an effect.
pub fn run_lock_waits(waiting: fn(&mut (dyn FnMut() + Send))) {
    let _ = WAITING.set(waiting);
}

/// Locks a mutex, even if it is poisoned: a panic under one of these locks leaves plain fields,
/// each of them valid.
pub(crate) fn lock<T: Send>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    loop {
        if let Some(guard) = try_lock(mutex) {
            return guard;
        }
        wait(mutex);
    }
}

/// Locks the mutex, or returns `None` if another thread holds it.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Waits until no thread holds the mutex. The caller must not hold another of these locks.
pub(crate) fn wait<T: Send>(mutex: &Mutex<T>) {
    let mut wait = || drop(mutex.lock().unwrap_or_else(PoisonError::into_inner));
    match WAITING.get() {
        Some(waiting) => waiting(&mut wait),
        None => wait(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::mpsc;
    use std::sync::{Arc, Mutex as StdMutex};
    use std::thread;
    use std::time::Duration;

    use thalweg_cluster::Notifier;

    use super::*;
    use crate::config::ConsumerConfig;
    use crate::consumer::Consumer;
    use crate::topic_partition::TopicPartition;

    thread_local! {
        /// Sent to when the thread is about to wait.
        static BEFORE: Cell<Option<mpsc::Sender<()>>> = const { Cell::new(None) };
    }

    fn told(wait: &mut (dyn FnMut() + Send)) {
        if let Some(sender) = BEFORE.take() {
            sender.send(()).expect("the test waits for it");
        }
        wait();
    }

    /// Runs a call while the lock is held, until the call waits for the lock through the binding's
    /// function.
    fn waits_unheld<T: Send>(mutex: &StdMutex<T>, call: impl FnOnce() + Send) {
        run_lock_waits(told);
        let (sender, waits) = mpsc::channel();
        thread::scope(|scope| {
            let guard = lock(mutex);
            scope.spawn(move || {
                BEFORE.set(Some(sender));
                call();
            });
            waits
                .recv_timeout(Duration::from_secs(30))
                .expect("the call waits by the function it was given");
            drop(guard);
        });
    }

    #[test]
    fn no_call_of_the_application_waits_for_a_lock_but_by_the_bindings_function() {
        let (consumer, _fetcher) =
            Consumer::new(ConsumerConfig::default(), Arc::new(Notifier::new()));
        let tp = TopicPartition::new("t", 0);
        consumer.assign(std::slice::from_ref(&tp));
        let calls: [(&str, &(dyn Fn() + Sync)); 8] = [
            ("seek", &|| consumer.seek(&tp, 3, -1).expect("assigned")),
            ("position", &|| {
                assert!(consumer.partitions().position(&tp).is_ok());
            }),
            ("positions", &|| {
                drop(consumer.partitions().all_consumed());
            }),
            ("assignment", &|| drop(consumer.partitions().assignment())),
            ("assign", &|| consumer.assign(std::slice::from_ref(&tp))),
            ("pause", &|| {
                consumer.pause(std::slice::from_ref(&tp)).expect("assigned");
            }),
            ("has_drainable", &|| assert!(!consumer.has_drainable())),
            ("find_position", &|| drop(consumer.find_position(&tp))),
        ];
        for (_, call) in calls {
            waits_unheld(consumer.partitions.mutex(), call);
        }
    }
}
