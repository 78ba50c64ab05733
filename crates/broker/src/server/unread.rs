//! [`Unread`]: a limit on the memory of responses that their clients have not read.
//!
//! ```text
//! response --hold--> Held, the newest --part is written--> the newest again --drop--> gone
//!                    '- too many bytes in all: the oldest are cut off
//! ```
//! Large batches are shared with the log, but small ones are copied into each response. A few
//! clients that read nothing could fill the memory with copies.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The limit on all unread responses together.
pub(super) const UNREAD_BYTES_MAX: usize = 256 << 20;
/// Smaller responses do not count.
const SMALL_BYTES: usize = 4096;

/// The responses that are being written, of all connections. Clones are the same.
#[derive(Clone)]
pub(super) struct Unread {
    responses: Arc<Mutex<Responses>>,
}

struct Responses {
    bytes_max: usize,
    bytes: usize,
    next_place: u64,
    /// The one that was read from last comes last.
    by_place: BTreeMap<u64, Entry>,
}

struct Entry {
    bytes: usize,
    is_cut_off: Arc<Notify>,
}

/// A response that counts until it is dropped.
pub(super) struct Held {
    unread: Unread,
    place: u64,
    is_cut_off: Arc<Notify>,
}

impl Unread {
    pub(super) fn new(bytes_max: usize) -> Self {
        let responses = Responses {
            bytes_max,
            bytes: 0,
            next_place: 0,
            by_place: BTreeMap::new(),
        };
        Self {
            responses: Arc::new(Mutex::new(responses)),
        }
    }

    /// Counts a response, and cuts others off if there is no room for it. A single one is never too
    /// large.
    pub(super) fn hold(&self, bytes: usize) -> Option<Held> {
        if bytes <= SMALL_BYTES {
            return None;
        }
        let is_cut_off = Arc::new(Notify::new());
        let mut responses = self.responses();
        let entry = Entry {
            bytes,
            is_cut_off: Arc::clone(&is_cut_off),
        };
        let place = responses.add(entry);
        responses.bytes += bytes;
        responses.keep_to_limit();
        Some(Held {
            unread: self.clone(),
            place,
            is_cut_off,
        })
    }

    fn responses(&self) -> MutexGuard<'_, Responses> {
        self.responses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Responses {
    fn add(&mut self, entry: Entry) -> u64 {
        let place = self.next_place;
        self.next_place += 1;
        self.by_place.insert(place, entry);
        place
    }

    fn keep_to_limit(&mut self) {
        while self.bytes > self.bytes_max && self.by_place.len() > 1 {
            let Some((_, oldest)) = self.by_place.pop_first() else {
                return;
            };
            self.bytes -= oldest.bytes;
            oldest.is_cut_off.notify_one();
        }
    }
}

impl Held {
    /// The client has read some of it.
    pub(super) fn has_progressed(&mut self) {
        let mut responses = self.unread.responses();
        if let Some(entry) = responses.by_place.remove(&self.place) {
            self.place = responses.add(entry);
        }
    }

    /// Returns when the response is to be given up.
    pub(super) fn cut_off(&self) -> impl Future<Output = ()> + use<> {
        let is_cut_off = Arc::clone(&self.is_cut_off);
        async move { is_cut_off.notified().await }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut responses = self.unread.responses();
        if let Some(entry) = responses.by_place.remove(&self.place) {
            responses.bytes -= entry.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    fn is_cut_off(held: Option<&Held>) -> bool {
        let mut cut_off = Box::pin(held.expect("it is not small").cut_off());
        let mut context = Context::from_waker(Waker::noop());
        cut_off.as_mut().poll(&mut context).is_ready()
    }

    #[test]
    fn the_response_that_was_read_from_least_recently_goes_first() {
        let unread = Unread::new(30_000);
        let mut first = unread.hold(10_000);
        let second = unread.hold(10_000);
        first.as_mut().unwrap().has_progressed();
        let third = unread.hold(10_000);
        assert!(!is_cut_off(second.as_ref()));
        let fourth = unread.hold(10_000);
        assert!(is_cut_off(second.as_ref()));
        let others = [&first, &third, &fourth];
        assert!(others.iter().all(|held| !is_cut_off(held.as_ref())));
        // What was written or cut off makes room.
        drop((second, third));
        let _fifth = unread.hold(10_000);
        assert!(!is_cut_off(first.as_ref()));
        assert_eq!(unread.responses().bytes, 30_000);
    }

    #[test]
    fn small_responses_do_not_count_and_a_single_large_one_is_allowed() {
        let unread = Unread::new(30_000);
        assert!(unread.hold(SMALL_BYTES).is_none());
        let large = unread.hold(100_000);
        assert!(!is_cut_off(large.as_ref()));
        let next = unread.hold(10_000);
        assert!(is_cut_off(large.as_ref()) && !is_cut_off(next.as_ref()));
        drop((large, next));
        assert_eq!(unread.responses().bytes, 0);
    }
}
