//! Topic entries by the `str` object of their name, so that a send hashes no text.
//!
//! A `str` caches its hash, and a producer's loop passes the same object each time. So a hit costs
//! a comparison of hashes and of addresses. A `str` that is created for each send is compared by
//! its text.
//!
//! ```text
//!   hash ──▶ level 0 (64 places) ──▶ level 1 (1,024) ──▶ level 2 (16,384), each made when needed
//!            keeps its topics        refer to their topics weakly
//! ```
//! A new name takes the first free place in its levels. If there is none, it replaces another one
//! in the last level, so memory is bounded, and names in use get a place again. No thread waits
//! for a place: if another thread holds its lock, that counts as a miss, and a miss looks the name
//! up in the accumulator.
//!
//! The accumulator frees idle topics, but only if nothing else holds them. So most places refer to
//! entries weakly. Those of level 0 hold theirs: a program that sends to a few topics then pays
//! for no reference counts, and keeps at most 64 topics.

use std::ops::Deref;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use pyo3::prelude::*;
use pyo3::types::PyString;
use thalweg_producer::{Accumulator, TopicEntry};

/// Number of places in level 0, and in each further level, as powers of two.
const KEPT_BITS: u32 = 6;
const LEVEL_BITS: [u32; 2] = [10, 14];
/// The number of adjacent places for a name in a level.
const WAYS: usize = 2;

pub(crate) struct Known<E> {
    name: Py<PyString>,
    entry: E,
}

impl<E> Known<E> {
    #[inline]
    fn is_named(&self, name: &Bound<'_, PyString>) -> bool {
        let is_equal = |py| match (self.name.bind(py).to_str(), name.to_str()) {
            (Ok(known), Ok(asked)) => known == asked,
            _ => false,
        };
        self.name.is(name) || is_equal(name.py())
    }
}

struct Place<E> {
    /// The hash of the name. It is read without the lock, to skip places that cannot match.
    hash: AtomicIsize,
    known: Mutex<Option<Known<E>>>,
}

impl<E> Place<E> {
    fn free() -> Self {
        Self {
            hash: AtomicIsize::new(0),
            known: Mutex::new(None),
        }
    }

    /// Returns the lock of this place, if it may be the place of the name.
    #[inline]
    fn lock_for(
        &self,
        hash: isize,
        name: &Bound<'_, PyString>,
    ) -> Option<MutexGuard<'_, Option<Known<E>>>> {
        if self.hash.load(Ordering::Relaxed) != hash {
            return None;
        }
        let guard = self.known.try_lock().ok()?;
        let is_it = guard.as_ref().is_some_and(|known| known.is_named(name));
        is_it.then_some(guard)
    }

    /// Whether the hash can be stored. Python never uses the hash -1, and 0 only for the empty
    /// name.
    fn takes(&self, hash: isize) -> bool {
        let taken = self.hash.load(Ordering::Relaxed);
        taken == 0 || taken == hash
    }

    fn put(&self, hash: isize, known: Known<E>) {
        let replaced = self.known.try_lock().ok().map(|mut guard| {
            self.hash.store(hash, Ordering::Relaxed);
            guard.replace(known)
        });
        // Dropped after the lock is released: a subclass of `str` may run code when it is dropped.
        drop(replaced);
    }
}

type Level<E> = OnceLock<Box<[Place<E>]>>;

fn made<E>(level: &Level<E>, bits: u32) -> &[Place<E>] {
    level.get_or_init(|| (0..1 << bits).map(|_| Place::free()).collect())
}

/// An entry in use: that of level 0, which stays locked, or a separate reference.
pub(crate) enum Topic<'a> {
    Kept(MutexGuard<'a, Option<Known<Arc<TopicEntry>>>>),
    Own(Arc<TopicEntry>),
}

impl Deref for Topic<'_> {
    type Target = Arc<TopicEntry>;

    #[inline]
    fn deref(&self) -> &Arc<TopicEntry> {
        match self {
            Self::Kept(guard) => {
                &guard
                    .as_ref()
                    .expect("the entry was there when it was found")
                    .entry
            }
            Self::Own(entry) => entry,
        }
    }
}

#[derive(Default)]
pub(crate) struct TopicCache {
    kept: Level<Arc<TopicEntry>>,
    levels: [Level<Weak<TopicEntry>>; LEVEL_BITS.len()],
}

impl TopicCache {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Returns the topic's entry.
    #[inline]
    pub(crate) fn get(
        &self,
        name: &Bound<'_, PyString>,
        accumulator: &Accumulator,
    ) -> PyResult<Topic<'_>> {
        let hash = name.hash()?;
        if let Some(places) = self.kept.get() {
            for place in ways(places, 0, hash) {
                if let Some(found) = place.lock_for(hash, name) {
                    return Ok(Topic::Kept(found));
                }
            }
        }
        self.look_on(hash, name, accumulator).map(Topic::Own)
    }

    #[inline(never)]
    fn look_on(
        &self,
        hash: isize,
        name: &Bound<'_, PyString>,
        accumulator: &Accumulator,
    ) -> PyResult<Arc<TopicEntry>> {
        for (level, places) in self.levels.iter().enumerate() {
            let Some(places) = places.get() else {
                break;
            };
            for place in ways(places, level + 1, hash) {
                let found = place.lock_for(hash, name);
                let known = found.as_ref().and_then(|guard| guard.as_ref());
                if let Some(entry) = known.and_then(|known| known.entry.upgrade()) {
                    return Ok(entry);
                }
            }
        }
        self.fill(hash, name, accumulator)
    }

    #[cold]
    fn fill(
        &self,
        hash: isize,
        name: &Bound<'_, PyString>,
        accumulator: &Accumulator,
    ) -> PyResult<Arc<TopicEntry>> {
        let entry = accumulator.topic(name.to_str()?);
        let name = name.clone().unbind();
        let kept = ways(made(&self.kept, KEPT_BITS), 0, hash);
        if let Some(place) = kept.iter().find(|place| place.takes(hash)) {
            let entry = Arc::clone(&entry);
            place.put(hash, Known { name, entry });
        } else {
            let known = Known {
                name,
                entry: Arc::downgrade(&entry),
            };
            self.place_for(hash).put(hash, known);
        }
        Ok(entry)
    }

    /// Returns the first place after level 0 that is free or has this name, else one in the last
    /// level.
    fn place_for(&self, hash: isize) -> &Place<Weak<TopicEntry>> {
        let mut last = None;
        for (level, bits) in LEVEL_BITS.into_iter().enumerate() {
            for place in ways(made(&self.levels[level], bits), level + 1, hash) {
                if place.takes(hash) {
                    return place;
                }
                last = Some(place);
            }
        }
        last.expect("each level has places for a name")
    }
}

/// Returns the places of a name in a level.
#[inline]
fn ways<E>(places: &[Place<E>], level: usize, hash: isize) -> &[Place<E>] {
    let sets = places.len() / WAYS;
    // Each level uses other bits, so names that share a place in one level do not in the next.
    let at = (hash.cast_unsigned() >> (level * 16)) % sets * WAYS;
    &places[at..at + WAYS]
}
