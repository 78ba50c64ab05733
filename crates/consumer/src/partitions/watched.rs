//! Counts the fetches of one position that returned nothing, for a reader that has to know whether
//! the log has more records.
//!
//! A fetch session leaves out partitions that have nothing new, and also those for which other
//! partitions left no room. So only a response without any records and errors shows that the broker
//! read the partition, and found nothing.

use thalweg_cluster::NodeId;

use crate::partitions::Partitions;
use crate::partitions::table::Assigned;
use crate::topic_partition::TopicPartition;

/// The fetch that is watched. Another node, offset or assignment is another fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WatchedFetch {
    handle: u32,
    node: NodeId,
    offset: i64,
}

/// The fetch that is watched, and how often its responses had no records and errors of any
/// partition.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watched {
    fetch: Option<WatchedFetch>,
    empty: u64,
}

impl Watched {
    /// Returns the partition's handle and the offset, if a fetch from this node is watched.
    pub(crate) fn at(&self, node: NodeId) -> Option<(u32, i64)> {
        let fetch = self.fetch.filter(|fetch| fetch.node == node)?;
        Some((fetch.handle, fetch.offset))
    }

    /// A response to the watched fetch was empty.
    pub(crate) fn found_empty(&mut self) {
        self.empty += 1;
    }
}

impl Assigned {
    /// Returns how many fetches of the partition at this position returned nothing since it was
    /// first asked about. Each position starts again.
    fn empty_fetches(&mut self, partition: &TopicPartition, offset: i64) -> u64 {
        let fetch = self.get(partition).and_then(|state| {
            Some(WatchedFetch {
                handle: state.handle,
                node: state.in_session?,
                offset,
            })
        });
        if self.watched.fetch != fetch {
            self.watched = Watched { fetch, empty: 0 };
        }
        self.watched.empty
    }
}

impl Partitions {
    /// Returns how many fetches of the partition at this position returned nothing since it was
    /// first asked about. No other partition had records in these responses: they could have left no
    /// room.
    pub(crate) fn empty_fetches(&self, partition: &TopicPartition, offset: i64) -> u64 {
        self.settled().empty_fetches(partition, offset)
    }
}
