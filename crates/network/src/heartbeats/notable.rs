//! What heartbeats report to the application's side: responses that say something new, failures,
//! expiry.
//!
//! Orders go to the I/O thread as calls. So responses may still arrive for heartbeats that Python
//! has replaced or stopped meanwhile. Each order starts a new generation. From an old generation,
//! good responses are passed on, because the broker reports an assignment only once. Lost ones are
//! passed on, too, because the lost response may have had an assignment. Refusals are dropped.
//!
//! A generation ends at once, before the I/O thread learns of the new order: that thread asks here
//! before it sends, under the same lock. So the caller that gives an order learns whether a
//! heartbeat of an earlier order is still in flight, and that no other follows.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_consumer::Consumer;
use thalweg_protocol::ErrorCode;
use thalweg_protocol::dynamic::Value;

use super::response::ResponseFields;
use crate::error::ClientError;

/// The maximum number of outcomes that are kept for an application that does not poll. The newest
/// assignment is kept in any case.
const NOTABLE_MAX: usize = 16;

/// The response, or why there is none.
pub type HeartbeatOutcome = Result<Value, ClientError>;

/// An outcome that says something new.
#[derive(Debug, PartialEq)]
pub struct HeartbeatNews {
    pub outcome: HeartbeatOutcome,
    /// Whether it is one of the order in force.
    pub is_current: bool,
}

/// Wakes a waiting poll, so that it does the coordinator's work.
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
    /// The outcomes, each with its generation.
    outcomes: VecDeque<(u64, HeartbeatOutcome)>,
    /// The generation of the heartbeat that is sent and has no response yet.
    in_flight: Option<u64>,
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

    /// Starts a new order and returns its generation. Refusals from before are dropped. `and` runs
    /// before the current order can [expire](Self::expire).
    pub(crate) fn renew(&self, and: impl FnOnce()) -> u64 {
        let mut state = self.lock();
        and();
        state.generation += 1;
        state.outcomes.retain(|(_, outcome)| !is_refusal(outcome));
        state.generation
    }

    /// Whether this is still the latest order.
    pub(crate) fn is_current(&self, generation: u64) -> bool {
        self.lock().generation == generation
    }

    /// Notes that a heartbeat is about to be sent. Returns false if its order is not in force: then
    /// it must not be sent.
    pub(crate) fn begin(&self, generation: u64) -> bool {
        let mut state = self.lock();
        let is_current = state.generation == generation;
        if is_current {
            state.in_flight = Some(generation);
        }
        is_current
    }

    /// Notes that no heartbeat is in flight: it has its response, has failed, or could not be sent
    /// yet.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        let ended = state.in_flight.take();
        let was_old = ended.is_some_and(|ended| ended != state.generation);
        drop(state);
        if was_old {
            self.reentry.ask();
        }
    }

    /// Whether a heartbeat of an order that is not in force is in flight.
    pub(crate) fn is_old_in_flight(&self) -> bool {
        let state = self.lock();
        state
            .in_flight
            .is_some_and(|in_flight| in_flight != state.generation)
    }

    pub(crate) fn tell(&self, generation: u64, outcome: HeartbeatOutcome) {
        {
            let mut state = self.lock();
            if state.generation != generation && is_refusal(&outcome) {
                return;
            }
            if state.outcomes.len() == NOTABLE_MAX {
                state.drop_oldest();
            }
            state.outcomes.push_back((generation, outcome));
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

    pub(crate) fn take(&self) -> Vec<HeartbeatNews> {
        let mut state = self.lock();
        let current = state.generation;
        let taken = state.outcomes.drain(..);
        let news = taken.map(|(generation, outcome)| HeartbeatNews {
            outcome,
            is_current: generation == current,
        });
        news.collect()
    }

    pub(crate) fn take_expired(&self) -> bool {
        std::mem::take(&mut self.lock().expired)
    }
}

impl State {
    /// The newest assignment stays, whatever came after it: the coordinator does not repeat it. The
    /// same applies to a lost response, which may have had an assignment.
    fn drop_oldest(&mut self) {
        let mut outcomes = self.outcomes.iter();
        let assignment = outcomes.rposition(|(_, it)| has_assignment(it) || is_lost(it));
        let oldest = usize::from(assignment == Some(0));
        self.outcomes.remove(oldest);
    }
}

fn has_assignment(outcome: &HeartbeatOutcome) -> bool {
    is_good(outcome) && matches!(outcome, Ok(body) if ResponseFields::read(body).has_assignment)
}

fn is_good(outcome: &HeartbeatOutcome) -> bool {
    matches!(outcome, Ok(body) if ResponseFields::read(body).code == ErrorCode::NONE)
}

/// Whether the coordinator may have handled the heartbeat, although there is no response.
fn is_lost(outcome: &HeartbeatOutcome) -> bool {
    matches!(outcome, Err(error) if error.is_retriable())
}

fn is_refusal(outcome: &HeartbeatOutcome) -> bool {
    !is_good(outcome) && !is_lost(outcome)
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

    fn body(code: i16) -> Value {
        Value::Struct(vec![("ErrorCode", code.into())])
    }

    #[test]
    fn only_the_newest_are_kept_and_taken_once() {
        let notable = notable();
        let generation = notable.renew(|| {});
        let before = notable.reentry.count();
        for code in 1..=NOTABLE_MAX as i16 + 5 {
            notable.tell(generation, Ok(body(code)));
        }
        assert_eq!(notable.reentry.count() - before, NOTABLE_MAX as u64 + 5);
        let kept = notable.take();
        assert_eq!(kept.len(), NOTABLE_MAX);
        assert_eq!(kept[0], news(body(6), true));
        assert!(notable.take().is_empty());
    }

    fn news(body: Value, is_current: bool) -> HeartbeatNews {
        HeartbeatNews {
            outcome: Ok(body),
            is_current,
        }
    }

    fn assigned(epoch: i32) -> Value {
        let assignment = Value::Struct(vec![("TopicPartitions", Value::Array(Vec::new()))]);
        Value::Struct(vec![
            ("ErrorCode", 0_i16.into()),
            ("MemberEpoch", epoch.into()),
            ("Assignment", assignment),
        ])
    }

    fn moved_on(epoch: i32) -> Value {
        Value::Struct(vec![
            ("ErrorCode", 0_i16.into()),
            ("MemberEpoch", epoch.into()),
            ("Assignment", Value::Null),
        ])
    }

    #[test]
    fn the_newest_assignment_is_kept_whatever_comes_after_it() {
        let notable = notable();
        let generation = notable.renew(|| {});
        notable.tell(generation, Ok(assigned(1)));
        notable.tell(generation, Ok(assigned(2)));
        let last = 3 * NOTABLE_MAX as i32;
        for epoch in 3..=last {
            notable.tell(generation, Ok(moved_on(epoch)));
        }
        let mut expected = vec![news(assigned(2), true)];
        let newest = last - NOTABLE_MAX as i32 + 2..=last;
        expected.extend(newest.map(|epoch| news(moved_on(epoch), true)));
        assert_eq!(notable.take(), expected);
    }

    #[test]
    fn a_new_order_forgets_refusals_and_keeps_good_and_lost_responses() {
        let notable = notable();
        let generation = notable.renew(|| {});
        let all = [Ok(body(22)), Err(ClientError::Closed), lost(), Ok(body(0))];
        for outcome in all.clone() {
            notable.tell(generation, outcome);
        }
        notable.renew(|| {});
        for outcome in all {
            notable.tell(generation, outcome);
        }
        let kept = [lost(), Ok(body(0)), lost(), Ok(body(0))];
        let kept = kept.map(|outcome| HeartbeatNews {
            outcome,
            is_current: false,
        });
        assert_eq!(notable.take(), kept);
    }

    fn lost() -> HeartbeatOutcome {
        Err(ClientError::TimedOut("no response".to_owned()))
    }

    #[test]
    fn a_lost_response_is_kept_whatever_comes_after_it() {
        let notable = notable();
        let generation = notable.renew(|| {});
        notable.tell(generation, lost());
        for epoch in 0..3 * NOTABLE_MAX as i32 {
            notable.tell(generation, Ok(moved_on(epoch)));
        }
        assert_eq!(notable.take()[0].outcome, lost());
    }

    #[test]
    fn an_order_ends_those_before_it_at_once_but_for_what_is_in_flight() {
        let notable = notable();
        let old = notable.renew(|| {});
        assert!(notable.begin(old));
        assert!(!notable.is_old_in_flight());
        let current = notable.renew(|| {});
        assert!(notable.is_old_in_flight());
        let before = notable.reentry.count();
        notable.end();
        assert!(!notable.is_old_in_flight());
        assert_eq!(notable.reentry.count(), before + 1, "a poll looks at once");
        assert!(!notable.begin(old));
        assert!(!notable.is_old_in_flight());
        assert!(notable.begin(current));
        notable.end();
        assert_eq!(
            notable.reentry.count(),
            before + 1,
            "the response contains nothing new"
        );
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
