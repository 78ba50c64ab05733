//! The snapshot as application threads see it: read it, wait for a newer one, ask for a topic.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use thalweg_protocol::{ErrorCode, Str};

use super::name::{InvalidTopic, validate_topic_name};
use super::snapshot::{Metadata, Topic};
use crate::error::ConnectionError;
use crate::notifier::Notifier;

/// What a waiter for a topic finds.
#[derive(Debug, Clone)]
pub enum TopicLookup {
    Known(Arc<Topic>),
    /// Not in the snapshot (yet); the reason of the last answer, if it had one.
    Unknown(Option<ErrorCode>),
    /// The answer will not change by waiting.
    Refused(ErrorCode),
    /// The name is no topic name.
    Invalid(InvalidTopic),
    /// No broker lets us in.
    Unreachable(Arc<ConnectionError>),
}

/// Shared between the client's actor, which publishes, and all other threads, which read.
#[derive(Debug)]
pub struct SharedMetadata {
    /// Read without the lock, so that a cache can check in a few ns whether it is current.
    version: AtomicU64,
    inner: Mutex<Inner>,
    notifier: Arc<Notifier>,
}

#[derive(Debug, Default)]
struct Inner {
    current: Arc<Metadata>,
    waiters: Vec<Waker>,
    wanted: BTreeSet<Str>,
    /// How many refreshes were asked for, and up to which of them they were answered.
    updates_asked: u64,
    updates_answered: u64,
    fatal: Option<Arc<ConnectionError>>,
    /// Counts publications and failures, so that waiters notice either.
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

    /// The snapshot's version; equal versions mean equal snapshots.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub fn snapshot(&self) -> Arc<Metadata> {
        Arc::clone(&self.lock().current)
    }

    /// Asks for a topic (again): the actor fetches it if it is unknown, and marks it used.
    pub fn request_topic(&self, name: &str) -> Result<(), InvalidTopic> {
        validate_topic_name(name)?;
        self.lock().wanted.insert(Str::from(name));
        self.notifier.notify();
        Ok(())
    }

    /// Asks for a refresh of all topics in use; gives its number.
    pub fn request_update(&self) -> u64 {
        let number = {
            let mut inner = self.lock();
            inner.updates_asked += 1;
            inner.updates_asked
        };
        self.notifier.notify();
        number
    }

    /// Whether brokers have answered this refresh: what was published since it was asked for may
    /// have been on its way before.
    pub fn is_answered(&self, number: u64) -> bool {
        self.lock().updates_answered >= number
    }

    /// `waker` is woken once by the next publication or failure after `seen_changes`; false if there
    /// was one already. Take `changes()` first, look at the snapshot, then call this, then sleep.
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

    /// The error that keeps all brokers from letting us in, if it is one that waiting cannot cure.
    pub fn fatal_error(&self) -> Option<Arc<ConnectionError>> {
        self.lock().fatal.clone()
    }

    /// What is known of a topic right now.
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

    /// Makes all waiters look again: the client was closed.
    pub fn wake(&self) {
        self.change(|_| {});
    }

    /// The refreshes up to this one are answered; said before what they brought is published.
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

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        let woken = {
            let mut inner = self.lock();
            change(&mut inner);
            inner.changes += 1;
            std::mem::take(&mut inner.waiters)
        };
        // Outside the lock: a woken thread takes it at once.
        for waker in woken {
            waker.wake();
        }
    }

    /// Topics that other threads asked for since the last call, and the newest refresh.
    pub(crate) fn take_requests(&self) -> (BTreeSet<Str>, u64) {
        let mut inner = self.lock();
        (std::mem::take(&mut inner.wanted), inner.updates_asked)
    }
}
