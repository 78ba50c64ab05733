//! Chooses the nodes for the replicas of each partition: in rotation over the nodes, or as the
//! client asks.

use thalweg_protocol::ErrorCode;

use crate::error::ApiError;
use crate::options::BrokerOptions;
use crate::topology::Topology;

/// The limit for all topics together. Each partition takes almost a kilobyte, and 200 bytes in a
/// response that lists all topics.
const PARTITIONS_MAX: usize = 200_000;

#[derive(Debug)]
pub(crate) enum NewReplicas {
    /// -1 means the broker's default.
    Counts {
        partitions: i32,
        replication_factor: i16,
    },
    Assigned(Vec<Vec<i32>>),
}

impl Default for NewReplicas {
    fn default() -> Self {
        Self::Counts {
            partitions: -1,
            replication_factor: -1,
        }
    }
}

/// For each new partition, the nodes of its replicas.
pub(crate) type Replicas = Vec<Vec<i32>>;

impl Topology {
    pub(crate) fn assign(
        &self,
        wish: &NewReplicas,
        broker: &BrokerOptions,
    ) -> Result<Replicas, ApiError> {
        match wish {
            NewReplicas::Counts {
                partitions,
                replication_factor,
            } => {
                let partitions = match *partitions {
                    -1 => broker.num_partitions,
                    count => count,
                };
                let factor = match *replication_factor {
                    -1 => broker.default_replication_factor,
                    factor => factor,
                };
                self.spread(0, partitions, factor)
            }
            NewReplicas::Assigned(lists) => {
                self.check_assignment(lists)?;
                Ok(lists.clone())
            }
        }
    }

    /// Assigns replicas to the partitions from `first` up to `partitions`, in rotation over the
    /// nodes.
    pub(crate) fn spread(
        &self,
        first: i32,
        partitions: i32,
        factor: i16,
    ) -> Result<Replicas, ApiError> {
        if partitions <= first {
            let why = "Number of partitions was set to an invalid non-positive value.";
            return Err(ApiError::new(ErrorCode::INVALID_PARTITIONS, why));
        }
        let live: Vec<i32> = self.live_nodes().map(|node| node.id).collect();
        if factor < 1 {
            let why = "Replication factor must be larger than 0, or -1 to use the default value.";
            return Err(ApiError::new(ErrorCode::INVALID_REPLICATION_FACTOR, why));
        }
        if factor as usize > live.len() {
            let why = format!(
                "Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be reached because only {} broker(s) are registered.",
                live.len()
            );
            return Err(ApiError::new(ErrorCode::INVALID_REPLICATION_FACTOR, why));
        }
        self.check_room((partitions - first) as usize)?;
        let replicas = |partition: i32| {
            let start = self.next_node + partition as usize;
            (0..factor as usize)
                .map(|step| live[(start + step) % live.len()])
                .collect()
        };
        Ok((first..partitions).map(replicas).collect())
    }

    fn check_room(&self, more: usize) -> Result<(), ApiError> {
        if self.partitions_count + more <= PARTITIONS_MAX {
            return Ok(());
        }
        let why = format!("The embedded broker stores at most {PARTITIONS_MAX} partitions.");
        Err(ApiError::new(ErrorCode::POLICY_VIOLATION, why))
    }

    pub(crate) fn check_assignment(&self, lists: &[Vec<i32>]) -> Result<(), ApiError> {
        self.check_room(lists.len())?;
        let bad = |why: String| Err(ApiError::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, why));
        let width = lists.first().map_or(0, Vec::len);
        for list in lists {
            if list.is_empty() || list.len() != width {
                return bad("The manual partition assignment includes partitions with different or no replicas.".to_owned());
            }
            for (at, node) in list.iter().enumerate() {
                if self.node(*node).is_none() {
                    return bad(format!(
                        "The manual partition assignment includes broker {node}, but no such broker is registered."
                    ));
                }
                if list[..at].contains(node) {
                    return bad(format!(
                        "The manual partition assignment includes the broker {node} more than once."
                    ));
                }
            }
        }
        Ok(())
    }
}
