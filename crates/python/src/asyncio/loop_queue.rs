//! The queue of one event loop: any thread fills it without the GIL, the loop's thread empties it.
//!
//! The first item in an empty queue rings once for all items that follow. Items are keys of tables
//! that only the loop's thread uses. No Python object is reachable from a waker, so none is
//! dropped on the I/O thread.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Wake, Waker};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use thalweg_network::PerProcess;
use thalweg_network::wait::Doorbell;

use crate::interpreter::callbacks::{self, locked};
use crate::interpreter::failures;

/// A key of one of the loop's tables.
#[derive(Clone, Copy)]
pub(crate) enum Item {
    Batch(usize),
    Waiter(u64),
    Column(u64),
}

enum Bell {
    Descriptor(Doorbell),
    /// The key of a Python function in `NOTIFIERS`.
    Notifier(u64),
}

pub(crate) struct Queue {
    items: Mutex<VecDeque<Item>>,
    bell: Bell,
}

/// Functions that make a loop drain its queue. A thread of ours calls them.
static NOTIFIERS: PerProcess<Mutex<BTreeMap<u64, Py<PyAny>>>> = PerProcess::new();
static NEXT_NOTIFIER: AtomicU64 = AtomicU64::new(1);

fn notifiers() -> MutexGuard<'static, BTreeMap<u64, Py<PyAny>>> {
    locked(NOTIFIERS.get_or_make(Mutex::default))
}

impl Queue {
    /// Creates a queue. If `notify` is given, a thread of ours calls it, and no file descriptor becomes
    /// readable.
    pub(crate) fn new(notify: Option<Py<PyAny>>) -> PyResult<Self> {
        let bell = match notify {
            None => Bell::Descriptor(Doorbell::new().map_err(PyOSError::new_err)?),
            Some(function) => {
                callbacks::responses().start()?;
                let key = NEXT_NOTIFIER.fetch_add(1, Ordering::Relaxed);
                notifiers().insert(key, function);
                Bell::Notifier(key)
            }
        };
        let items = Mutex::default();
        Ok(Self { items, bell })
    }

    /// Returns the file descriptor that is readable while the queue has items.
    pub(crate) fn descriptor(&self) -> Option<i32> {
        match &self.bell {
            Bell::Descriptor(bell) => Some(bell.descriptor()),
            Bell::Notifier(_) => None,
        }
    }

    /// Resets the bell before the items are taken out, so that it rings again for later ones.
    pub(crate) fn silence(&self) {
        if let Bell::Descriptor(bell) = &self.bell {
            bell.silence();
        }
    }

    /// Makes the loop come back for the items that are left.
    pub(crate) fn ring_if_any(&self) {
        if !locked(&self.items).is_empty() {
            self.ring();
        }
    }

    /// Forgets the notifier of a loop that is gone.
    pub(crate) fn forget_notifier(&self) {
        if let Bell::Notifier(key) = &self.bell {
            let notifier = notifiers().remove(key);
            drop(notifier);
        }
    }

    /// Returns a waker that puts the item into the queue.
    pub(crate) fn waker(self: &Arc<Self>, item: Item) -> Waker {
        let queue = Arc::clone(self);
        Waker::from(Arc::new(Ring { queue, item }))
    }

    fn push(&self, item: Item) {
        let mut items = locked(&self.items);
        let first = items.is_empty();
        items.push_back(item);
        drop(items);
        if first {
            self.ring();
        }
    }

    pub(crate) fn pop(&self) -> Option<Item> {
        locked(&self.items).pop_front()
    }

    fn ring(&self) {
        match &self.bell {
            Bell::Descriptor(bell) => bell.ring(),
            &Bell::Notifier(key) => callbacks::responses().run(Box::new(move |py| notify(py, key))),
        }
    }
}

fn notify(py: Python<'_>, key: u64) {
    let function = notifiers().get(&key).map(|function| function.clone_ref(py));
    if let Some(function) = function
        && let Err(error) = function.call0(py)
    {
        failures::report(py, "wake-up of an event loop", error);
    }
}

/// A waker that puts its item into the queue.
struct Ring {
    queue: Arc<Queue>,
    item: Item,
}

impl Wake for Ring {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.queue.push(self.item);
    }
}
