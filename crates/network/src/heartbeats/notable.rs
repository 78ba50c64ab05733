//! What heartbeats report to the application's side: answers that say something new, failures,
//! expiry.
//!
//! Orders go to the I/O thread as calls, so answers to heartbeats that Python has replaced or
//! stopped meanwhile may still arrive. Each order starts a new generation. From an old generation
//! only good answers are passed on, because a broker sends an assignment only once. The refusal of
//! an old epoch is dropped.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_consumer::Consumer;
use thalweg_protocol::ErrorCode;
use thalweg_protocol::dynamic::Value;

use super::answer::Answer;
use crate::error::ClientError;

/// The limit on stored outcomes. An application that does not poll gets only the newest.
const NOTABLE_MAX: usize = 16;

/// The answer, or why there is none.
pub type HeartbeatOutcome = Result<Value, ClientError>;

/// Makes a waiting poll do its coordinator work.
#[derive(Debug, Clone)]
pub(crate) struct Reentry {
    count: Arc<AtomicU64>,
    consumer: Arc<Consumer>,
}

impl Reentry {
    pub(crate) fn new(consumer: Arc<Consumer>) -> Self {
        Self {
            // One more than a new consumer's poll has seen, so that its first poll looks.
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

    /// Starts a new order and returns its generation. Failures from before are dropped. `and` runs
    /// before the current order can [expire](Self::expire).
    pub(crate) fn renew(&self, and: impl FnOnce()) -> u64 {
        let mut state = self.lock();
        and();
        state.generation += 1;
        state.outcomes.retain(is_good);
        state.generation
    }

    /// Whether this is still the latest order.
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

    /// Notes that the application stayed away too long. Does nothing and returns false if the
    /// application has given another order meanwhile.
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
