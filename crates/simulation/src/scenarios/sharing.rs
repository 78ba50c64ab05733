//! Several consumers of a group share partitions while these are written. Partitions move between
//! the consumers, and the application seeks, pauses, commits and takes records back at random
//! times, sometimes while records are being handed out.
//!
//! ```text
//! producer ──▶ broker ──▶ Member: consumer core + Model (what must be handed out next)
//!                          ▲ assign, committed offsets (late) ── the scenario is the coordinator
//! ```
//! The group protocol is implemented in Python and not used here. The scenario moves partitions as
//! a coordinator would.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use thalweg_consumer::{ConsumerConfig, FetchPosition, OffsetReset, TopicPartition};
use thalweg_network::ClientConfig;
use thalweg_network::producer::ProducerClient;
use thalweg_producer::ProducerConfig;

use crate::random::Random;
use crate::scenarios::clients::Topics;
use crate::scenarios::member::Member;
use crate::scenarios::one_reader::Scenario;
use crate::scenarios::sending::Sending;
use crate::world::World;
use crate::world::lanes::Lanes;
use crate::world::sessions::SessionCounts;

/// The longest time between two actions of the application.
const PAUSE_MAX: Duration = Duration::from_millis(400);
/// The longest time that a response about committed offsets takes.
const COMMITTED_TAKES_MAX: Duration = Duration::from_millis(1_500);
/// Limit of the time from the last fault until all logs are read to the end.
const FINALE_MAX: Duration = Duration::from_secs(900);

/// One run. Everything else follows from the seed.
#[derive(Debug, Clone)]
pub struct SharingScenario {
    pub base: Scenario,
    pub members: u64,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharingReport {
    /// Number of records handed out, including repetitions.
    pub handed_out: u64,
    pub acknowledged: u64,
    pub rebalances: u64,
    pub commits: u64,
    pub seeks: u64,
    pub sessions: SessionCounts,
    /// Everything that is wrong with the run, as text.
    pub wrongs: Vec<String>,
}

impl SharingScenario {
    /// Draws everything from the seed.
    pub fn drawn(seed: u64) -> Self {
        let mut base = Scenario::drawn(seed);
        let mut random = Random::new(seed ^ 0x5a);
        base.records = 50 + random.below(250);
        base.sending_takes = Duration::from_secs(10 + random.below(40));
        Self {
            base,
            members: 1 + random.below(3),
        }
    }

    pub fn run(&self) -> SharingReport {
        World::run(self.play())
    }

    async fn play(&self) -> SharingReport {
        let base = &self.base;
        let mut world = base.world();
        let mut random = world.random.fork();
        let (of_sender, of_faults) = (random.fork(), random.fork());
        let producer = self.producer(&mut world, random.draw());
        let topics = Topics::known(&producer, base.lanes()).await;
        let members = (0..self.members).map(|_| self.member(&mut world, random.fork()));
        let members: Vec<Member> = members.collect();
        let start = World::now();
        let end = start + base.sending_takes;
        let is_sent = Cell::new(false);
        let mut sending = Sending::new(&world, &producer, &topics);
        let sending = async {
            sending.send(base, of_sender).await;
            is_sent.set(true);
            sending.history
        };
        let disturbing = world.disturb(base.faults.clone(), base.lanes(), of_faults, end);
        let mut group = Group {
            world: &world,
            lanes: base.lanes(),
            members,
            random,
            committed: BTreeMap::new(),
            responses: Vec::new(),
            report: SharingReport {
                handed_out: 0,
                acknowledged: 0,
                rebalances: 0,
                commits: 0,
                seeks: 0,
                sessions: SessionCounts::default(),
                wrongs: Vec::new(),
            },
        };
        let consuming = async {
            while World::now() < end || !is_sent.get() {
                group.act().await;
            }
            group.finish().await;
        };
        let (history, (), _) = tokio::join!(sending, consuming, disturbing);
        let mut report = group.into_report();
        report.wrongs.extend(world.session_counts().wrong());
        report.sessions = world.session_counts();
        report.acknowledged = history.acknowledged() as u64;
        if world.was_flooded() {
            report
                .wrongs
                .push("a client sent requests without rest".to_owned());
        }
        report
    }

    fn producer(&self, world: &mut World, seed: u64) -> ProducerClient {
        let config = ClientConfig {
            request_timeout: self.base.producer.request_timeout,
            ..world.config()
        };
        let producer = ProducerConfig {
            seed,
            ..self.base.producer.clone()
        };
        world.producer(&config, producer)
    }

    fn member(&self, world: &mut World, mut random: Random) -> Member {
        let config = world.config();
        let sizes = [200, 2_000, 1_048_576];
        let consumer = ConsumerConfig {
            group_id: Some("sharing".into()),
            auto_offset_reset: OffsetReset::Earliest,
            max_partition_fetch_bytes: sizes[random.below(3) as usize],
            seed: random.draw(),
            ..ConsumerConfig::default()
        };
        let client = world.consumer(&config, consumer);
        Member::new(client, self.base.lanes(), random)
    }
}

/// A response with a committed offset that has not reached its member yet.
struct CommittedResponse {
    at: Instant,
    member: usize,
    lane: i32,
    committed: Option<FetchPosition>,
}

struct Group<'a> {
    world: &'a World,
    lanes: Lanes,
    members: Vec<Member>,
    random: Random,
    committed: BTreeMap<i32, FetchPosition>,
    responses: Vec<CommittedResponse>,
    report: SharingReport,
}

impl Group<'_> {
    /// Runs the next random action.
    async fn act(&mut self) {
        tokio::time::sleep(self.random.up_to(PAUSE_MAX)).await;
        self.deliver_committed();
        self.ask_committed();
        let index = self.random.below(self.members.len() as u64) as usize;
        let lane = self.random.below(self.lanes.count() as u64) as i32;
        let end = self.end_of(lane);
        let member = &mut self.members[index];
        match self.random.below(100) {
            0..45 => member.poll(self.world),
            45..60 => member.iterate(),
            60..68 => self.commit(index),
            68..78 => {
                self.report.seeks += 1;
                member.seek(lane, self.random.below(end as u64 + 1) as i64);
            }
            78..82 => member.seek_to_an_end(lane, end),
            82..88 => member.toggle_pause(lane),
            88..94 => member.take_back(self.world),
            _ => self.rebalance(),
        }
        self.members[index].check_positions();
    }

    fn end_of(&self, lane: i32) -> i64 {
        self.world.end_offset(&self.lanes.partition(lane))
    }

    fn commit(&mut self, index: usize) {
        self.report.commits += 1;
        let consumed = self.members[index].commit();
        self.committed.extend(consumed);
    }

    fn ask_committed(&mut self) {
        for member in 0..self.members.len() {
            for lane in self.members[member].awaiting_committed() {
                let is_it = |response: &CommittedResponse| {
                    response.member == member && response.lane == lane
                };
                if !self.responses.iter().any(is_it) {
                    let at = World::now() + self.random.up_to(COMMITTED_TAKES_MAX);
                    let committed = self.committed.get(&lane).copied();
                    self.responses.push(CommittedResponse {
                        at,
                        member,
                        lane,
                        committed,
                    });
                }
            }
        }
    }

    fn deliver_committed(&mut self) {
        let now = World::now();
        let due = self.responses.extract_if(.., |response| response.at <= now);
        for response in due {
            self.members[response.member].set_committed(response.lane, response.committed);
        }
    }

    /// Moves some partitions to other members. A member that gives some away may commit first.
    fn rebalance(&mut self) {
        self.report.rebalances += 1;
        let count = self.members.len() as u64;
        let mut wanted: Vec<BTreeSet<i32>> = vec![BTreeSet::new(); self.members.len()];
        for lane in 0..self.lanes.count() {
            let owner = self.members.iter().position(|member| member.owns(lane));
            let stays = self.random.happens(600);
            let next = owner
                .filter(|_| stays)
                .unwrap_or_else(|| self.random.below(count) as usize);
            wanted[next].insert(lane);
        }
        for (index, wanted) in wanted.iter().enumerate() {
            if !self.members[index].owns_only(wanted) && self.random.happens(700) {
                self.commit(index);
            }
        }
        // Like a coordinator: one member gives a partition up before another gets it.
        for (member, wanted) in self.members.iter_mut().zip(&wanted) {
            member.revoke_all_but(wanted);
        }
        for (member, wanted) in self.members.iter_mut().zip(&wanted) {
            member.assign(wanted);
        }
    }

    /// Checks, after the faults have ended, that every partition is read to its end.
    async fn finish(&mut self) {
        self.rebalance();
        let deadline = World::now() + FINALE_MAX;
        loop {
            tokio::time::sleep(PAUSE_MAX).await;
            self.deliver_committed();
            self.ask_committed();
            let ends: Vec<i64> = (0..self.lanes.count())
                .map(|lane| self.end_of(lane))
                .collect();
            for member in &mut self.members {
                member.resume_all();
                member.poll_all();
                member.check_positions();
            }
            let unread: Vec<TopicPartition> = (0..self.lanes.count())
                .filter(|&lane| {
                    let end = ends[lane as usize];
                    !self
                        .members
                        .iter()
                        .any(|member| member.has_read_to(lane, end))
                })
                .map(|lane| self.lanes.partition(lane))
                .collect();
            if unread.is_empty() {
                return;
            }
            if World::now() >= deadline {
                let wrong = format!("not read to the end: {unread:?}");
                self.report.wrongs.push(wrong);
                return;
            }
        }
    }

    fn into_report(self) -> SharingReport {
        let mut report = self.report;
        let mut contents = BTreeMap::new();
        for member in self.members {
            report.handed_out += member.handed_out();
            let (wrongs, seen) = member.into_findings();
            report.wrongs.extend(wrongs);
            for (place, number) in seen {
                if *contents.entry(place).or_insert(number) != number {
                    let wrong = format!("two members read different records at {place:?}");
                    report.wrongs.push(wrong);
                }
            }
        }
        report.wrongs.truncate(10);
        report
    }
}
