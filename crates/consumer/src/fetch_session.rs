//! Incremental fetch sessions (KIP-227): the broker remembers what is fetched, requests carry
//! only what changed.
//!
//! ```text
//!            first answer: id          answer: epoch + 1
//!   Full ----------------------> Incremental -----------> Incremental
//!    ^   \ id 0: no session          |
//!    |    '-> Full                   | error, lost answer, broker closed it
//!    '-------------------------------'   (a full request that names the old id closes it)
//! ```
//! A partition that may not be fetched now (undrained records, paused) is *forgotten*, else the
//! broker would send it again; it is added again later. Both are incremental.

use indexmap::{IndexMap, IndexSet};
use thalweg_protocol::{ErrorCode, Uuid};

use crate::topic_partition::TopicPartition;

const INITIAL_EPOCH: i32 = 0;
const FINAL_EPOCH: i32 = -1;

/// What is asked of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// [`crate::partition_state::PartitionState::handle`]
    pub(crate) handle: u32,
    pub(crate) partition: TopicPartition,
    pub(crate) topic_id: Uuid,
    /// The partition's stamp: answers under another one are stale.
    pub(crate) stamp: u64,
    pub(crate) fetch_offset: i64,
    pub(crate) current_leader_epoch: i32,
}

impl Wanted {
    /// What the broker remembers of it. The stamp is ours alone.
    fn same_on_the_wire(&self, other: &Self) -> bool {
        self.fetch_offset == other.fetch_offset
            && self.current_leader_epoch == other.current_leader_epoch
    }
}

/// What the next request has to say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) session_id: i32,
    pub(crate) session_epoch: i32,
    pub(crate) send: Vec<Wanted>,
    pub(crate) forget: Vec<(TopicPartition, Uuid)>,
}

impl Plan {
    pub(crate) fn is_full(&self) -> bool {
        self.session_epoch <= INITIAL_EPOCH
    }
}

/// The session with one node.
#[derive(Debug, Default)]
pub(crate) struct FetchSession {
    id: i32,
    /// Epoch of the next request; 0 opens a session (and closes `id`, if there is one).
    epoch: i32,
    partitions: IndexMap<u32, Wanted>,
    /// Whether the last request named topics by id: a change of that needs another session.
    by_topic_id: bool,
}

impl FetchSession {
    /// The request that makes the broker fetch exactly `wanted`, in that order.
    pub(crate) fn plan(&mut self, wanted: Vec<Wanted>, by_topic_id: bool, enabled: bool) -> Plan {
        if self.by_topic_id != by_topic_id {
            self.by_topic_id = by_topic_id;
            self.reopen();
        }
        if !enabled {
            self.replace(&wanted);
            return Plan {
                session_id: 0,
                session_epoch: FINAL_EPOCH,
                send: wanted,
                forget: Vec::new(),
            };
        }
        let (session_id, session_epoch) = (self.id, self.epoch);
        if session_epoch == INITIAL_EPOCH {
            self.replace(&wanted);
            return Plan {
                session_id,
                session_epoch,
                send: wanted,
                forget: Vec::new(),
            };
        }
        let (send, forget) = self.change(wanted);
        Plan {
            session_id,
            session_epoch,
            send,
            forget,
        }
    }

    fn replace(&mut self, wanted: &[Wanted]) {
        self.partitions = wanted.iter().map(|w| (w.handle, w.clone())).collect();
    }

    fn change(&mut self, wanted: Vec<Wanted>) -> (Vec<Wanted>, Vec<(TopicPartition, Uuid)>) {
        let mut before = std::mem::take(&mut self.partitions);
        let mut send = Vec::new();
        let mut forget = Vec::new();
        self.partitions.reserve(wanted.len());
        for wanted in wanted {
            match before.swap_remove(&wanted.handle) {
                Some(known) if known.topic_id != wanted.topic_id => {
                    // Recreated: to the broker that is another partition.
                    forget.push((known.partition, known.topic_id));
                    send.push(wanted.clone());
                }
                Some(known) if known.same_on_the_wire(&wanted) => {}
                _ => send.push(wanted.clone()),
            }
            self.partitions.insert(wanted.handle, wanted);
        }
        // A partition that was assigned anew has another handle and the same name: it was sent,
        // and must not be forgotten in the same breath.
        if !before.is_empty() {
            let sent: IndexSet<_> = send.iter().map(|s| (&s.partition, s.topic_id)).collect();
            for (_, gone) in before {
                if !sent.contains(&(&gone.partition, gone.topic_id)) {
                    forget.push((gone.partition, gone.topic_id));
                }
            }
        }
        (send, forget)
    }

    /// What the last request asked of a partition.
    pub(crate) fn asked(&self, handle: u32) -> Option<&Wanted> {
        self.partitions.get(&handle)
    }

    /// A good answer, with the session id that the broker gave.
    pub(crate) fn answered(&mut self, session_id: i32) {
        if session_id == 0 {
            // No session (any more): the broker has no room for one.
            self.id = 0;
            self.epoch = INITIAL_EPOCH;
        } else {
            self.id = session_id;
            self.epoch = self.epoch.checked_add(1).unwrap_or(1);
        }
    }

    /// The broker refused the request as a whole: the next one is full.
    pub(crate) fn refused(&mut self, code: ErrorCode) {
        if code == ErrorCode::FETCH_SESSION_ID_NOT_FOUND {
            self.id = 0;
        }
        self.epoch = INITIAL_EPOCH;
    }

    /// No answer: what the broker remembers is unknown. The old session is closed by the next
    /// request, which opens another one.
    pub(crate) fn reopen(&mut self) {
        self.epoch = INITIAL_EPOCH;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(handle: u32, fetch_offset: i64) -> Wanted {
        Wanted {
            handle,
            partition: TopicPartition::new("t", handle as i32),
            topic_id: Uuid([7; 16]),
            stamp: 1,
            fetch_offset,
            current_leader_epoch: 3,
        }
    }

    fn handles(wanted: &[Wanted]) -> Vec<u32> {
        wanted.iter().map(|w| w.handle).collect()
    }

    fn opened() -> FetchSession {
        let mut session = FetchSession::default();
        let plan = session.plan(vec![wanted(0, 0), wanted(1, 0), wanted(2, 0)], true, true);
        assert_eq!((plan.session_id, plan.session_epoch), (0, 0));
        assert!(plan.is_full());
        session.answered(42);
        session
    }

    #[test]
    fn only_changes_are_sent() {
        let mut session = opened();
        let plan = session.plan(vec![wanted(0, 0), wanted(1, 10)], true, true);
        assert_eq!((plan.session_id, plan.session_epoch), (42, 1));
        assert_eq!(handles(&plan.send), [1]);
        assert_eq!(plan.forget.len(), 1);
        assert_eq!(plan.forget[0].0.partition, 2);
        session.answered(42);
        let plan = session.plan(vec![wanted(0, 0), wanted(1, 10), wanted(2, 5)], true, true);
        assert_eq!((plan.session_epoch, handles(&plan.send)), (2, vec![2]));
        assert!(plan.forget.is_empty());
    }

    #[test]
    fn errors_reopen_with_one_full_request() {
        let mut session = opened();
        session.refused(ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
        let plan = session.plan(vec![wanted(0, 0)], true, true);
        assert_eq!((plan.session_id, plan.session_epoch), (0, 0));
        session.answered(43);
        session.refused(ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        let plan = session.plan(vec![wanted(0, 0)], true, true);
        assert_eq!(
            (plan.session_id, plan.session_epoch),
            (43, 0),
            "the old session is closed"
        );
        session.answered(44);
        assert_eq!(
            session.plan(vec![wanted(0, 0)], true, true).session_epoch,
            1
        );
    }

    #[test]
    fn without_a_session_every_request_is_full() {
        let mut session = FetchSession::default();
        for _ in 0..2 {
            let plan = session.plan(vec![wanted(0, 0)], true, true);
            assert_eq!(
                (plan.session_id, plan.session_epoch, plan.send.len()),
                (0, 0, 1)
            );
            session.answered(0);
        }
        let plan = session.plan(vec![wanted(0, 0)], true, false);
        assert_eq!(
            (plan.session_id, plan.session_epoch, plan.send.len()),
            (0, -1, 1)
        );
    }

    #[test]
    fn a_recreated_topic_replaces_the_old_id() {
        let mut session = opened();
        let mut recreated = wanted(0, 0);
        recreated.topic_id = Uuid([8; 16]);
        let plan = session.plan(vec![recreated, wanted(1, 0), wanted(2, 0)], true, true);
        assert_eq!(handles(&plan.send), [0]);
        assert_eq!(plan.forget, [(TopicPartition::new("t", 0), Uuid([7; 16]))]);
    }

    #[test]
    fn a_partition_assigned_anew_is_sent_and_not_forgotten() {
        let mut session = opened();
        let mut anew = wanted(9, 100);
        anew.partition = TopicPartition::new("t", 0);
        let plan = session.plan(vec![anew, wanted(1, 0), wanted(2, 0)], true, true);
        assert_eq!(handles(&plan.send), [9]);
        assert!(plan.forget.is_empty());
    }

    #[test]
    fn epochs_wrap_to_one() {
        let mut session = opened();
        session.epoch = i32::MAX;
        session.answered(42);
        assert_eq!(session.epoch, 1);
    }
}
