//! `ElectLeaders` // key 43
//!
//! The preferred leader is the first replica. An unclean election is never needed, because every
//! live node has the complete log.

use thalweg_protocol::messages::elect_leaders::{
    ElectLeadersRequest, ElectLeadersResponse, PartitionResult, ReplicaElectionResult,
};
use thalweg_protocol::{ErrorCode, Str};

use crate::Core;
use crate::requests::context::Context;
use crate::requests::subject::Subject;
use crate::topology::partition::NO_LEADER;

const PREFERRED: i8 = 0;

impl Subject for ElectLeadersRequest {
    fn topics(&self, _: &Core) -> Vec<Str> {
        self.topic_partitions
            .iter()
            .flatten()
            .map(|topic| topic.topic.clone())
            .collect()
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: ElectLeadersRequest,
) -> ElectLeadersResponse {
    let is_for_all = request.topic_partitions.is_none();
    // The names of all topics are for those who have the right.
    if let Some(code) = context.denied_cluster().filter(|_| is_for_all) {
        return ElectLeadersResponse {
            error_code: code.0,
            ..ElectLeadersResponse::default()
        };
    }
    let wishes: Vec<(Str, Vec<i32>)> = match request.topic_partitions {
        Some(topics) => topics
            .into_iter()
            .map(|t| (t.topic, t.partitions))
            .collect(),
        None => every_partition(context.core),
    };
    let results = wishes.into_iter().map(|(topic, partitions)| {
        let name = topic.as_str();
        let partitions = partitions.into_iter().map(|index| {
            let code = elect(context, name, index, request.election_type);
            PartitionResult {
                partition_id: index,
                error_code: code.0,
                error_message: (code != ErrorCode::NONE).then(|| Str::from_static(code.message())),
            }
        });
        // If the request is for all partitions, Kafka omits those that need no election.
        let told =
            partitions.filter(|p| !is_for_all || p.error_code != ErrorCode::ELECTION_NOT_NEEDED.0);
        let partition_result = told.collect();
        ReplicaElectionResult {
            partition_result,
            topic: topic.clone(),
        }
    });
    let replica_election_results = results
        .filter(|topic| !topic.partition_result.is_empty())
        .collect();
    ElectLeadersResponse {
        replica_election_results,
        ..ElectLeadersResponse::default()
    }
}

fn every_partition(core: &Core) -> Vec<(Str, Vec<i32>)> {
    let topics = core.topology.topics();
    topics
        .map(|t| (t.name.clone(), (0..t.partitions.len() as i32).collect()))
        .collect()
}

fn elect(context: &mut Context<'_>, topic: &str, index: i32, election_type: i8) -> ErrorCode {
    if let Some(code) = context.refusal_for(topic) {
        return code;
    }
    let topology = &mut context.core.topology;
    let Some(partition) = topology
        .topic(topic)
        .and_then(|topic| topic.partition(index))
    else {
        return ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    };
    let preferred = partition.replicas.first().copied().unwrap_or(NO_LEADER);
    if election_type != PREFERRED || partition.leader == preferred {
        return ErrorCode::ELECTION_NOT_NEEDED;
    }
    if !topology.is_live(preferred) {
        return ErrorCode::PREFERRED_LEADER_NOT_AVAILABLE;
    }
    match topology.move_leader(topic, index, preferred) {
        Ok(()) => ErrorCode::NONE,
        Err(error) => error.code,
    }
}
