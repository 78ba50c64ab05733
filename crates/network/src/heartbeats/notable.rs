//! What heartbeats tell the application's side: answers that say something new, failures, expiry.
//!
//! Orders go to the I/O thread as calls, so answers to heartbeats that Python has replaced or
//! stopped meanwhile may still come. Each order makes a new generation. Of an old one only good news
//! is passed on (an assignment is told but once); that an epoch of the past is refused is none.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_consumer::Consumer;
use thalweg_protocol::ErrorCode;
use thalweg_protocol::dynamic::Value;

use super::answer::Answer;
use crate::error::ClientError;

/// An application that does not poll hears of the newest only.
const NOTABLE_MAX: usize = 16;

/// The answer, or why there is none.
pub type HeartbeatOutcome = Result<Value, ClientError>;

/// Wakes a waiting poll, to have it look after its coordinator's affairs.
#[derive(Debug, Clone)]
pub(crate) struct Reentry {
    count: Arc<AtomicU64>,
    consumer: Arc<Consumer>,
}

impl Reentry {
    pub(crate) fn new(consumer: Arc<Consumer>) -> Self {
        Self {
            // One ahead of what a new consumer's poll has seen: the first one looks.
            count: Arc::new(AtomicU64::new(1)),
            consumer,
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    pub(crate) fn ask(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.consumer.wake();
    }
}

#[derive(Debug)]
pub(crate) struct Notable {
    state: Mutex<State>,
    reentry: Reentry,
}

#[derive(Debug, Default)]
struct State {
    generation: u64,
    outcomes: VecDeque<HeartbeatOutcome>,
    expired: bool,
}

impl Notable {
    pub(crate) fn new(reentry: Reentry) -> Self {
        Self {
            state: Mutex::default(),
            reentry,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new order: its generation. What went wrong before is forgotten. `and` is done before the
    /// order in force can [expire](Self::expire).
    pub(crate) fn renew(&self, and: impl FnOnce()) -> u64 {
        let mut state = self.lock();
        and();
        state.generation += 1;
        state.outcomes.retain(is_good);
        state.generation
    }

    /// Whether there was no other order since.
    pub(crate) fn is_current(&self, generation: u64) -> bool {
        self.lock().generation == generation
    }

    pub(crate) fn tell(&self, generation: u64, outcome: HeartbeatOutcome) {
        {
            let mut state = self.lock();
            if state.generation != generation && !is_good(&outcome) {
                return;
            }
            if state.outcomes.len() == NOTABLE_MAX {
                state.outcomes.pop_front();
            }
            state.outcomes.push_back(outcome);
        }
        self.reentry.ask();
    }

    /// The application stayed away too long; false, and nothing is done, if it has given another
    /// order meanwhile.
    pub(crate) fn expire(&self, generation: u64, and: impl FnOnce()) -> bool {
        {
            let mut state = self.lock();
            if state.generation != generation {
                return false;
            }
            state.generation += 1;
            state.expired = true;
            and();
        }
        self.reentry.ask();
        true
    }

    pub(crate) fn take(&self) -> Vec<HeartbeatOutcome> {
        self.lock().outcomes.drain(..).collect()
    }

    pub(crate) fn take_expired(&self) -> bool {
        std::mem::take(&mut self.lock().expired)
    }
}

fn is_good(outcome: &HeartbeatOutcome) -> bool {
    matches!(outcome, Ok(body) if Answer::read(body).code == ErrorCode::NONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_cluster::Notifier;
    use thalweg_consumer::ConsumerConfig;

    fn notable() -> Notable {
        let (consumer, _fetcher) =
            Consumer::new(ConsumerConfig::default(), Arc::new(Notifier::new()));
        Notable::new(Reentry::new(consumer))
    }

    fn answer(code: i16) -> Value {
        Value::Struct(vec![("ErrorCode", code.into())])
    }

    #[test]
    fn only_the_newest_are_kept_and_taken_once() {
        let notable = notable();
        let generation = notable.renew(|| {});
        let before = notable.reentry.count();
        for code in 1..=NOTABLE_MAX as i16 + 5 {
            notable.tell(generation, Ok(answer(code)));
        }
        assert_eq!(notable.reentry.count() - before, NOTABLE_MAX as u64 + 5);
        let kept = notable.take();
        assert_eq!(kept.len(), NOTABLE_MAX);
        assert_eq!(kept[0], Ok(answer(6)));
        assert!(notable.take().is_empty());
    }

    #[test]
    fn a_new_order_forgets_failures_and_keeps_good_news() {
        let notable = notable();
        let generation = notable.renew(|| {});
        notable.tell(generation, Ok(answer(22)));
        notable.tell(generation, Err(ClientError::Closed));
        notable.tell(generation, Ok(answer(0)));
        notable.renew(|| {});
        notable.tell(generation, Ok(answer(25)));
        notable.tell(generation, Ok(answer(0)));
        assert_eq!(notable.take(), [Ok(answer(0)), Ok(answer(0))]);
    }

    #[test]
    fn only_the_order_in_force_expires_and_it_does_so_once() {
        let notable = notable();
        let old = notable.renew(|| {});
        let generation = notable.renew(|| {});
        assert!(!notable.expire(old, || {}));
        assert!(!notable.take_expired());
        assert!(notable.expire(generation, || {}));
        assert!(!notable.expire(generation, || {}));
        assert!(notable.take_expired());
        assert!(!notable.take_expired());
    }
}
