//! Produce through faults, read everything back, check the history.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use thalweg_broker::options::BrokerOptions;
use thalweg_consumer::{ConsumerConfig, OffsetReset};
use thalweg_network::ClientConfig;
use thalweg_network::producer::ProducerClient;
use thalweg_producer::{Appended, ProducerConfig, TopicEntry};
use thalweg_records::Compression;

use crate::clients::{append, known_topic, read_all};
use crate::faults::FaultPlan;
use crate::history::{History, RecordId, Told};
use crate::random::Random;
use crate::world::World;

/// One run. Everything else follows from the seed.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub seed: u64,
    pub nodes: i32,
    pub partitions: i32,
    pub records: u64,
    /// The records are spread over about this much virtual time.
    pub sending_takes: Duration,
    pub faults: FaultPlan,
    pub producer: ProducerConfig,
}

impl Scenario {
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            nodes: 3,
            partitions: 4,
            records: 2_000,
            sending_takes: Duration::from_secs(60),
            faults: FaultPlan::default(),
            producer: ProducerConfig::default(),
        }
    }
}

impl Scenario {
    /// Everything drawn from the seed: the cluster, the producer's settings, the weather.
    pub fn drawn(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x5eed);
        let mut one_of = |choices: &[u64]| choices[random.below(choices.len() as u64) as usize];
        let faults = FaultPlan {
            lose_request: one_of(&[0, 0, 5, 50]) as u32,
            lose_answer: one_of(&[0, 0, 10, 100]) as u32,
            cut_answer: one_of(&[0, 5, 50]) as u32,
            silence: one_of(&[0, 0, 2, 20]) as u32,
            delay: one_of(&[0, 20, 300]) as u32,
            delay_max: Duration::from_millis(one_of(&[1, 50, 2_000, 40_000])),
            stop_every: Some(one_of(&[0, 2, 10]))
                .filter(|&s| s > 0)
                .map(Duration::from_secs),
            stop_max: Duration::from_millis(one_of(&[10, 1_000, 8_000])),
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
            partitions: one_of(&[1, 3, 10]) as i32,
            records: one_of(&[300, 1_500]),
            sending_takes: Duration::from_secs(one_of(&[5, 60, 600])),
            faults,
            producer,
            ..Self::new(seed)
        }
    }
}

/// What a run left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub history: History,
    /// Virtual time from the first record to the last outcome.
    pub took: Duration,
    /// Requests and nodes that the faults hit.
    pub disturbances: u64,
    /// Offsets that the consumer reported as lost or errors that it raised, in words.
    pub consumer_errors: Vec<String>,
}

impl Scenario {
    pub fn run(&self) -> Report {
        World::run(self.play())
    }

    async fn play(&self) -> Report {
        let options = BTreeMap::from([
            ("num.partitions".to_owned(), self.partitions.to_string()),
            (
                "default.replication.factor".to_owned(),
                self.nodes.to_string(),
            ),
        ]);
        let options = BrokerOptions::parse(&options).expect("Kafka's own names");
        let mut world = World::new(self.seed, self.nodes, options);
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
        let topic = known_topic(&producer).await;
        let config = world.config();
        let auto_offset_reset = OffsetReset::Earliest;
        let consumer_config = ConsumerConfig {
            auto_offset_reset,
            ..ConsumerConfig::default()
        };
        let consumer = world.consumer(&config, consumer_config);
        let start = World::now();
        let is_sent = Cell::new(false);
        let sending = async {
            let history = self.send(&world, &producer, &topic, random.fork()).await;
            is_sent.set(true);
            (history, World::now() - start)
        };
        let end = start + self.sending_takes;
        let disturbing = world.disturb(self.faults.clone(), disturbance, end);
        let reading = read_all(&consumer, self.partitions, &is_sent);
        let ((mut history, took), (reads, consumer_errors), ()) =
            tokio::join!(sending, reading, disturbing);
        history.take_reads(reads);
        let patience = World::now() + Duration::from_secs(60);
        producer.view().close_async(patience).await;
        consumer.view().close_async(patience).await;
        let disturbances = world.disturbances();
        Report {
            history,
            took,
            disturbances,
            consumer_errors,
        }
    }

    /// Sends all records and waits for every outcome.
    async fn send(
        &self,
        world: &World,
        producer: &ProducerClient,
        topic: &Arc<TopicEntry>,
        mut random: Random,
    ) -> History {
        let mut history = History::default();
        let mut open: VecDeque<(RecordId, Appended)> = VecDeque::new();
        let pause = self.sending_takes.as_micros() as u64 / self.records.max(1);
        for _ in 0..self.records {
            let partition = random.below(self.partitions as u64) as i32;
            let id = history.send(partition);
            match append(world, producer, topic, id).await {
                Some(appended) => open.push_back((id, appended)),
                None => history.tell(
                    id,
                    Told::Failed {
                        possibly_written: false,
                    },
                ),
            }
            // Bursts and pauses, so that batches of all sizes come about.
            if random.happens(100) {
                tokio::time::sleep(Duration::from_micros(random.below(20 * pause + 1))).await;
            }
        }
        for (id, appended) in open {
            poll_fn(|cx| appended.completion.poll_done(cx.waker())).await;
            let outcome = appended.completion.outcome(appended.index);
            let told = match outcome.expect("the batch is done") {
                Ok(acknowledged) => Told::Acknowledged {
                    offset: acknowledged.offset,
                },
                Err(error) => Told::Failed {
                    possibly_written: error.possibly_written(),
                },
            };
            history.tell(id, told);
        }
        history
    }
}
