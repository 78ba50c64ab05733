//! Errors that wait for a poll to raise them.
//!
//! ```text
//! Fetcher --push--> error, about {partition: stamp} --take--> a poll raises it, once;
//!              ^ one about the same problem joins it          its partitions are retried
//! ```
//! A partition is *blocked* while an error about it is queued here: the client tries nothing for
//! it until the application has seen the error. Only raising the error or a new stamp (a seek, an
//! assignment) ends that. So an error about the problem of a queued one must add its partitions to
//! the queued one.

use std::collections::{BTreeMap, VecDeque};

use thalweg_protocol::planted::{Bug, is_planted};

use crate::error::ConsumerError;
use crate::partitions::state::Phase;
use crate::partitions::table::Assigned;
use crate::topic_partition::TopicPartition;

#[derive(Debug)]
struct QueuedError {
    error: ConsumerError,
    /// The error holds whatever happens to the partitions.
    general: bool,
    /// The stamps under which its partitions were blocked.
    about: BTreeMap<TopicPartition, u64>,
}

impl QueuedError {
    /// Adds partitions. One or several responses can refuse several partitions with equal errors.
    fn join(&mut self, about: Vec<(TopicPartition, u64)>) {
        self.general |= about.is_empty();
        for (partition, stamp) in about {
            let newest = self.about.entry(partition).or_default();
            // A late response under an older stamp says nothing about the current state of the
            // partition.
            *newest = stamp.max(*newest);
        }
    }

    fn blocks(&self, partition: &TopicPartition, assigned: &Assigned) -> bool {
        let stamp = assigned.get(partition).map(|state| state.stamp);
        stamp.is_some() && self.about.get(partition).copied() == stamp
    }

    fn holds(&self, assigned: &Assigned) -> bool {
        let mut about = self.about.keys();
        self.general || about.any(|partition| self.blocks(partition, assigned))
    }

    /// Whether the error still holds. Its partitions are retried from now on.
    fn is_to_be_raised(&self, assigned: &mut Assigned) -> bool {
        let mut holds = self.general;
        for (partition, stamp) in &self.about {
            if let Some(state) = assigned.current_named(partition, *stamp) {
                state.blocked = false;
                state.backoff_due = true;
                if state.phase == Phase::Uncommitted {
                    // An offset may be committed before the next check.
                    state.phase = Phase::Initializing;
                }
                holds = true;
            }
        }
        holds
    }
}

/// The errors in the order in which they are raised. See the module.
#[derive(Debug, Default)]
pub(crate) struct QueuedErrors(VecDeque<QueuedError>);

impl QueuedErrors {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Queues an error about partitions and their stamps. Without partitions it concerns the
    /// client.
    pub(crate) fn push(&mut self, error: ConsumerError, about: Vec<(TopicPartition, u64)>) {
        let mut queued = self.0.iter_mut();
        if let Some(same) = queued.find(|each| each.error.is_same_problem(&error)) {
            same.error = error;
            if !is_planted(Bug::SilentPartition) {
                same.join(about);
            }
            return;
        }
        let mut queued = QueuedError {
            error,
            general: false,
            about: BTreeMap::new(),
        };
        queued.join(about);
        self.0.push_back(queued);
    }

    /// Takes the first error that still holds. Its partitions are retried from now on.
    pub(crate) fn take_first(&mut self, assigned: &mut Assigned) -> Option<ConsumerError> {
        while let Some(queued) = self.0.pop_front() {
            if queued.is_to_be_raised(assigned) {
                return Some(queued.error);
            }
        }
        None
    }

    /// Takes the first error about this partition or the client, if it still holds.
    pub(crate) fn take_about(
        &mut self,
        partition: &TopicPartition,
        assigned: &mut Assigned,
    ) -> Option<ConsumerError> {
        let index = self
            .0
            .iter()
            .position(|queued| queued.general || queued.blocks(partition, assigned))?;
        let queued = self.0.remove(index)?;
        queued.is_to_be_raised(assigned).then_some(queued.error)
    }

    /// Drops errors that seeks and assignments have made stale.
    pub(crate) fn drop_stale(&mut self, assigned: &Assigned) {
        self.0.retain(|queued| queued.holds(assigned));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use thalweg_cluster::ConnectionError;

    use super::*;
    use crate::partitions::state::FetchPosition;

    const PARTITIONS: i32 = 4;

    fn tp(partition: i32) -> TopicPartition {
        TopicPartition::new("t", partition)
    }

    /// What an error names: the topic, the partition, or nothing but the client.
    #[derive(Clone, Copy, Debug)]
    enum Kind {
        Topic,
        Partition,
        Client,
    }

    impl Kind {
        fn error(self, partition: i32) -> ConsumerError {
            match self {
                Self::Topic | Self::Client => ConsumerError::TopicAuthorizationFailed {
                    topics: vec!["t".into()],
                    message: "t".into(),
                },
                Self::Partition => ConsumerError::OffsetOutOfRange {
                    partition: tp(partition),
                    offset: 0,
                    log_start_offset: None,
                },
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// The response of a broker, under the current stamp.
        Refuse(i32, Kind),
        /// A response under a stamp that a seek has replaced.
        RefuseLate(i32, Kind),
        Seek(i32),
        Assign(Vec<i32>),
        DropStale,
        Raise,
        RaiseAbout(i32),
    }

    fn step() -> impl Strategy<Value = Step> {
        let partition = 0..PARTITIONS;
        let kind = prop_oneof![
            3 => Just(Kind::Topic),
            1 => Just(Kind::Partition),
            1 => Just(Kind::Client),
        ];
        prop_oneof![
            6 => (partition.clone(), kind.clone()).prop_map(|(at, kind)| Step::Refuse(at, kind)),
            1 => (partition.clone(), kind).prop_map(|(at, kind)| Step::RefuseLate(at, kind)),
            2 => partition.clone().prop_map(Step::Seek),
            1 => prop::collection::vec(partition.clone(), 0..4).prop_map(Step::Assign),
            1 => Just(Step::DropStale),
            2 => Just(Step::Raise),
            1 => partition.prop_map(Step::RaiseAbout),
        ]
    }

    #[derive(Default)]
    struct Bench {
        errors: QueuedErrors,
        assigned: Assigned,
    }

    impl Bench {
        fn take(&mut self, step: &Step) {
            match step {
                Step::Refuse(at, kind) => self.refuse(*at, *kind),
                Step::RefuseLate(at, kind) => {
                    if let Some(state) = self.assigned.get(&tp(*at)) {
                        let about = vec![(tp(*at), state.stamp - 1)];
                        self.errors.push(kind.error(*at), about);
                    }
                }
                Step::Seek(at) => {
                    let start = FetchPosition {
                        offset: 0,
                        leader_epoch: -1,
                    };
                    self.assigned.enter(&tp(*at), Phase::Fetching(start));
                }
                Step::Assign(wanted) => {
                    let wanted: Vec<_> = wanted.iter().copied().map(tp).collect();
                    self.assigned.assign(&wanted);
                }
                Step::DropStale => self.errors.drop_stale(&self.assigned),
                Step::Raise => drop(self.errors.take_first(&mut self.assigned)),
                Step::RaiseAbout(at) => {
                    drop(self.errors.take_about(&tp(*at), &mut self.assigned));
                }
            }
        }

        fn refuse(&mut self, at: i32, kind: Kind) {
            let Some(state) = self.assigned.edit(&tp(at)) else {
                return;
            };
            let about = match kind {
                Kind::Client => Vec::new(),
                // No request is sent for a blocked partition.
                _ if state.blocked => return,
                Kind::Topic | Kind::Partition => {
                    state.blocked = true;
                    vec![(tp(at), state.stamp)]
                }
            };
            self.errors.push(kind.error(at), about);
        }

        fn silent(&self) -> Vec<i32> {
            let blocked = self.assigned.iter().filter(|(_, state)| state.blocked);
            blocked
                .filter(|(at, _)| !self.errors.0.iter().any(|e| e.blocks(at, &self.assigned)))
                .map(|(at, _)| at.partition)
                .collect()
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        #[test]
        fn a_partition_is_blocked_only_while_an_error_about_it_waits(
            steps in prop::collection::vec(step(), 1..40),
        ) {
            let mut bench = Bench::default();
            let all: Vec<_> = (0..PARTITIONS).map(tp).collect();
            bench.assigned.assign(&all);
            for step in &steps {
                bench.take(step);
                prop_assert_eq!(bench.silent(), Vec::<i32>::new(), "after {:?}", step);
            }
            while bench.errors.take_first(&mut bench.assigned).is_some() {}
            prop_assert!(bench.assigned.iter().all(|(_, state)| !state.blocked));
        }
    }

    #[test]
    fn an_error_of_the_client_is_raised_though_its_partitions_are_gone() {
        let mut bench = Bench::default();
        bench.assigned.assign(&[tp(0)]);
        bench.refuse(0, Kind::Topic);
        bench.refuse(0, Kind::Client);
        bench.assigned.assign(&[]);
        bench.errors.drop_stale(&bench.assigned);
        assert!(bench.errors.take_first(&mut bench.assigned).is_some());
        assert!(bench.errors.is_empty(), "equal errors are raised once");
    }

    #[test]
    fn errors_of_positions_that_were_left_do_not_pile_up() {
        let mut bench = Bench::default();
        bench.assigned.assign(&[tp(0)]);
        for _ in 0..3 {
            bench.take(&Step::Refuse(0, Kind::Partition));
            bench.take(&Step::Seek(0));
            bench.take(&Step::DropStale);
        }
        assert!(bench.errors.is_empty());
    }

    /// A node is tried again and again while nobody polls.
    #[test]
    fn refusals_whose_texts_differ_are_raised_once_for_each_node() {
        let refusal = |node, message: &str| ConsumerError::Connection {
            node,
            cause: Arc::new(ConnectionError::Authentication {
                address: format!("node{node}:9092"),
                code: None,
                message: message.to_owned(),
            }),
        };
        let mut bench = Bench::default();
        for request in ["request 1", "request 2", "request 3"] {
            for node in 1..=2 {
                bench.errors.push(refusal(node, request), Vec::new());
            }
        }
        for node in 1..=2 {
            let raised = bench.errors.take_first(&mut bench.assigned);
            assert_eq!(raised, Some(refusal(node, "request 3")));
        }
        assert!(bench.errors.is_empty());
    }
}
