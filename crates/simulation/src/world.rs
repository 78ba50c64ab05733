//! A broker, a network and a clock, to put clients into.

use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_broker::options::BrokerOptions;
use thalweg_cluster::Address;
use thalweg_consumer::ConsumerConfig;
use thalweg_network::consumer::ConsumerClient;
use thalweg_network::producer::ProducerClient;
use thalweg_network::transport::MemoryNetwork;
use thalweg_network::{ClientConfig, Parts, WallClock};
use thalweg_producer::ProducerConfig;

use crate::broker::{Broker, host, now};
use crate::faults::FaultPlan;
use crate::random::Random;

/// Where virtual days begin: 2030-01-01.
const START_MS: i64 = 1_893_456_000_000;

/// One virtual world. Make it on a tokio runtime with paused time ([`World::run`] does).
pub struct World {
    pub random: Random,
    nodes: i32,
    broker: Broker,
    network: MemoryNetwork,
    clock: WallClock,
}

impl World {
    /// Runs a future in virtual time to its end.
    pub fn run<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without I/O needs nothing of the system");
        runtime.block_on(future)
    }

    /// Nodes 1 to `nodes`, all listening; nothing goes wrong yet.
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

    pub fn now() -> Instant {
        now()
    }

    pub fn now_ms(&self) -> i64 {
        self.clock.now_ms(now())
    }

    pub fn set_faults(&self, faults: FaultPlan) {
        self.broker.set_faults(faults);
    }

    /// How often something went wrong so far.
    pub fn disturbances(&self) -> u64 {
        self.broker.disturbances()
    }

    pub fn stop_node(&self, node: i32) {
        self.broker.stop_node(node);
    }

    pub fn start_node(&self, node: i32) {
        self.broker.start_node(node);
    }

    /// A client's configuration, all nodes as bootstrap addresses.
    pub fn config(&mut self) -> ClientConfig {
        ClientConfig {
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

    /// Stops a node now and then, one at a time, until `end`; all are there when it returns.
    pub(crate) async fn disturb(&self, faults: FaultPlan, mut random: Random, end: Instant) {
        self.set_faults(faults.clone());
        while let Some(every) = faults.stop_every {
            let calm = Duration::from_micros(random.below(2 * every.as_micros() as u64));
            let next = now() + calm;
            if next >= end {
                break;
            }
            tokio::time::sleep_until(next.into()).await;
            let node = 1 + random.below(self.nodes as u64) as i32;
            let away = Duration::from_micros(random.below(faults.stop_max.as_micros() as u64 + 1));
            self.stop_node(node);
            tokio::time::sleep(away).await;
            self.start_node(node);
        }
        tokio::time::sleep_until(end.into()).await;
        self.set_faults(FaultPlan::default());
    }
}
