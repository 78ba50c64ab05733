//! What happens to a world while clients work in it, until a given time; then all is calm again.

use std::time::{Duration, Instant};

use thalweg_broker::Refusals;
use thalweg_protocol::ErrorCode;

use crate::broker::now;
use crate::faults::{FETCH_REFUSALS, FaultPlan, PRODUCE_REFUSALS};
use crate::lanes::{Lanes, topic_name};
use crate::losses::{Loss, Losses};
use crate::random::Random;
use crate::world::World;

/// A new topic of the same name may take this long to come.
const ABSENCE_MAX: Duration = Duration::from_secs(2);
/// An election loses up to so many of a partition's last records.
const LOST_MAX: u64 = 20;

impl World {
    /// Runs all faults until `end`; returns what was lost on the way.
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

    /// One node at a time, or all.
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

    /// Half of the partitions, with codes of their own or with one for all of them: so that one answer
    /// holds several refusals, equal ones among them.
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
            // To lose records it must have crashed; but it may also have been cut off from the others.
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
            // Unless a client that asked for it has had it created.
            while !self.broker.with_core(|core| core.create_topic_named(&name)) {
                // All nodes are away.
                tokio::time::sleep(ABSENCE_MAX).await;
            }
        }
        lost
    }
}

/// Sleeps for about `every`; false if that is never, or after the end.
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
