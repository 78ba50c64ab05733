//! The snapshot as application threads use it: read it, wait for a newer one, ask for a topic.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use thalweg_protocol::{ErrorCode, Str};

use super::name::{InvalidTopic, validate_topic_name};
use super::snapshot::{Metadata, Topic};
use crate::error::ConnectionError;
use crate::notifier::Notifier;

/// What a thread that waits for a topic finds.
#[derive(Debug, Clone)]
pub enum TopicLookup {
    Known(Arc<Topic>),
    /// Not in the snapshot (yet), with the error of the last response if it had one.
    Unknown(Option<ErrorCode>),
    /// The broker's error is one that waiting does not change.
    Refused(ErrorCode),
    /// No topic can have this name.
    Invalid(InvalidTopic),
    /// The client cannot reach any broker, and waiting does not help.
    Unreachable(Arc<ConnectionError>),
}

/// Shares metadata between the client's actor, which publishes it, and all other threads, which
/// read it.
#[derive(Debug)]
pub struct SharedMetadata {
    /// Readable without the lock, so that a cache can check in a few ns whether it is current.
    version: AtomicU64,
    inner: Mutex<Inner>,
    notifier: Arc<Notifier>,
}

#[derive(Debug, Default)]
struct Inner {
    current: Arc<Metadata>,
    waiters: Vec<Waker>,
    wanted: BTreeSet<Str>,
    /// How many refreshes were requested, and the number up to which brokers have responded.
    updates_asked: u64,
    updates_answered: u64,
    fatal: Option<Arc<ConnectionError>>,
    /// Counts publications and failures, so that waiters notice both.
    changes: u64,
}

impl SharedMetadata {
    pub fn new(notifier: Arc<Notifier>) -> Self {
        Self {
            version: AtomicU64::new(0),
            inner: Mutex::default(),
            notifier,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the snapshot's version. Equal versions mean equal snapshots.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub fn snapshot(&self) -> Arc<Metadata> {
        Arc::clone(&self.lock().current)
    }

    /// Asks for a topic (again). The actor marks it as used, and fetches it if it is unknown.
    pub fn request_topic(&self, name: &str) -> Result<(), InvalidTopic> {
        validate_topic_name(name)?;
        self.lock().wanted.insert(Str::from(name));
        self.notifier.notify();
        Ok(())
    }

    /// Requests a refresh of all topics in use, and returns the refresh's number.
    pub fn request_update(&self) -> u64 {
        let number = {
            let mut inner = self.lock();
            inner.updates_asked += 1;
            inner.updates_asked
        };
        self.notifier.notify();
        number
    }

    /// Whether brokers have responded to this refresh. A newer snapshot alone does not prove it:
    /// its response may already have been in flight when the refresh was requested.
    pub fn is_answered(&self, number: u64) -> bool {
        self.lock().updates_answered >= number
    }

    /// Registers `waker` for the next publication or failure, which wakes it once. Returns false if
    /// there was one since `seen_changes`.
    ///
    /// Call `changes()` first, look at the snapshot, then call this, then sleep.
    pub fn wait_for_change(&self, seen_changes: u64, waker: &Waker) -> bool {
        let mut inner = self.lock();
        if inner.changes != seen_changes {
            return false;
        }
        if !inner.waiters.iter().any(|known| known.will_wake(waker)) {
            inner.waiters.push(waker.clone());
        }
        true
    }

    pub fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// Returns the error that keeps the client from every broker, if calls need not wait for its end.
    pub fn fatal_error(&self) -> Option<Arc<ConnectionError>> {
        self.lock().fatal.clone()
    }

    /// Returns what is known of a topic now.
    pub fn lookup(&self, name: &str) -> TopicLookup {
        if let Err(invalid) = validate_topic_name(name) {
            return TopicLookup::Invalid(invalid);
        }
        let inner = self.lock();
        if let Some(topic) = inner.current.topic(name) {
            return TopicLookup::Known(Arc::clone(topic));
        }
        if let Some(error) = &inner.fatal {
            return TopicLookup::Unreachable(Arc::clone(error));
        }
        match inner.current.topic_error(name) {
            Some(code) if !code.is_retriable() => TopicLookup::Refused(code),
            other => TopicLookup::Unknown(other),
        }
    }

    /// Makes all waiters look again, because the client was closed.
    pub fn wake(&self) {
        self.change(|_| {});
    }

    /// Notes that brokers have responded to the refreshes up to this number. The actor calls it
    /// before it publishes the response.
    pub(crate) fn note_answered(&self, number: u64) {
        let mut inner = self.lock();
        inner.updates_answered = inner.updates_answered.max(number);
    }

    pub(crate) fn publish(&self, snapshot: Arc<Metadata>) {
        self.change(|inner| {
            self.version.store(snapshot.version, Ordering::Release);
            inner.current = snapshot;
            inner.fatal = None;
        });
    }

    pub(crate) fn publish_fatal(&self, error: Arc<ConnectionError>) {
        self.change(|inner| inner.fatal = Some(error));
    }

    /// Forgets why no broker accepted the client, because something has changed since.
    pub fn forget_fatal(&self) {
        self.change(|inner| inner.fatal = None);
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        let woken = {
            let mut inner = self.lock();
            change(&mut inner);
            inner.changes += 1;
            std::mem::take(&mut inner.waiters)
        };
        // Wake outside the lock, because a woken thread takes it at once.
        for waker in woken {
            waker.wake();
        }
    }

    /// Takes the topics that other threads asked for since the last call. Also returns the number
    /// of the newest refresh.
    pub(crate) fn take_requests(&self) -> (BTreeSet<Str>, u64) {
        let mut inner = self.lock();
        (std::mem::take(&mut inner.wanted), inner.updates_asked)
    }
}
