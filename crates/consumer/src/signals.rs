//! Flags by which the application's thread tells the I/O thread what it may do now.
//!
//! Each side first stores and then loads: the application's thread makes its change known and then
//! looks whether the fetcher wants to be woken, and the fetcher announces that and then looks for
//! changes. So at least one of the two sees the other's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thalweg_cluster::Notifier;

#[derive(Debug)]
pub(crate) struct Signals {
    /// Another thread changed something since the fetcher last looked.
    changed: AtomicBool,
    /// The fetcher wants to be woken when partitions are emptied.
    attentive: AtomicBool,
    /// A drain found nothing to take, so the bytes decoded by then do not count as decoded ahead.
    starved: AtomicBool,
    /// A drain that named some partitions found no records of them.
    passed_over: AtomicBool,
    notifier: Arc<Notifier>,
}

impl Signals {
    pub(crate) fn new(notifier: Arc<Notifier>) -> Self {
        Self {
            changed: AtomicBool::new(false),
            attentive: AtomicBool::new(true),
            starved: AtomicBool::new(false),
            passed_over: AtomicBool::new(false),
            notifier,
        }
    }

    // ---- The application's side ----

    /// Something changed: the fetcher looks at it now.
    pub(crate) fn notify(&self) {
        self.changed.store(true, Ordering::SeqCst);
        self.notifier.notify();
    }

    /// Buffered data is gone. Works like [`Self::notify`], unless the fetcher cannot use the space
    /// before the next response.
    pub(crate) fn emptied(&self) {
        self.changed.store(true, Ordering::SeqCst);
        if self.attentive.load(Ordering::SeqCst) {
            self.notifier.notify();
        }
    }

    /// A drain found nothing. Only decoding can help now, and the fetcher is attentive while
    /// anything waits for it. If the drain named partitions, a fetch may help too, because
    /// buffered records of others need not prevent it.
    pub(crate) fn found_nothing(&self, named: bool) {
        self.starved.store(true, Ordering::SeqCst);
        if named {
            self.passed_over.store(true, Ordering::SeqCst);
            self.changed.store(true, Ordering::SeqCst);
        }
        if self.attentive.load(Ordering::SeqCst) {
            self.notifier.notify();
        }
    }

    // ---- The fetcher's side ----

    pub(crate) fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn take_starved(&self) -> bool {
        self.starved.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn take_passed_over(&self) -> bool {
        self.passed_over.swap(false, Ordering::SeqCst)
    }

    /// The fetcher's turn is over. A change since it began wakes it at once.
    pub(crate) fn end_turn(&self, attentive: bool) {
        self.attentive.store(attentive, Ordering::SeqCst);
        if self.changed.load(Ordering::SeqCst) {
            self.notifier.notify();
        }
    }
}
