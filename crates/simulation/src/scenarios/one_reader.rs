//! Sends records through faults, reads everything back, and checks the history.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use thalweg_broker::options::BrokerOptions;
use thalweg_consumer::{ConsumerConfig, OffsetReset};
use thalweg_network::ClientConfig;
use thalweg_network::consumer::ConsumerClient;
use thalweg_producer::ProducerConfig;
use thalweg_records::Compression;

use crate::history::History;
use crate::random::Random;
use crate::scenarios::clients::{Topics, close, read_all};
use crate::scenarios::sending::Sending;
use crate::world::World;
use crate::world::faults::FaultPlan;
use crate::world::lanes::Lanes;
use crate::world::sessions::SessionCounts;

/// This long after the last fault, clients have noticed all broken connections.
const CALM: Duration = Duration::from_secs(120);

/// One run. Everything else follows from the seed.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub seed: u64,
    pub nodes: i32,
    pub topics: i32,
    /// The partitions of each topic.
    pub partitions: i32,
    pub records: u64,
    /// The virtual time over which sending the records is spread.
    pub sending_takes: Duration,
    pub faults: FaultPlan,
    pub producer: ProducerConfig,
    /// If set, clients must log in, and again each time this has passed.
    pub session: Option<Duration>,
}

impl Scenario {
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            nodes: 3,
            topics: 2,
            partitions: 2,
            records: 2_000,
            sending_takes: Duration::from_secs(60),
            faults: FaultPlan::default(),
            producer: ProducerConfig::default(),
            session: None,
        }
    }
}

impl Scenario {
    /// Draws everything from the seed: the cluster, the producer's settings, the faults.
    pub fn drawn(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x5eed);
        let mut one_of = |choices: &[u64]| choices[random.below(choices.len() as u64) as usize];
        let faults = FaultPlan {
            lose_request: one_of(&[0, 0, 5, 50]) as u32,
            lose_response: one_of(&[0, 0, 10, 100]) as u32,
            cut_response: one_of(&[0, 5, 50]) as u32,
            silence: one_of(&[0, 0, 2, 20]) as u32,
            one_way: one_of(&[0, 0, 2, 20]) as u32,
            delay: one_of(&[0, 20, 300]) as u32,
            delay_max: Duration::from_millis(one_of(&[1, 50, 2_000, 40_000])),
            stop_every: some_seconds(one_of(&[0, 2, 10])),
            stop_max: Duration::from_millis(one_of(&[10, 1_000, 8_000])),
            stop_all: one_of(&[0, 0, 300]) as u32,
            refuse_every: some_seconds(one_of(&[0, 0, 2, 15])),
            refuse_max: Duration::from_millis(one_of(&[10, 1_000, 10_000])),
            ..FaultPlan::default()
        };
        let codecs = [
            Compression::None,
            Compression::Gzip,
            Compression::Snappy,
            Compression::Lz4,
            Compression::Zstd,
        ];
        let producer = ProducerConfig {
            linger: Duration::from_millis(one_of(&[0, 5, 100])),
            batch_size: one_of(&[1, 200, 16_384]) as usize,
            buffer_memory: one_of(&[40_000, 33_554_432]) as usize,
            max_in_flight_requests_per_connection: one_of(&[1, 2, 5]) as usize,
            delivery_timeout: Duration::from_secs(one_of(&[3, 30, 120])),
            request_timeout: Duration::from_secs(one_of(&[1, 3])),
            compression: codecs[one_of(&[0, 1, 2, 3, 4]) as usize],
            ..ProducerConfig::default()
        };
        Self {
            nodes: one_of(&[1, 2, 3, 5]) as i32,
            topics: one_of(&[1, 2]) as i32,
            partitions: one_of(&[1, 2, 5]) as i32,
            records: one_of(&[150, 450]),
            sending_takes: Duration::from_secs(one_of(&[5, 60, 600])),
            faults,
            producer,
            ..Self::new(seed)
        }
    }
}

fn some_seconds(seconds: u64) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

impl Scenario {
    /// Draws a world that loses acknowledged records: by unclean elections, and with topics that
    /// are deleted and created again.
    pub fn lossy(seed: u64) -> Self {
        let mut drawn = Self::drawn(seed);
        let mut random = Random::new(seed ^ 0x1055);
        let mut one_of = |choices: &[u64]| choices[random.below(choices.len() as u64) as usize];
        drawn.faults.lose_every = some_seconds(one_of(&[0, 1, 1, 5]));
        drawn.faults.one_way = one_of(&[5, 20, 100]) as u32;
        drawn.nodes = one_of(&[1, 2, 3]) as i32;
        drawn.faults.recreate_every = some_seconds(one_of(&[0, 0, 5, 30]));
        drawn.producer.enable_idempotence = true;
        drawn
    }

    /// Draws a producer that keeps the order without idempotence: with one request at a time.
    pub fn unnumbered(seed: u64) -> Self {
        let mut drawn = Self::drawn(seed);
        // Leaders must change while responses are in flight.
        drawn.nodes = drawn.nodes.max(2);
        drawn.faults.stop_every = Some(Duration::from_secs(2));
        drawn.faults.delay = 300;
        drawn.producer.enable_idempotence = false;
        drawn.producer.max_in_flight_requests_per_connection = 1;
        drawn
    }
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What was sent, what the producer reported, and what the log contains in the end.
    pub history: History,
    /// What a reader saw while the log was being written and truncated.
    pub live: History,
    /// Virtual time from the first record to the last outcome.
    pub took: Duration,
    /// Number of requests and nodes that the faults hit.
    pub disturbances: u64,
    /// The maximum number of requests in a virtual second.
    pub busiest_second: u32,
    /// How often the reader got an error that it may not read a topic.
    pub refusals: u64,
    /// Number of records sent after the faults have ended: one for each partition.
    pub probes: u64,
    /// Number of these records that were not acknowledged.
    pub failed_probes: u64,
    pub sessions: SessionCounts,
    /// Errors that the reader should not have raised, and faults of the run as a whole, as text.
    pub errors: Vec<String>,
}

impl Report {
    /// Returns everything that is wrong with the run.
    ///
    /// Besides the promises of [`History::check`], each partition must accept a record after the
    /// faults have ended, and what was read during the faults must be what the log contains.
    pub fn wrongs(&self) -> Vec<String> {
        let mut wrongs = self.errors.clone();
        wrongs.extend(self.sessions.wrong());
        if self.failed_probes > 0 {
            wrongs.push(format!(
                "{} partitions take no record in calm",
                self.failed_probes
            ));
        }
        let violations = self.history.check();
        let misread = self.history.check_reader(&self.live);
        let all = violations.iter().chain(&misread);
        wrongs.extend(all.take(10).map(|found| format!("{found:?}")));
        wrongs
    }
}

impl Scenario {
    pub fn run(&self) -> Report {
        World::run(self.play())
    }

    pub(crate) fn lanes(&self) -> Lanes {
        Lanes {
            topics: self.topics,
            partitions: self.partitions,
        }
    }

    /// Returns the allowed number of requests in a virtual second: one for each record, if all of
    /// them are in batches of one and sent at once, and more than enough for retries with a
    /// backoff.
    fn requests_max(&self) -> u32 {
        200 + self.records as u32
    }

    pub(crate) fn world(&self) -> World {
        // If a topic is created while a node is stopped, it must not need that node.
        let replicas = match self.faults.recreate_every {
            Some(_) => 1,
            None => self.nodes,
        };
        let options = BTreeMap::from([
            ("num.partitions".to_owned(), self.partitions.to_string()),
            (
                "default.replication.factor".to_owned(),
                replicas.to_string(),
            ),
        ]);
        let options = BrokerOptions::parse(&options).expect("Kafka's own names");
        let world = World::new(self.seed, self.nodes, options);
        world.create_topics(self.lanes());
        if let Some(lifetime) = self.session {
            world.end_sessions_after(lifetime);
        }
        world
    }

    async fn play(&self) -> Report {
        let mut world = self.world();
        let config = ClientConfig {
            request_timeout: self.producer.request_timeout,
            max_in_flight_requests_per_connection: self
                .producer
                .max_in_flight_requests_per_connection,
            ..world.config()
        };
        let mut random = world.random.fork();
        let seed = random.draw();
        let disturbance = random.fork();
        let producer = world.producer(
            &config,
            ProducerConfig {
                seed,
                ..self.producer.clone()
            },
        );
        let topics = Topics::known(&producer, self.lanes()).await;
        let reader = reader(&mut world);
        let start = World::now();
        let end = start + self.sending_takes;
        let is_sent = Cell::new(false);
        let sending = async {
            let mut sending = Sending::new(&world, &producer, &topics);
            sending.send(self, random.fork()).await;
            let took = World::now() - start;
            tokio::time::sleep_until((end.max(World::now()) + CALM).into()).await;
            let failed_probes = sending.probe(self.lanes()).await;
            is_sent.set(true);
            (sending.history, took, failed_probes)
        };
        let disturbing = world.disturb(self.faults.clone(), self.lanes(), disturbance, end);
        let reading = read_all(&reader, &world, self.lanes(), &is_sent);
        let ((mut history, took, failed_probes), live, losses) =
            tokio::join!(sending, reading, disturbing);
        history.lose(losses);
        if !self.producer.enable_idempotence {
            history.allow_repeats();
        }
        close(producer.view()).await;
        close(reader.view()).await;
        let mut errors = live.errors;
        if history.has_losses() {
            let last = self::reader(&mut world);
            let log = read_all(&last, &world, self.lanes(), &is_sent).await;
            errors.extend(log.errors);
            history.take_reads(log.history);
        } else {
            history.take_reads(live.history.clone());
        }
        let (busiest_second, most) = (world.busiest_second(), self.requests_max());
        if busiest_second > most {
            let wrong = format!("{busiest_second} requests in a second, and {most} are plenty");
            errors.push(wrong);
        }
        Report {
            history,
            live: live.history,
            took,
            disturbances: world.disturbances(),
            busiest_second,
            refusals: live.refusals,
            probes: self.lanes().count() as u64,
            failed_probes,
            sessions: world.session_counts(),
            errors,
        }
    }
}

fn reader(world: &mut World) -> ConsumerClient {
    let config = world.config();
    let auto_offset_reset = OffsetReset::Earliest;
    let consumer_config = ConsumerConfig {
        auto_offset_reset,
        ..ConsumerConfig::default()
    };
    world.consumer(&config, consumer_config)
}
