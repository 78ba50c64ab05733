//! A producer, its cluster core, brokers, and a clock that moves only when a test moves it.

pub(crate) mod broker;
pub(crate) mod coordinator;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use thalweg_cluster::{Address, Cluster, ClusterConfig, Job, Notifier, Role};
use thalweg_producer::{
    Accumulator, Acknowledged, AppendRefusal, Appended, CompletionListener, ProducerConfig,
    ProducerError, Record, Sender, TopicEntry,
};

use crate::world::broker::{Brokers, Reaction};

pub(crate) const TOPIC: &str = "t";

/// A waker that counts.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Count {
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

pub(crate) fn counting_waker() -> (Arc<Count>, Waker) {
    let count = Arc::new(Count::default());
    (Arc::clone(&count), Waker::from(count))
}

pub(crate) struct World {
    pub(crate) now: Instant,
    /// The time of the wall clock. Only timestamps may depend on it.
    pub(crate) wall_ms: i64,
    pub(crate) cluster: Cluster,
    pub(crate) sender: Sender,
    pub(crate) accumulator: Arc<Accumulator>,
    pub(crate) brokers: Brokers,
    pub(crate) notifier: Arc<Notifier>,
    /// If set, codec jobs stay with the sender.
    pub(crate) hold_jobs: bool,
    /// How often an append had to wait for memory.
    pub(crate) waits: usize,
    /// Number of turns taken.
    pub(crate) turns: usize,
}

/// Returns options that make a batch of each record or of a few, and send at once.
pub(crate) fn config() -> ProducerConfig {
    ProducerConfig {
        linger: Duration::ZERO,
        seed: 7,
        ..ProducerConfig::default()
    }
}

impl World {
    /// Creates a world with one topic, `t`.
    pub(crate) fn new(config: ProducerConfig, nodes: i32, partitions: i32) -> Self {
        Self::with(config, Brokers::new(nodes, &[(TOPIC, partitions)]), None)
    }

    pub(crate) fn with(
        config: ProducerConfig,
        brokers: Brokers,
        listener: Option<Arc<dyn CompletionListener>>,
    ) -> Self {
        let cluster_config = ClusterConfig {
            bootstrap_servers: Address::parse_list("boot:9092").expect("an address"),
            max_in_flight_requests_per_connection: config.max_in_flight_requests_per_connection,
            request_timeout: config.request_timeout,
            seed: config.seed,
            ..ClusterConfig::default()
        };
        let notifier = Arc::new(Notifier::new());
        let cluster = Cluster::new(cluster_config, Arc::clone(&notifier));
        let metadata = Arc::clone(cluster.shared_metadata());
        let accumulator = Accumulator::new(&config, metadata, Arc::clone(&notifier), listener);
        let now = Instant::now();
        Self {
            now,
            wall_ms: 0,
            cluster,
            sender: Sender::new(config, Arc::clone(&accumulator)),
            accumulator,
            brokers,
            notifier,
            hold_jobs: false,
            waits: 0,
            turns: 0,
        }
    }

    /// Creates a world that has the topic's metadata and, if needed, a producer id.
    pub(crate) fn ready(config: ProducerConfig, nodes: i32, partitions: i32) -> Self {
        let mut world = Self::new(config, nodes, partitions);
        world.know(TOPIC);
        world
    }

    pub(crate) fn know(&mut self, topic: &str) {
        self.cluster
            .shared_metadata()
            .request_topic(topic)
            .expect("a valid name");
        self.run();
        assert!(
            self.accumulator.topic(topic).partition_count() > 0,
            "metadata of {topic}"
        );
    }

    pub(crate) fn topic(&self) -> Arc<TopicEntry> {
        self.accumulator.topic(TOPIC)
    }

    /// Takes one turn as the network does. Returns true if anything happened.
    pub(crate) fn turn(&mut self) -> bool {
        self.turns += 1;
        let mut busy = false;
        self.cluster.poll(self.now);
        while let Some((id, result)) = self.cluster.poll_response() {
            busy = true;
            self.sender
                .on_response(id, result, &mut self.cluster, self.now, self.wall_ms);
        }
        self.sender.poll(&mut self.cluster, self.now, self.wall_ms);
        while let Some(job) = (!self.hold_jobs).then(|| self.sender.poll_job()).flatten() {
            busy = true;
            self.sender
                .job_done(job.run(), &mut self.cluster, self.now, self.wall_ms);
        }
        while let Some(action) = self.cluster.poll_action() {
            busy = true;
            self.brokers.act(action);
        }
        while let Some(event) = self.brokers.poll_event() {
            busy = true;
            self.cluster.handle(event, self.now);
        }
        let again = self
            .sender
            .next_deadline(self.now)
            .is_some_and(|at| at <= self.now);
        busy || again || self.cluster.has_responses()
    }

    /// Takes turns until nothing more happens at this time.
    pub(crate) fn run(&mut self) {
        let mut turns = 0;
        while self.turn() {
            turns += 1;
            assert!(turns < 20_000, "the world does not come to rest");
        }
    }

    /// Lets time pass, stopping at each deadline.
    pub(crate) fn advance(&mut self, by: Duration) {
        let until = self.now + by;
        self.run();
        loop {
            let deadlines = [
                self.sender.next_deadline(self.now),
                self.cluster.next_deadline(self.now),
            ];
            let next = deadlines
                .into_iter()
                .flatten()
                .filter(|&at| at > self.now)
                .min();
            match next {
                Some(at) if at <= until => self.now = at,
                _ => break,
            }
            self.run();
        }
        self.now = until;
        self.run();
    }

    pub(crate) fn advance_ms(&mut self, ms: u64) {
        self.advance(Duration::from_millis(ms));
    }

    pub(crate) fn try_send(&self, partition: i32, value: &str) -> Result<Appended, AppendRefusal> {
        self.try_append(&Record {
            partition: Some(partition),
            timestamp_ms: 1_000,
            value: Some(value.as_bytes()),
            ..Record::default()
        })
    }

    pub(crate) fn try_append(&self, record: &Record<'_>) -> Result<Appended, AppendRefusal> {
        let now = self.now;
        self.accumulator.append(&self.topic(), record, || now)
    }

    pub(crate) fn append(&self, record: &Record<'_>) -> Appended {
        self.try_append(record).expect("there is room")
    }

    /// Appends a record without running the sender.
    pub(crate) fn send(&self, partition: i32, value: &str) -> Appended {
        self.try_send(partition, value).expect("there is room")
    }

    /// Appends a record and runs the sender, so that the next record gets another batch.
    pub(crate) fn send_alone(&mut self, partition: i32, value: &str) -> Appended {
        let appended = self.send(partition, value);
        self.run();
        appended
    }

    pub(crate) fn script(&mut self, reactions: impl IntoIterator<Item = Reaction>) {
        self.brokers.script.extend(reactions);
    }

    pub(crate) fn values(&mut self, partition: i32) -> Vec<String> {
        self.brokers.log(TOPIC, partition).values()
    }

    pub(crate) fn metric(&self, name: &str) -> f64 {
        self.metric_of("producer-metrics", name)
    }

    pub(crate) fn metric_of(&self, group: &str, name: &str) -> f64 {
        let all = self.accumulator.metrics_snapshot(self.now);
        all.into_iter()
            .filter(|known| known.name == group)
            .flat_map(|known| known.values)
            .find(|(known, _)| *known == name)
            .expect("a metric of that name")
            .1
    }
}

pub(crate) fn outcome(appended: &Appended) -> Option<Result<Acknowledged, ProducerError>> {
    appended.completion.outcome(appended.index)
}

/// Returns the record's offset. Panics if the record is not acknowledged.
pub(crate) fn offset(appended: &Appended) -> i64 {
    outcome(appended)
        .expect("the record is done")
        .expect("the record is acknowledged")
        .offset
}

pub(crate) fn error(appended: &Appended) -> ProducerError {
    outcome(appended)
        .expect("the record is done")
        .expect_err("the record failed")
}

pub(crate) fn is_pending(appended: &Appended) -> bool {
    outcome(appended).is_none()
}
