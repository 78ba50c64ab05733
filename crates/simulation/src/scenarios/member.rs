//! A consumer, with a model of what it must hand out next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thalweg_consumer::{
    BatchInfo, Consumer, ConsumerError, Demand, Drained, FetchPosition, Offer, OffsetReset,
    RecordSink,
};
use thalweg_network::consumer::ConsumerClient;
use thalweg_records::RecordRef;

use crate::history::content::number_in;
use crate::random::Random;
use crate::world::World;
use crate::world::lanes::Lanes;

/// What a partition must hand out next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Nothing, until the committed offset is known.
    Waiting,
    At(i64),
    /// The end of the log at some time after its end was this offset.
    EndFrom(i64),
}

/// What one drain did to a lane.
#[derive(Debug, Clone, Copy)]
struct Drain {
    first: i64,
    /// Set if the application has sought in the lane since the drain.
    is_moved: bool,
}

#[derive(Default)]
struct Model {
    next: BTreeMap<i32, Next>,
    paused: BTreeSet<i32>,
    /// The lanes of the last drain.
    drained: BTreeMap<i32, Drain>,
    seen: BTreeMap<(i32, i64), u64>,
    handed_out: u64,
    wrongs: Vec<String>,
}

impl Model {
    fn hand_out(&mut self, lane: i32, offset: i64, number: Option<u64>) {
        self.handed_out += 1;
        let next = self.next.get(&lane).copied();
        let is_right = match next {
            Some(Next::At(at)) => at == offset,
            Some(Next::EndFrom(end)) => end <= offset,
            Some(Next::Waiting) | None => false,
        };
        if !is_right {
            let wrong = format!("lane {lane} handed out offset {offset}, expected {next:?}");
            self.wrongs.push(wrong);
        }
        if self.paused.contains(&lane) {
            self.wrongs
                .push(format!("lane {lane} is paused and handed out {offset}"));
        }
        let number = number.unwrap_or_else(|| {
            self.wrongs
                .push(format!("nobody sent what lane {lane} has at {offset}"));
            u64::MAX
        });
        if *self.seen.entry((lane, offset)).or_insert(number) != number {
            self.wrongs.push(format!(
                "lane {lane} has another record at {offset} than before"
            ));
        }
        let drain = self.drained.entry(lane);
        drain.or_insert(Drain {
            first: offset,
            is_moved: false,
        });
        if next.is_some() {
            self.next.insert(lane, Next::At(offset + 1));
        }
    }

    fn seek(&mut self, lane: i32, next: Next) {
        self.next.insert(lane, next);
        if let Some(drain) = self.drained.get_mut(&lane) {
            drain.is_moved = true;
        }
    }
}

pub(crate) struct Member {
    /// Dropping it closes the client.
    _client: ConsumerClient,
    core: Arc<Consumer>,
    lanes: Lanes,
    random: Random,
    model: Model,
}

impl Member {
    pub(crate) fn new(client: ConsumerClient, lanes: Lanes, random: Random) -> Self {
        Self {
            core: Arc::clone(client.consumer()),
            _client: client,
            lanes,
            random,
            model: Model::default(),
        }
    }

    pub(crate) fn owns(&self, lane: i32) -> bool {
        self.model.next.contains_key(&lane)
    }

    pub(crate) fn owns_only(&self, lanes: &BTreeSet<i32>) -> bool {
        self.model.next.keys().eq(lanes)
    }

    pub(crate) fn handed_out(&self) -> u64 {
        self.model.handed_out
    }

    pub(crate) fn into_findings(self) -> (Vec<String>, BTreeMap<(i32, i64), u64>) {
        (self.model.wrongs, self.model.seen)
    }

    /// Drains some records. The application may seek meanwhile, as a deserializer can.
    pub(crate) fn poll(&mut self, world: &World) {
        let records_max = 1 + self.random.below(40) as usize;
        self.drain(records_max, Some(world));
    }

    pub(crate) fn poll_all(&mut self) {
        while self.drain(usize::MAX, None) > 0 {}
    }

    fn drain(&mut self, records_max: usize, seeks: Option<&World>) -> usize {
        self.model.drained.clear();
        let core = Arc::clone(&self.core);
        let mut sink = Taker::of(self, seeks);
        let drained = core.drain(Demand::up_to(records_max), &mut sink);
        sink.leave_lane();
        self.note(drained)
    }

    /// Takes some steps of an iteration.
    pub(crate) fn iterate(&mut self) {
        let core = Arc::clone(&self.core);
        for _ in 0..=self.random.below(12) {
            self.model.drained.clear();
            let mut sink = Taker::of(self, None);
            let drained = core.drain(Demand::step(), &mut sink);
            if self.note(drained) == 0 {
                break;
            }
        }
    }

    fn note(&mut self, drained: Result<Drained, ConsumerError>) -> usize {
        match drained {
            Ok(drained) => drained.records,
            Err(ConsumerError::TopicAuthorizationFailed { .. }) => 0,
            Err(error) => {
                self.model.wrongs.push(error.to_string());
                0
            }
        }
    }

    /// Polls records that do not reach the application.
    pub(crate) fn take_back(&mut self, world: &World) {
        self.poll(world);
        self.core.take_back();
        for (lane, drain) in std::mem::take(&mut self.model.drained) {
            if !drain.is_moved {
                self.model.next.insert(lane, Next::At(drain.first));
            }
        }
    }

    pub(crate) fn seek(&mut self, lane: i32, offset: i64) {
        if self.owns(lane) {
            let sought = self.core.seek(&self.lanes.partition(lane), offset, -1);
            sought.expect("the member owns it");
            self.model.seek(lane, Next::At(offset));
        }
    }

    pub(crate) fn seek_to_an_end(&mut self, lane: i32, end: i64) {
        if !self.owns(lane) {
            return;
        }
        let (reset, next) = if self.random.happens(500) {
            (OffsetReset::Earliest, Next::At(0))
        } else {
            (OffsetReset::Latest, Next::EndFrom(end))
        };
        let sought = self.core.seek_to(&[self.lanes.partition(lane)], reset);
        sought.expect("the member owns it");
        self.model.seek(lane, next);
    }

    pub(crate) fn toggle_pause(&mut self, lane: i32) {
        let partition = [self.lanes.partition(lane)];
        let done = if !self.owns(lane) {
            Ok(())
        } else if self.model.paused.remove(&lane) {
            self.core.resume(&partition)
        } else {
            self.model.paused.insert(lane);
            self.core.pause(&partition)
        };
        done.expect("the member owns it");
    }

    pub(crate) fn resume_all(&mut self) {
        let paused = std::mem::take(&mut self.model.paused);
        let paused: Vec<_> = paused
            .into_iter()
            .map(|lane| self.lanes.partition(lane))
            .collect();
        self.core.resume(&paused).expect("the member owns them");
    }

    /// Returns what a commit without arguments commits.
    pub(crate) fn commit(&mut self) -> Vec<(i32, FetchPosition)> {
        let consumed = self.core.partitions().all_consumed();
        let consumed = consumed.into_iter();
        let consumed: Vec<_> = consumed
            .map(|(at, position)| (self.lanes.of(&at), position))
            .collect();
        for &(lane, position) in &consumed {
            self.check_position(lane, position.offset, "commits");
        }
        consumed
    }

    pub(crate) fn check_positions(&mut self) {
        let lanes: Vec<i32> = self.model.next.keys().copied().collect();
        for lane in lanes {
            let position = self.core.partitions().position(&self.lanes.partition(lane));
            if let Some(position) = position.expect("the member owns it") {
                self.check_position(lane, position.offset, "is at");
            }
        }
    }

    fn check_position(&mut self, lane: i32, offset: i64, does: &str) {
        let next = self.model.next.get(&lane).copied();
        let is_right = match next {
            Some(Next::At(at)) => at == offset,
            Some(Next::EndFrom(end)) => end <= offset,
            Some(Next::Waiting) | None => false,
        };
        if !is_right {
            let wrong = format!("lane {lane} {does} {offset}, expected {next:?}");
            self.model.wrongs.push(wrong);
        }
    }

    pub(crate) fn has_read_to(&self, lane: i32, end: i64) -> bool {
        match self.model.next.get(&lane) {
            Some(Next::At(at)) => *at == end,
            // A seek to the end counts as read once the position is known to be there.
            Some(Next::EndFrom(_)) => {
                let position = self.core.partitions().position(&self.lanes.partition(lane));
                matches!(position, Ok(Some(position)) if position.offset == end)
            }
            _ => false,
        }
    }

    pub(crate) fn awaiting_committed(&self) -> Vec<i32> {
        let awaiting = self.core.awaiting_committed();
        awaiting.iter().map(|at| self.lanes.of(at)).collect()
    }

    /// Passes a committed offset to the consumer. It counts only if the lane still waits for it.
    pub(crate) fn set_committed(&mut self, lane: i32, committed: Option<FetchPosition>) {
        self.core
            .set_committed(&[(self.lanes.partition(lane), committed)]);
        if let Some(next) = self.model.next.get_mut(&lane)
            && *next == Next::Waiting
        {
            *next = Next::At(committed.map_or(0, |position| position.offset));
        }
    }

    pub(crate) fn revoke_all_but(&mut self, lanes: &BTreeSet<i32>) {
        self.model.next.retain(|lane, _| lanes.contains(lane));
        self.model.paused.retain(|lane| lanes.contains(lane));
        self.assign_owned();
    }

    pub(crate) fn assign(&mut self, lanes: &BTreeSet<i32>) {
        for &lane in lanes {
            self.model.next.entry(lane).or_insert(Next::Waiting);
        }
        self.assign_owned();
    }

    fn assign_owned(&self) {
        let owned = self.model.next.keys();
        let owned: Vec<_> = owned.map(|&lane| self.lanes.partition(lane)).collect();
        self.core.assign(&owned);
    }
}

/// The application while it receives records.
struct Taker<'a> {
    core: &'a Arc<Consumer>,
    lanes: Lanes,
    random: &'a mut Random,
    model: &'a mut Model,
    /// The world that knows the ends of logs, if the application may seek during a drain.
    seeks: Option<&'a World>,
    lane: i32,
    /// A seek in the lane whose records are being returned. It takes effect only after their fetch:
    /// until then the records of the fetch keep coming.
    sought: Option<i64>,
}

impl<'a> Taker<'a> {
    fn of(member: &'a mut Member, seeks: Option<&'a World>) -> Self {
        Self {
            core: &member.core,
            lanes: member.lanes,
            random: &mut member.random,
            model: &mut member.model,
            seeks,
            lane: -1,
            sought: None,
        }
    }

    fn leave_lane(&mut self) {
        if let Some(offset) = self.sought.take() {
            self.model.seek(self.lane, Next::At(offset));
        }
    }

    fn maybe_seek(&mut self) {
        let Some(world) = self.seeks.filter(|_| self.random.happens(30)) else {
            return;
        };
        let owned: Vec<i32> = self.model.next.keys().copied().collect();
        let lane = owned[self.random.below(owned.len() as u64) as usize];
        let partition = self.lanes.partition(lane);
        let offset = self.random.below(world.end_offset(&partition) as u64 + 1) as i64;
        self.core
            .seek(&partition, offset, -1)
            .expect("the member owns it");
        if lane == self.lane {
            self.sought = Some(offset);
        } else {
            self.model.seek(lane, Next::At(offset));
        }
    }
}

impl RecordSink for Taker<'_> {
    fn begin_batch(&mut self, batch: &BatchInfo<'_>) -> Offer {
        let lane = self.lanes.of(batch.partition);
        if lane != self.lane {
            self.leave_lane();
            self.lane = lane;
        }
        Offer::Taken
    }

    fn record(&mut self, record: &RecordRef<'_>) -> Offer {
        if self.seeks.is_some() && self.random.happens(10) {
            return Offer::Refused;
        }
        let number = number_in(self.lane, record);
        self.model.hand_out(self.lane, record.offset, number);
        self.maybe_seek();
        Offer::Taken
    }
}
