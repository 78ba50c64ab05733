//! The content of a record: key, value and headers follow from its id. So a reader can check that a
//! record is the one that was sent, to this partition and unchanged.

use thalweg_producer::Record;
use thalweg_records::{HeaderRef, Headers, RecordRef};

use crate::history::RecordId;
use crate::random::Random;

/// Length of the id: the number and the lane.
const NAME_LEN: usize = 12;

/// The content of one record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Content {
    key: Option<Vec<u8>>,
    value: Vec<u8>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Content {
    pub(crate) fn of((lane, number): RecordId) -> Self {
        let mut random = Random::new(number << 8 ^ lane as u64);
        let key = random.happens(700).then(|| filler(&mut random, 20));
        let mut value = Vec::with_capacity(NAME_LEN);
        value.extend_from_slice(&number.to_be_bytes());
        value.extend_from_slice(&lane.to_be_bytes());
        let more = if random.happens(20) { 900 } else { 30 };
        value.extend(filler(&mut random, more));
        let count = if random.happens(500) {
            random.below(4)
        } else {
            0
        };
        let headers = (0..count)
            .map(|_| {
                let key = filler(&mut random, 8);
                let value = random.happens(800).then(|| filler(&mut random, 12));
                (key, value)
            })
            .collect();
        Self {
            key,
            value,
            headers,
        }
    }

    /// Calls `then` with the record to append.
    pub(crate) fn with_record<T>(
        &self,
        partition: Option<i32>,
        timestamp_ms: i64,
        then: impl FnOnce(&Record<'_>) -> T,
    ) -> T {
        let headers: Vec<HeaderRef<'_>> = self
            .headers
            .iter()
            .map(|(key, value)| HeaderRef {
                key,
                value: value.as_deref(),
            })
            .collect();
        then(&Record {
            partition,
            timestamp_ms,
            key: self.key.as_deref(),
            value: Some(&self.value),
            headers: Headers::List(&headers),
        })
    }

    fn is_in(&self, record: &RecordRef<'_>) -> bool {
        let headers = record.headers.iter();
        let headers = headers.map(|header| (header.key.to_vec(), header.value.map(<[u8]>::to_vec)));
        self.key.as_deref() == record.key
            && record.value == Some(&self.value)
            && headers.eq(self.headers.iter().cloned())
    }
}

fn filler(random: &mut Random, below: u64) -> Vec<u8> {
    let len = random.below(below) as usize;
    let bytes = random.draw().to_be_bytes();
    bytes.into_iter().cycle().take(len).collect()
}

/// Returns the number of a record of this lane. Returns `None` if no client sent exactly this
/// record to this lane.
pub(crate) fn number_in(lane: i32, record: &RecordRef<'_>) -> Option<u64> {
    let name: [u8; NAME_LEN] = record.value?.get(..NAME_LEN)?.try_into().ok()?;
    let (number, of_lane) = name.split_at(8);
    let number = u64::from_be_bytes(number.try_into().ok()?);
    let is_here = of_lane == lane.to_be_bytes();
    (is_here && Content::of((lane, number)).is_in(record)).then_some(number)
}
