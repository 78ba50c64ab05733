//! Topic entries by the identity of the name's `str` object: a send looks no name up.
//!
//! A producer's loop passes the same interned string each time. Slots are replaced and read without
//! a lock; what was replaced stays alive until the producer goes, because a reader may still hold
//! it, so replacements are limited. A string that is made anew for each send misses the cache and is
//! looked up by name, which costs some 50 ns more.

use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyString;
use thalweg_producer::{Accumulator, TopicEntry};

const SLOTS: usize = 32;
const KEPT_MAX: usize = 256;

struct Slot {
    /// Kept alive, so that no other string can get its address.
    name: Py<PyString>,
    entry: Arc<TopicEntry>,
}

pub(crate) struct TopicCache {
    slots: [AtomicPtr<Slot>; SLOTS],
    kept: Mutex<Vec<*mut Slot>>,
}

// SAFETY: the pointers are to boxes that are only read after they were published, and freed by Drop.
unsafe impl Send for TopicCache {}
// SAFETY: as above; `kept` is behind its mutex.
unsafe impl Sync for TopicCache {}

impl TopicCache {
    pub(crate) fn new() -> Self {
        Self {
            slots: [const { AtomicPtr::new(std::ptr::null_mut()) }; SLOTS],
            kept: Mutex::default(),
        }
    }

    /// The topic's entry.
    #[inline]
    pub(crate) fn get(
        &self,
        name: &Bound<'_, PyString>,
        accumulator: &Accumulator,
    ) -> PyResult<&Arc<TopicEntry>>
    where
        Self: 'static,
    {
        let slot = &self.slots[(name.as_ptr() as usize >> 4) % SLOTS];
        // SAFETY: published slots live until the cache is dropped, and `&self` outlives the result.
        if let Some(found) = unsafe { slot.load(Ordering::Acquire).as_ref() }
            && found.name.as_ptr() == name.as_ptr()
        {
            return Ok(&found.entry);
        }
        self.fill(slot, name, accumulator)
    }

    #[cold]
    fn fill(
        &self,
        slot: &AtomicPtr<Slot>,
        name: &Bound<'_, PyString>,
        accumulator: &Accumulator,
    ) -> PyResult<&Arc<TopicEntry>> {
        let entry = accumulator.topic(name.to_str()?);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // Full: look for the same entry under another string object, so that nothing more is kept.
        if kept.len() >= KEPT_MAX {
            // SAFETY: as in `get`.
            let known = kept.iter().filter_map(|&at| unsafe { at.as_ref() });
            for found in known {
                if Arc::ptr_eq(&found.entry, &entry) {
                    return Ok(&found.entry);
                }
            }
        }
        let made = Box::into_raw(Box::new(Slot {
            name: name.clone().unbind(),
            entry,
        }));
        kept.push(made);
        if kept.len() < KEPT_MAX {
            slot.store(made, Ordering::Release);
        }
        // SAFETY: as in `get`.
        Ok(&unsafe { &*made }.entry)
    }
}

impl Drop for TopicCache {
    fn drop(&mut self) {
        let kept = self.kept.get_mut().unwrap_or_else(PoisonError::into_inner);
        for slot in kept.drain(..) {
            // SAFETY: made by Box::into_raw, freed only here.
            drop(unsafe { Box::from_raw(slot) });
        }
    }
}
