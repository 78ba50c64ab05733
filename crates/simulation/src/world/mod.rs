//! A broker, a network and a clock for clients to run in.

pub(crate) mod broker;
pub(crate) mod disturbance;
pub(crate) mod faults;
pub(crate) mod lanes;
pub(crate) mod sessions;

use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_broker::options::BrokerOptions;
use thalweg_cluster::Address;
use thalweg_consumer::{ConsumerConfig, TopicPartition};
use thalweg_network::consumer::ConsumerClient;
use thalweg_network::producer::ProducerClient;
use thalweg_network::transport::MemoryNetwork;
use thalweg_network::{ClientConfig, Parts, SecurityProtocol, WallClock};
use thalweg_producer::ProducerConfig;

use crate::random::Random;
use crate::world::broker::{Broker, host, now};
use crate::world::faults::FaultPlan;
use crate::world::lanes::{Lanes, topic_name};
use crate::world::sessions::{SessionCounts, credentials};

/// The start of virtual time: 2030-01-01.
const START_MS: i64 = 1_893_456_000_000;

/// One virtual world. Create it on a tokio runtime with paused time, as [`World::run`] does.
pub struct World {
    pub random: Random,
    pub(crate) nodes: i32,
    pub(crate) broker: Broker,
    network: MemoryNetwork,
    clock: WallClock,
}

impl World {
    /// Runs a future to its end in virtual time.
    pub fn run<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without I/O needs nothing of the system");
        runtime.block_on(future)
    }

    /// Creates a world whose nodes, 1 to `nodes`, all listen, without any faults.
    pub fn new(seed: u64, nodes: i32, options: BrokerOptions) -> Self {
        let mut random = Random::new(seed);
        let network = MemoryNetwork::new();
        let clock = WallClock::Virtual {
            start: now(),
            start_ms: START_MS,
        };
        let broker = Broker::start(nodes, options, network.clone(), clock, random.fork());
        Self {
            random,
            nodes,
            broker,
            network,
            clock,
        }
    }

    /// Creates the topics before any fault can happen.
    pub(crate) fn create_topics(&self, lanes: Lanes) {
        for topic in 0..lanes.topics {
            let name = topic_name(topic);
            self.broker.with_core(|core| core.create_topic_named(&name));
        }
    }

    pub fn now() -> Instant {
        now()
    }

    pub fn now_ms(&self) -> i64 {
        self.clock.now_ms(now())
    }

    /// From now on, clients must log in, and again each time this has passed.
    pub fn end_sessions_after(&self, lifetime: Duration) {
        self.broker.end_sessions_after(lifetime);
    }

    /// Returns what happened to the sessions of all connections so far.
    pub fn session_counts(&self) -> SessionCounts {
        self.broker.session_counts()
    }

    pub fn set_faults(&self, faults: FaultPlan) {
        self.broker.set_faults(faults);
    }

    /// Returns how many faults have happened so far.
    pub fn disturbances(&self) -> u64 {
        self.broker.disturbances()
    }

    /// Returns the offset of the next record of a partition, or 0 if there is no such partition.
    pub(crate) fn end_offset(&self, partition: &TopicPartition) -> i64 {
        self.broker
            .end_offset(&partition.topic, partition.partition)
    }

    /// Returns the maximum number of requests in a virtual second.
    pub fn busiest_second(&self) -> u32 {
        self.broker.busiest_second()
    }

    /// Returns whether clients sent far more requests in a virtual second than they had work for.
    pub fn was_flooded(&self) -> bool {
        self.broker.was_flooded()
    }

    pub fn stop_node(&self, node: i32) {
        self.broker.stop_node(node);
    }

    pub fn start_node(&self, node: i32) {
        self.broker.start_node(node);
    }

    /// Returns a client's configuration, with all nodes as bootstrap addresses.
    pub fn config(&mut self) -> ClientConfig {
        let (security_protocol, sasl) = if self.broker.has_sessions() {
            (SecurityProtocol::SaslPlaintext, Some(credentials()))
        } else {
            (SecurityProtocol::Plaintext, None)
        };
        ClientConfig {
            security_protocol,
            sasl,
            bootstrap_servers: (1..=self.nodes)
                .map(|n| Address::new(host(n), 9092))
                .collect(),
            client_id: Some("simulation".to_owned()),
            seed: Some(self.random.draw()),
            wall_clock: self.clock,
            ..ClientConfig::default()
        }
    }

    fn parts(&self, config: &ClientConfig) -> Parts {
        Parts::with_transport(config, Arc::new(self.network.clone()))
            .expect("the world's configurations are good")
    }

    pub fn producer(&self, config: &ClientConfig, producer: ProducerConfig) -> ProducerClient {
        ProducerClient::start_here(self.parts(config), producer, None)
    }

    pub fn consumer(&self, config: &ClientConfig, consumer: ConsumerConfig) -> ConsumerClient {
        ConsumerClient::start_here(self.parts(config), consumer)
    }
}
