//! The faults that happen to a world until a given time, while clients work in it.

use std::time::{Duration, Instant};

use thalweg_broker::Refusals;
use thalweg_protocol::ErrorCode;

use crate::history::losses::{Loss, Losses};
use crate::random::Random;
use crate::world::World;
use crate::world::broker::now;
use crate::world::faults::{FETCH_REFUSALS, FaultPlan, PRODUCE_REFUSALS};
use crate::world::lanes::{Lanes, topic_name};

/// The longest time between the deletion of a topic and its new creation.
const ABSENCE_MAX: Duration = Duration::from_secs(2);
/// An unclean election loses fewer than this many of a partition's last records.
const LOST_MAX: u64 = 20;

impl World {
    /// Runs all faults until `end`. Returns the records that were lost.
    pub(crate) async fn disturb(
        &self,
        faults: FaultPlan,
        lanes: Lanes,
        mut random: Random,
        end: Instant,
    ) -> Losses {
        self.set_faults(faults.clone());
        let stopping = self.stop_nodes(&faults, random.fork(), end);
        let refusing = self.refuse(&faults, lanes, random.fork(), end);
        let electing = self.elect_uncleanly(&faults, lanes, random.fork(), end);
        let recreating = self.recreate(&faults, lanes, random.fork(), end);
        let ((), (), mut lost, gone) = tokio::join!(stopping, refusing, electing, recreating);
        lost.extend(gone);
        tokio::time::sleep_until(end.into()).await;
        self.set_faults(FaultPlan::default());
        Losses::from(lost)
    }

    /// Stops and restarts one node at a time, or all.
    async fn stop_nodes(&self, faults: &FaultPlan, mut random: Random, end: Instant) {
        while pause(faults.stop_every, &mut random, end).await {
            let one = 1 + random.below(self.nodes as u64) as i32;
            let away = random.up_to(faults.stop_max);
            let nodes = if random.happens(faults.stop_all) {
                1..=self.nodes
            } else {
                one..=one
            };
            nodes.clone().for_each(|node| self.stop_node(node));
            tokio::time::sleep(away).await;
            nodes.for_each(|node| self.start_node(node));
        }
    }

    /// Has half of the partitions refuse requests, each with its own codes or all with the same
    /// ones. So one response contains several refusals, some of them equal.
    async fn refuse(&self, faults: &FaultPlan, lanes: Lanes, mut random: Random, end: Instant) {
        while pause(faults.refuse_every, &mut random, end).await {
            let shared = random.happens(500).then(|| draw_refusals(&mut random));
            for lane in 0..lanes.count() {
                if random.happens(500) {
                    let refusals = shared.unwrap_or_else(|| draw_refusals(&mut random));
                    self.set_refusals(lanes, lane, refusals);
                }
            }
            tokio::time::sleep(random.up_to(faults.refuse_max)).await;
            for lane in 0..lanes.count() {
                self.set_refusals(lanes, lane, Refusals::default());
            }
        }
    }

    fn set_refusals(&self, lanes: Lanes, lane: i32, refusals: Refusals) {
        let at = lanes.partition(lane);
        self.broker
            .with_core(|core| core.refuse(&at.topic, at.partition, refusals));
    }

    async fn elect_uncleanly(
        &self,
        faults: &FaultPlan,
        lanes: Lanes,
        mut random: Random,
        end: Instant,
    ) -> Vec<Loss> {
        let mut lost = Vec::new();
        while pause(faults.lose_every, &mut random, end).await {
            let lane = random.below(lanes.count() as u64) as i32;
            let at = lanes.partition(lane);
            let cut = random.below(LOST_MAX) as i64;
            let loss = self.broker.with_core(|core| {
                let end = core.end_offset(&at.topic, at.partition).unwrap_or(0);
                core.elect_uncleanly(&at.topic, at.partition, end - cut)
            });
            // A node that loses records has crashed. It may instead have been cut off from the
            // others, and then it keeps running.
            let crashes = loss.leads_again || !faults.zombies;
            if let Some(node) = loss.deposed.filter(|_| crashes) {
                self.stop_node(node);
                self.start_node(node);
            }
            lost.push(Loss::of(now(), lane, &loss.batches));
        }
        lost
    }

    async fn recreate(
        &self,
        faults: &FaultPlan,
        lanes: Lanes,
        mut random: Random,
        end: Instant,
    ) -> Vec<Loss> {
        let mut lost = Vec::new();
        while pause(faults.recreate_every, &mut random, end).await {
            let topic = random.below(lanes.topics as u64) as i32;
            let name = topic_name(topic);
            let gone = self.broker.with_core(|core| core.delete_topic_named(&name));
            let first = topic * lanes.partitions;
            let of_lanes = (first..).zip(&gone);
            lost.extend(of_lanes.map(|(lane, loss)| Loss::of(now(), lane, &loss.batches)));
            tokio::time::sleep(random.up_to(ABSENCE_MAX)).await;
            // True as well if a client's request has already created it.
            while !self.broker.with_core(|core| core.create_topic_named(&name)) {
                // All nodes are stopped.
                tokio::time::sleep(ABSENCE_MAX).await;
            }
        }
        lost
    }
}

/// Sleeps for about `every`. Returns false without sleeping if the next time is after `end`, or if
/// `every` is `None`.
async fn pause(every: Option<Duration>, random: &mut Random, end: Instant) -> bool {
    let Some(every) = every else { return false };
    let next = now() + random.up_to(2 * every);
    if next < end {
        tokio::time::sleep_until(next.into()).await;
    }
    next < end
}

fn draw_refusals(random: &mut Random) -> Refusals {
    let mut one_of = |codes: &[ErrorCode]| {
        let code = codes[random.below(codes.len() as u64) as usize];
        random.happens(600).then_some(code)
    };
    Refusals {
        produce: one_of(&PRODUCE_REFUSALS),
        fetch: one_of(&FETCH_REFUSALS),
    }
}
