//! The history of a run: what was sent, acknowledged and read, and which promises must hold.

pub(crate) mod atomicity;
pub(crate) mod content;
pub(crate) mod losses;

use std::collections::{BTreeMap, BTreeSet};

use crate::history::losses::Losses;

/// The id of a record: its lane (a partition of a topic) and its number among those sent to the
/// lane.
pub type RecordId = (i32, u64);

/// What the producer reported of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    Acknowledged { offset: i64 },
    Failed { possibly_written: bool },
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    LostAcknowledged {
        record: RecordId,
        offset: i64,
    },
    Duplicate {
        record: RecordId,
        offsets: [i64; 2],
    },
    /// A record was read at an offset other than the acknowledged one.
    WrongOffset {
        record: RecordId,
        acknowledged: i64,
        read: i64,
    },
    OutOfOrder {
        earlier: RecordId,
        later: RecordId,
    },
    /// A record was read that the producer reported as certainly not written.
    Ghost {
        record: RecordId,
    },
    /// The consumer did not see this offset, or saw it twice or out of order.
    OffsetGap {
        partition: i32,
        expected: i64,
        read: i64,
    },
    /// A record was read that no client sent, or its key, value or headers differ.
    Invented {
        partition: i32,
        offset: i64,
    },
    /// A reader did not see the record that the log has at this offset.
    Misread {
        partition: i32,
        offset: i64,
        read: Option<u64>,
    },
    /// A future never completed.
    NoOutcome {
        record: RecordId,
    },
}

/// The history of one run.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct History {
    sent: BTreeMap<i32, u64>,
    told: BTreeMap<RecordId, Told>,
    /// Offsets and numbers by partition, in the order of reading.
    read: BTreeMap<i32, Vec<(i64, u64)>>,
    losses: Losses,
    /// Set if the producer is not idempotent: the log may contain a record several times.
    may_repeat: bool,
}

impl History {
    /// Returns the id of the next record of a partition.
    pub fn send(&mut self, partition: i32) -> RecordId {
        let count = self.sent.entry(partition).or_default();
        *count += 1;
        (partition, *count - 1)
    }

    pub fn tell(&mut self, record: RecordId, told: Told) {
        self.told.insert(record, told);
    }

    pub fn read(&mut self, partition: i32, offset: i64, number: u64) {
        self.read
            .entry(partition)
            .or_default()
            .push((offset, number));
    }

    /// Notes the records that unclean elections and deletions took.
    pub fn lose(&mut self, losses: Losses) {
        self.losses = losses;
    }

    /// Allows the log to contain a record more than once: the producer promises only order and at
    /// least one copy.
    pub fn allow_repeats(&mut self) {
        self.may_repeat = true;
    }

    /// Returns whether records were lost. A live reader may then have read some offsets twice.
    pub fn has_losses(&self) -> bool {
        !self.losses.is_empty()
    }

    /// Adds the reads of another part of the run.
    pub fn take_reads(&mut self, reads: Self) {
        self.read.extend(reads.read);
    }

    /// Returns the numbers read from each partition, in the order of reading.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = (i32, Vec<u64>)> {
        let numbers = |read: &[(i64, u64)]| read.iter().map(|&(_, number)| number).collect();
        self.read
            .iter()
            .map(move |(&partition, read)| (partition, numbers(read)))
    }

    pub fn acknowledged(&self) -> usize {
        self.told
            .values()
            .filter(|told| matches!(told, Told::Acknowledged { .. }))
            .count()
    }

    pub fn failed(&self) -> usize {
        self.told.len() - self.acknowledged()
    }

    pub fn read_count(&self) -> usize {
        self.read.values().map(Vec::len).sum()
    }

    /// Returns how many extra copies of records the log contains, whether that is allowed or not.
    pub fn repeats(&self) -> usize {
        let distinct = |read: &[(i64, u64)]| {
            read.iter()
                .map(|(_, number)| number)
                .collect::<BTreeSet<_>>()
                .len()
        };
        self.read
            .values()
            .map(|read| read.len() - distinct(read))
            .sum()
    }

    /// Returns all broken promises.
    pub fn check(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        for (&partition, read) in &self.read {
            let count = self.sent.get(&partition).copied().unwrap_or(0);
            check_invented(partition, count, read, &mut violations);
        }
        for (&partition, &count) in &self.sent {
            let read = self.read.get(&partition).map_or(&[][..], Vec::as_slice);
            check_offsets(partition, read, &mut violations);
            let mut places = BTreeMap::new();
            check_order(partition, read, &mut places, &mut violations);
            if self.may_repeat {
                violations.retain(|found| !matches!(found, Violation::Duplicate { .. }));
            }
            for number in 0..count {
                let record = (partition, number);
                self.check_record(record, places.get(&number).copied(), &mut violations);
            }
        }
        violations
    }

    /// Checks that the last record that a reader saw at each offset is the one in the log, which
    /// `self` has read. Before that the reader may have seen records that the log lost.
    pub fn check_reader(&self, reader: &Self) -> Vec<Violation> {
        let mut violations = Vec::new();
        for (&partition, log) in &self.read {
            let seen: BTreeMap<i64, u64> = reader
                .read
                .get(&partition)
                .into_iter()
                .flatten()
                .copied()
                .collect();
            for &(offset, number) in log {
                let read = seen.get(&offset).copied();
                if read != Some(number) {
                    violations.push(Violation::Misread {
                        partition,
                        offset,
                        read,
                    });
                }
            }
        }
        violations
    }

    fn check_record(&self, record: RecordId, read: Option<i64>, out: &mut Vec<Violation>) {
        match (self.told.get(&record), read) {
            (None, _) => out.push(Violation::NoOutcome { record }),
            (Some(&Told::Acknowledged { offset }), None) if !self.losses.excuse(record, offset) => {
                out.push(Violation::LostAcknowledged { record, offset });
            }
            // Offset -1: the broker had the record already, and no longer knows where.
            (Some(&Told::Acknowledged { offset }), Some(read))
                if offset >= 0 && offset != read && !self.may_repeat =>
            {
                out.push(Violation::WrongOffset {
                    record,
                    acknowledged: offset,
                    read,
                });
            }
            (
                Some(Told::Failed {
                    possibly_written: false,
                }),
                Some(_),
            ) => {
                out.push(Violation::Ghost { record });
            }
            _ => {}
        }
    }
}

/// Checks that every record read was sent. The partition got `count` records.
fn check_invented(partition: i32, count: u64, read: &[(i64, u64)], out: &mut Vec<Violation>) {
    let invented = read.iter().filter(|(_, number)| *number >= count);
    out.extend(invented.map(|&(offset, _)| Violation::Invented { partition, offset }));
}

/// Checks that there are no gaps: the topic has neither transactions nor compaction.
fn check_offsets(partition: i32, read: &[(i64, u64)], out: &mut Vec<Violation>) {
    for (expected, &(offset, _)) in (0..).zip(read) {
        if offset != expected {
            out.push(Violation::OffsetGap {
                partition,
                expected,
                read: offset,
            });
            return;
        }
    }
}

/// Checks that each record was read at most once, in the order of sending. Collects the offset of
/// each.
fn check_order(
    partition: i32,
    read: &[(i64, u64)],
    places: &mut BTreeMap<u64, i64>,
    out: &mut Vec<Violation>,
) {
    let mut highest: Option<u64> = None;
    for &(offset, number) in read {
        let record = (partition, number);
        if number == u64::MAX {
            continue;
        }
        if let Some(first) = places.insert(number, offset) {
            out.push(Violation::Duplicate {
                record,
                offsets: [first, offset],
            });
        } else if let Some(before) = highest.filter(|&before| before > number) {
            out.push(Violation::OutOfOrder {
                earlier: record,
                later: (partition, before),
            });
        }
        highest = highest.max(Some(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(sent: u64, read: &[(i64, u64)]) -> History {
        let mut history = History::default();
        for _ in 0..sent {
            let (partition, number) = history.send(0);
            history.tell(
                (partition, number),
                Told::Acknowledged {
                    offset: number as i64,
                },
            );
        }
        for &(offset, number) in read {
            history.read(0, offset, number);
        }
        history
    }

    #[test]
    fn a_good_history_has_no_violation() {
        assert_eq!(history(3, &[(0, 0), (1, 1), (2, 2)]).check(), []);
    }

    #[test]
    fn each_broken_promise_is_found() {
        let lost = history(2, &[(0, 0)]).check();
        assert_eq!(
            lost,
            [Violation::LostAcknowledged {
                record: (0, 1),
                offset: 1
            }]
        );
        let doubled = history(1, &[(0, 0), (1, 0)]).check();
        assert!(doubled.contains(&Violation::Duplicate {
            record: (0, 0),
            offsets: [0, 1]
        }));
        let swapped = history(2, &[(0, 1), (1, 0)]).check();
        assert!(swapped.contains(&Violation::OutOfOrder {
            earlier: (0, 0),
            later: (0, 1)
        }));
        assert!(
            swapped
                .iter()
                .any(|found| matches!(found, Violation::WrongOffset { .. }))
        );
        let gap = history(2, &[(0, 0), (2, 1)]).check();
        assert!(gap.contains(&Violation::OffsetGap {
            partition: 0,
            expected: 1,
            read: 2
        }));
        let mut ghost = history(1, &[(0, 0)]);
        ghost.tell(
            (0, 0),
            Told::Failed {
                possibly_written: false,
            },
        );
        assert_eq!(ghost.check(), [Violation::Ghost { record: (0, 0) }]);
        let invented = Violation::Invented {
            partition: 0,
            offset: 1,
        };
        assert_eq!(history(1, &[(0, 0), (1, 1)]).check(), [invented]);
        let mut elsewhere = History::default();
        elsewhere.read(3, 0, 0);
        let invented = Violation::Invented {
            partition: 3,
            offset: 0,
        };
        assert_eq!(elsewhere.check(), [invented]);
        let mut open = History::default();
        open.send(0);
        assert_eq!(open.check(), [Violation::NoOutcome { record: (0, 0) }]);
    }
}
