//! The ledger of transactions: what was done in each, how it ended, and which promises must hold.

use std::collections::BTreeSet;

use crate::history::{History, RecordId};

/// The number of a transaction, in the order in which they began.
pub type TransactionId = u64;

/// How a transaction ended, as far as its producer knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Committed,
    Aborted,
    /// The producer died or was fenced while it committed.
    Unknown,
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// A record of a committed transaction was not read.
    Lost {
        transaction: TransactionId,
        record: RecordId,
    },
    /// A record of a transaction that was not committed was read.
    Leaked {
        transaction: TransactionId,
        record: RecordId,
    },
    /// Some records of a transaction were read and others were not.
    Torn {
        transaction: TransactionId,
    },
    Doubled {
        record: RecordId,
    },
    OutOfOrder {
        earlier: RecordId,
        later: RecordId,
    },
    /// A record was read that no client sent.
    Unsent {
        record: RecordId,
    },
    /// The group's offset contradicts the end of the transaction that committed it.
    Offset {
        transaction: TransactionId,
        ending: Ending,
        offset: i64,
    },
    /// A producer committed after a newer one had taken over its transactional id.
    ZombieCommitted {
        transaction: TransactionId,
    },
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Transaction {
    records: Vec<RecordId>,
    ending: Option<Ending>,
}

/// All transactions of one transactional id.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Ledger {
    sent: History,
    transactions: Vec<Transaction>,
    broken: Vec<Broken>,
}

impl Ledger {
    pub fn begin(&mut self) -> TransactionId {
        self.transactions.push(Transaction::default());
        self.transactions.len() as u64 - 1
    }

    /// Returns the id of the next record of a partition.
    pub fn name(&mut self, partition: i32) -> RecordId {
        self.sent.send(partition)
    }

    /// Notes that a record was appended within a transaction.
    pub fn add(&mut self, transaction: TransactionId, record: RecordId) {
        self.of(transaction).records.push(record);
    }

    pub fn end(&mut self, transaction: TransactionId, ending: Ending) {
        self.of(transaction).ending = Some(ending);
    }

    pub fn break_promise(&mut self, broken: Broken) {
        self.broken.push(broken);
    }

    /// Resolves unknown endings by the group's offset, which a successor reads. The offset is the
    /// number of transactions up to the last committed one. So it tells how a transaction ended
    /// whose producer died before it knew.
    pub fn resolve(&mut self, offset: i64) {
        for (index, transaction) in self.transactions.iter_mut().enumerate().rev() {
            let is_last_committed = index as i64 + 1 == offset;
            let found = if is_last_committed {
                Ending::Committed
            } else {
                Ending::Aborted
            };
            let told = transaction.ending.get_or_insert(found);
            if *told == Ending::Unknown {
                *told = found;
            } else if *told != found {
                self.broken.push(Broken::Offset {
                    transaction: index as TransactionId,
                    ending: *told,
                    offset,
                });
            }
            if is_last_committed {
                return;
            }
        }
    }

    fn of(&mut self, transaction: TransactionId) -> &mut Transaction {
        &mut self.transactions[transaction as usize]
    }

    /// Returns how many transactions ended in this way.
    pub fn count(&self, ending: Ending) -> usize {
        let ended = self.transactions.iter().filter_map(|each| each.ending);
        ended.filter(|&each| each == ending).count()
    }

    /// Returns all broken promises, given what a reader of committed records has read.
    pub fn check(&self, reads: &History) -> Vec<Broken> {
        let mut broken = self.broken.clone();
        let mut seen = BTreeSet::new();
        for (partition, numbers) in reads.numbers() {
            check_partition(partition, &numbers, &mut seen, &mut broken);
        }
        let mut known = BTreeSet::new();
        for (id, transaction) in (0..).zip(&self.transactions) {
            known.extend(transaction.records.iter().copied());
            check_transaction(id, transaction, &seen, &mut broken);
        }
        let unsent = seen.difference(&known);
        broken.extend(unsent.map(|&record| Broken::Unsent { record }));
        broken
    }
}

/// Checks that each record was read once, in the order of sending.
fn check_partition(
    partition: i32,
    numbers: &[u64],
    seen: &mut BTreeSet<RecordId>,
    broken: &mut Vec<Broken>,
) {
    let mut highest = None;
    for &number in numbers {
        let record = (partition, number);
        if !seen.insert(record) {
            broken.push(Broken::Doubled { record });
        } else if let Some(before) = highest.filter(|&before| before > number) {
            let later = (partition, before);
            broken.push(Broken::OutOfOrder {
                earlier: record,
                later,
            });
        }
        highest = highest.max(Some(number));
    }
}

/// Checks that a transaction's records were read completely or not at all, as it ended.
fn check_transaction(
    transaction: TransactionId,
    of: &Transaction,
    seen: &BTreeSet<RecordId>,
    broken: &mut Vec<Broken>,
) {
    let (read, unread): (Vec<RecordId>, Vec<RecordId>) =
        of.records.iter().partition(|record| seen.contains(record));
    let lost = |record| Broken::Lost {
        transaction,
        record,
    };
    let leaked = |record| Broken::Leaked {
        transaction,
        record,
    };
    match of.ending {
        Some(Ending::Committed) => broken.extend(unread.into_iter().map(lost)),
        Some(Ending::Aborted) | None => broken.extend(read.into_iter().map(leaked)),
        Some(Ending::Unknown) if !read.is_empty() && !unread.is_empty() => {
            broken.push(Broken::Torn { transaction });
        }
        Some(Ending::Unknown) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a ledger with these endings. Each transaction has two records in partition 0.
    fn ledger(endings: &[Ending]) -> Ledger {
        let mut ledger = Ledger::default();
        for &ending in endings {
            let transaction = ledger.begin();
            for _ in 0..2 {
                let record = ledger.name(0);
                ledger.add(transaction, record);
            }
            ledger.end(transaction, ending);
        }
        ledger
    }

    fn reads(numbers: &[u64]) -> History {
        let mut reads = History::default();
        for (offset, &number) in (0..).zip(numbers) {
            reads.read(0, offset, number);
        }
        reads
    }

    #[test]
    fn all_of_a_commit_and_nothing_of_an_abort_is_right() {
        let ledger = ledger(&[Ending::Committed, Ending::Aborted, Ending::Committed]);
        assert_eq!(ledger.check(&reads(&[0, 1, 4, 5])), []);
    }

    #[test]
    fn each_broken_promise_is_found() {
        let committed = ledger(&[Ending::Committed]);
        let (transaction, record) = (0, (0, 1));
        let lost = Broken::Lost {
            transaction,
            record,
        };
        assert_eq!(committed.check(&reads(&[0])), [lost]);
        let doubled = Broken::Doubled { record };
        assert_eq!(committed.check(&reads(&[0, 1, 1])), [doubled]);
        let (earlier, later) = ((0, 0), (0, 1));
        let swapped = Broken::OutOfOrder { earlier, later };
        assert_eq!(committed.check(&reads(&[1, 0])), [swapped]);
        let unsent = Broken::Unsent { record: (0, 7) };
        assert_eq!(committed.check(&reads(&[0, 1, 7])), [unsent]);
        let leaked = Broken::Leaked {
            transaction,
            record,
        };
        assert_eq!(ledger(&[Ending::Aborted]).check(&reads(&[1])), [leaked]);
        let torn = Broken::Torn { transaction };
        assert_eq!(ledger(&[Ending::Unknown]).check(&reads(&[1])), [torn]);
    }

    #[test]
    fn the_groups_offset_tells_how_a_transaction_ended() {
        let endings = [Ending::Committed, Ending::Unknown];
        let mut both = ledger(&endings);
        both.resolve(2);
        assert_eq!(both.count(Ending::Committed), 2);
        let mut first = ledger(&endings);
        first.resolve(1);
        assert_eq!(first.count(Ending::Aborted), 1);
        let mut none = ledger(&[Ending::Committed]);
        none.resolve(-1);
        let (transaction, ending, offset) = (0, Ending::Committed, -1);
        let broken = Broken::Offset {
            transaction,
            ending,
            offset,
        };
        assert_eq!(none.check(&reads(&[0, 1])), [broken]);
    }
}
