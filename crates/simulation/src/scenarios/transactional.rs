//! Transactions of one transactional id under faults, with producers that die or are replaced, and
//! one reader of committed records.
//!
//! ```text
//! transaction n: records, and offset n + 1 of a group ── commit ──▶ all of it, or
//!                                                     ── abort, death, takeover ──▶ nothing
//! a successor reads the group's offset: it tells how a transaction ended whose producer died
//! ```

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use thalweg_broker::options::BrokerOptions;
use thalweg_consumer::{ConsumerConfig, IsolationLevel, OffsetReset};
use thalweg_network::ClientConfig;
use thalweg_producer::ProducerConfig;

use crate::history::History;
use crate::history::atomicity::Ledger;
use crate::random::Random;
use crate::scenarios::clients::{RUN_MAX, close, read_all};
use crate::scenarios::one_reader::Scenario;
use crate::scenarios::writers::Writers;
use crate::world::World;
use crate::world::faults::FaultPlan;
use crate::world::lanes::Lanes;
use crate::world::sessions::SessionCounts;

/// One run. Everything else follows from the seed.
#[derive(Debug, Clone)]
pub struct TransactionalScenario {
    pub seed: u64,
    pub nodes: i32,
    pub topics: i32,
    pub partitions: i32,
    pub transactions: u64,
    pub records_max: u64,
    /// How long the faults last, in virtual time.
    pub takes: Duration,
    pub faults: FaultPlan,
    pub producer: ProducerConfig,
    /// The version of the protocol. 2 is that of KIP-890.
    pub version: u8,
    /// The isolation level of the reader.
    pub isolation_level: IsolationLevel,
    /// How many in a thousand transactions end with the death of their producer, or continue after
    /// it was replaced.
    pub deaths: u64,
    /// If set, clients must log in, and again each time this has passed.
    pub session: Option<Duration>,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionalReport {
    pub ledger: Ledger,
    pub reads: History,
    /// Number of producers that the run needed.
    pub producers: u64,
    pub disturbances: u64,
    pub sessions: SessionCounts,
    /// Errors of the consumer, and calls that never ended, as text.
    pub errors: Vec<String>,
}

impl TransactionalReport {
    /// Returns everything that is wrong with the run, as text.
    pub fn wrongs(&self) -> Vec<String> {
        let broken = self.ledger.check(&self.reads);
        let broken = broken.iter().take(10).map(|found| format!("{found:?}"));
        let errors = self.errors.iter().cloned();
        errors.chain(self.sessions.wrong()).chain(broken).collect()
    }
}

impl TransactionalScenario {
    pub fn new(seed: u64, version: u8) -> Self {
        Self {
            seed,
            nodes: 3,
            topics: 2,
            partitions: 2,
            transactions: 60,
            records_max: 30,
            takes: Duration::from_secs(60),
            faults: FaultPlan::default(),
            producer: ProducerConfig::default(),
            version,
            isolation_level: IsolationLevel::ReadCommitted,
            deaths: 0,
            session: None,
        }
    }

    /// Draws everything from the seed, like [`Scenario::drawn`].
    pub fn drawn(seed: u64) -> Self {
        let drawn = Scenario::drawn(seed);
        let mut random = Random::new(seed ^ 0x7a);
        let mut one_of = |choices: &[u64]| choices[random.below(choices.len() as u64) as usize];
        let producer = ProducerConfig {
            transaction_timeout: Duration::from_secs(one_of(&[2, 10, 60])),
            ..drawn.producer
        };
        Self {
            nodes: drawn.nodes,
            topics: drawn.topics,
            partitions: drawn.partitions,
            transactions: 30,
            records_max: one_of(&[1, 5, 60]),
            takes: drawn.sending_takes,
            faults: drawn.faults,
            producer,
            deaths: one_of(&[0, 50, 300]),
            ..Self::new(seed, one_of(&[1, 2]) as u8)
        }
    }

    pub(crate) fn lanes(&self) -> Lanes {
        Lanes {
            topics: self.topics,
            partitions: self.partitions,
        }
    }

    pub fn run(&self) -> TransactionalReport {
        World::run(self.play())
    }

    async fn play(&self) -> TransactionalReport {
        let set = |name: &str, value: String| (name.to_owned(), value);
        let options = BTreeMap::from([
            set("num.partitions", self.partitions.to_string()),
            set("default.replication.factor", self.nodes.to_string()),
            set("thalweg.transaction.version", self.version.to_string()),
        ]);
        let options = BrokerOptions::parse(&options).expect("Kafka's own names");
        let mut world = World::new(self.seed, self.nodes, options);
        world.create_topics(self.lanes());
        if let Some(lifetime) = self.session {
            world.end_sessions_after(lifetime);
        }
        let random = world.random.fork();
        let disturbance = world.random.fork();
        let config = world.config();
        let consumer_config = ConsumerConfig {
            auto_offset_reset: OffsetReset::Earliest,
            isolation_level: self.isolation_level,
            ..ConsumerConfig::default()
        };
        let consumer = world.consumer(&config, consumer_config);
        let config = ClientConfig {
            request_timeout: self.producer.request_timeout,
            ..config
        };
        let mut writers = Writers::new(self, &world, config, random);
        let is_sent = Cell::new(false);
        let writing = async {
            let written = tokio::time::timeout(RUN_MAX, writers.write()).await;
            is_sent.set(true);
            written.is_err()
        };
        let end = World::now() + self.takes;
        let disturbing = world.disturb(self.faults.clone(), self.lanes(), disturbance, end);
        let reading = read_all(&consumer, &world, self.lanes(), &is_sent);
        let (is_stuck, reads, _) = tokio::join!(writing, reading, disturbing);
        let (reads, mut errors) = (reads.history, reads.errors);
        if world.was_flooded() {
            errors.push("a client sent without rest".to_owned());
        }
        if is_stuck {
            errors.push("a call of the producer did not end".to_owned());
        }
        let (ledger, producers) = writers.finish();
        close(consumer.view()).await;
        TransactionalReport {
            ledger,
            reads,
            producers,
            disturbances: world.disturbances(),
            sessions: world.session_counts(),
            errors,
        }
    }
}
