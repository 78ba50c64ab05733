//! Sends records and notes what the producer reports for each.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::time::Duration;

use thalweg_network::producer::ProducerClient;
use thalweg_producer::Appended;

use tokio::time::timeout;

use crate::history::{History, RecordId, Told};
use crate::random::Random;
use crate::scenarios::clients::{RUN_MAX, Topics, append};
use crate::scenarios::one_reader::Scenario;
use crate::world::World;
use crate::world::lanes::Lanes;

pub(crate) struct Sending<'a> {
    world: &'a World,
    producer: &'a ProducerClient,
    topics: &'a Topics,
    pub(crate) history: History,
    open: VecDeque<(RecordId, Appended)>,
    /// Set if a call or an outcome never came. Later records are then not sent or waited for.
    is_stuck: bool,
}

impl<'a> Sending<'a> {
    pub(crate) fn new(world: &'a World, producer: &'a ProducerClient, topics: &'a Topics) -> Self {
        Self {
            world,
            producer,
            topics,
            history: History::default(),
            open: VecDeque::new(),
            is_stuck: false,
        }
    }

    /// Sends all records of the scenario and waits for every outcome.
    pub(crate) async fn send(&mut self, scenario: &Scenario, mut random: Random) {
        let pause = scenario.sending_takes.as_micros() as u64 / scenario.records.max(1);
        for _ in 0..scenario.records {
            let lane = random.below(scenario.lanes().count() as u64) as i32;
            self.send_one(lane).await;
            // Bursts and pauses give batches of all sizes.
            if random.happens(100) {
                tokio::time::sleep(Duration::from_micros(random.below(20 * pause + 1))).await;
            }
        }
        self.settle().await;
    }

    /// Sends one record to each lane. Returns how many were not acknowledged.
    pub(crate) async fn probe(&mut self, lanes: Lanes) -> u64 {
        let failed = self.history.failed();
        for lane in 0..lanes.count() {
            self.send_one(lane).await;
        }
        self.settle().await;
        (self.history.failed() - failed) as u64
    }

    async fn send_one(&mut self, lane: i32) {
        let id = self.history.send(lane);
        if self.is_stuck {
            return;
        }
        let appending = append(self.world, self.producer, self.topics, id);
        match timeout(RUN_MAX, appending).await {
            Err(_) => self.is_stuck = true,
            Ok(Some(appended)) => self.open.push_back((id, appended)),
            Ok(None) => self.history.tell(
                id,
                Told::Failed {
                    possibly_written: false,
                },
            ),
        }
    }

    async fn settle(&mut self) {
        while let Some((id, appended)) = self.open.pop_front() {
            let done = poll_fn(|cx| appended.completion.poll_done(cx.waker()));
            self.is_stuck = self.is_stuck || timeout(RUN_MAX, done).await.is_err();
            if self.is_stuck {
                return;
            }
            let outcome = appended.completion.outcome(appended.index);
            let told = match outcome.expect("the batch is done") {
                Ok(acknowledged) => Told::Acknowledged {
                    offset: acknowledged.offset,
                },
                Err(error) => Told::Failed {
                    possibly_written: error.possibly_written(),
                },
            };
            self.history.tell(id, told);
        }
    }
}
