//! Topic entries by the name's `str` object: a send hashes no text.
//!
//! A `str` keeps its hash once it was asked for, and a producer's loop passes the same object each
//! time, so a hit costs a comparison of hashes and of addresses. A `str` that is made for each send
//! is compared by its text.
//!
//! ```text
//!   hash ──▶ level 0 (64 places) ──▶ level 1 (1,024) ──▶ level 2 (16,384), each made when needed
//! ```
//! A new name takes the first free place on its way. If there is none it replaces another in the last
//! level, so the memory is bounded and what is in use now comes back in. Nobody waits for a place: one
//! that another thread has locked counts as a miss, and a miss looks the name up in the accumulator.
//!
//! Places refer to entries weakly: the accumulator frees topics that are out of use.

use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use pyo3::prelude::*;
use pyo3::types::PyString;
use thalweg_producer::{Accumulator, TopicEntry};

/// Places of each level, as powers of two.
const LEVEL_BITS: [u32; 3] = [6, 10, 14];
/// A name has so many places in a level, next to each other.
const WAYS: usize = 2;

struct Known {
    name: Py<PyString>,
    entry: Weak<TopicEntry>,
}

#[derive(Default)]
struct Place {
    /// Hash of the name. Read without the lock, to pass by what cannot be meant.
    hash: AtomicIsize,
    known: Mutex<Option<Known>>,
}

impl Place {
    /// Python never gives -1 as a hash, and 0 only to the empty name.
    fn is_free(&self) -> bool {
        self.hash.load(Ordering::Relaxed) == 0
    }

    fn lock(&self) -> Option<MutexGuard<'_, Option<Known>>> {
        self.known.try_lock().ok()
    }
}

#[derive(Default)]
pub(crate) struct TopicCache {
    levels: [OnceLock<Box<[Place]>>; LEVEL_BITS.len()],
}

impl TopicCache {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// The topic's entry.
    #[inline]
    pub(crate) fn get(
        &self,
        name: &Bound<'_, PyString>,
        accumulator: &Accumulator,
    ) -> PyResult<Arc<TopicEntry>> {
        let hash = name.hash()?;
        for (level, places) in self.levels.iter().enumerate() {
            let Some(places) = places.get() else {
                break;
            };
            for place in ways(places, level, hash) {
                if place.hash.load(Ordering::Relaxed) == hash
                    && let Some(found) = find(place, name)
                {
                    return Ok(found);
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
        let known = Known {
            name: name.clone().unbind(),
            entry: Arc::downgrade(&entry),
        };
        let place = self.place_for(hash);
        let replaced = place.lock().map(|mut guard| {
            place.hash.store(hash, Ordering::Relaxed);
            guard.replace(known)
        });
        // Only now that the lock is released: a subclass of `str` may run code when it goes.
        drop(replaced);
        Ok(entry)
    }

    /// Where the name was, else the first free place on its way, else one in the last level.
    fn place_for(&self, hash: isize) -> &Place {
        let mut free = None;
        let mut last = None;
        for (level, bits) in LEVEL_BITS.into_iter().enumerate() {
            // A level is made once all places of the name in those before it are taken.
            if free.is_some() && self.levels[level].get().is_none() {
                break;
            }
            let make = || (0..1 << bits).map(|_| Place::default());
            let places = self.levels[level].get_or_init(|| make().collect());
            for place in ways(places, level, hash) {
                if place.hash.load(Ordering::Relaxed) == hash {
                    return place;
                }
                if free.is_none() && place.is_free() {
                    free = Some(place);
                }
                last = Some(place);
            }
        }
        free.or(last).expect("each level has places for a name")
    }
}

/// The places of a name in a level.
#[inline]
fn ways(places: &[Place], level: usize, hash: isize) -> &[Place] {
    let sets = places.len() / WAYS;
    // Other bits on each level: names that share a place in one are apart in the next.
    let at = (hash.cast_unsigned() >> (level * 16)) % sets * WAYS;
    &places[at..at + WAYS]
}

#[inline]
fn find(place: &Place, name: &Bound<'_, PyString>) -> Option<Arc<TopicEntry>> {
    let guard = place.lock()?;
    let known = guard.as_ref()?;
    let entry = known.entry.upgrade()?;
    let is_it = known.name.is(name) || name.to_str().is_ok_and(|text| text == &**entry.name());
    is_it.then_some(entry)
}
