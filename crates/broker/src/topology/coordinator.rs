//! Finds the partition of `__consumer_offsets` or `__transaction_state` that a group or
//! transactional id belongs to. Its leader is the coordinator. The topics themselves do not exist
//! here.

use std::collections::BTreeMap;
use std::time::Instant;

use thalweg_protocol::Str;

use crate::topology::Node;
use crate::{BrokerError, Core};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CoordinatorKind {
    Group,
    Transaction,
}

/// The groups and transactional ids that a program moved to another node.
#[derive(Debug, Default)]
pub(crate) struct MovedCoordinators(BTreeMap<Str, i32>);

impl Core {
    /// Returns the node that coordinates a group or transactional id, or `None` if no node is live.
    pub(crate) fn coordinator(&self, kind: CoordinatorKind, key: &str) -> Option<&Node> {
        let moved = self.moved_coordinators.0.get(key);
        let moved = moved.and_then(|node| self.topology.node(*node));
        if let Some(node) = moved.filter(|node| node.is_live) {
            return Some(node);
        }
        let partitions = match kind {
            CoordinatorKind::Group => self.options.offsets_partitions,
            CoordinatorKind::Transaction => self.options.transaction_partitions,
        };
        let partition = partition_for(key, partitions);
        self.topology.node_at(partition as usize)
    }

    /// Makes a node the coordinator of the group and the transactional id of this name, while the
    /// node is live. Their offsets and transactions are kept.
    pub fn move_coordinator(
        &mut self,
        key: &str,
        node: i32,
        now: Instant,
    ) -> Result<(), BrokerError> {
        self.check_node(node)?;
        self.moved_coordinators.0.insert(key.into(), node);
        self.recoordinate_groups(now);
        Ok(())
    }
}

/// Returns Kafka's `Utils.abs(groupId.hashCode()) % partitions`.
pub(crate) fn partition_for(key: &str, partitions: i32) -> i32 {
    // The smallest integer has no absolute value. Kafka uses 0 for it.
    let hash = java_hash(key).checked_abs().unwrap_or(0);
    hash % partitions
}

/// Computes Java's `String.hashCode`: over UTF-16 code units, in 32 bits.
fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0, |hash: i32, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_javas() {
        assert_eq!(java_hash(""), 0);
        assert_eq!(java_hash("hello"), 99_162_322);
        assert_eq!(
            java_hash("grüße"),
            "grüße".chars().fold(0, |h, c| h * 31 + c as i32)
        );
        assert_eq!(java_hash("polygenelubricants"), i32::MIN);
        assert_eq!(partition_for("polygenelubricants", 50), 0);
        assert_eq!(partition_for("hello", 50), 22);
    }
}
