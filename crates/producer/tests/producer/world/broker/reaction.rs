//! What a test makes brokers do to a Produce request.

use thalweg_cluster::NodeId;
use thalweg_protocol::messages::produce::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse,
    ProduceResponse,
};
use thalweg_protocol::{ErrorCode, Str};

/// What happens to one Produce request instead of the usual.
#[derive(Debug, Clone)]
pub(crate) enum Reaction {
    Usual,
    /// The connection breaks before anything is written.
    LoseRequest,
    /// The request is written, then the connection breaks.
    LoseResponse,
    /// Nothing happens until `release`, then the usual. Until then its bytes belong to the
    /// producer, like those of a request that a socket has not accepted yet.
    Hold,
    /// The request is never answered.
    Silence,
    /// Nothing is written, and every partition is answered with this error.
    Refuse(ErrorCode),
    /// The request is written, and answered with this error.
    RefuseAfterWriting(ErrorCode),
    /// This partition is refused, the others get the usual response.
    RefusePartition(i32, ErrorCode),
    /// The request is refused, with the new leader's id and epoch.
    Moved(NodeId, i32),
    /// These records are invalid (KIP-467).
    InvalidRecords(Vec<(i32, &'static str)>),
    /// The request is written, but the response does not mention it.
    Forget,
    Throttle(i32),
    /// The response cannot be decoded.
    Garbage,
    /// The request is written, and answered with the correlation id of another one.
    WrongCorrelationId,
}

pub(super) fn decorate(mut response: ProduceResponse, reaction: &Reaction) -> ProduceResponse {
    match *reaction {
        Reaction::Throttle(ms) => response.throttle_time_ms = ms,
        Reaction::Moved(leader, epoch) => {
            response.node_endpoints = vec![NodeEndpoint {
                node_id: leader,
                host: Str::from(format!("n{leader}")),
                port: 9092,
                rack: None,
            }];
            for partition in response
                .responses
                .iter_mut()
                .flat_map(|t| &mut t.partition_responses)
            {
                partition.current_leader = LeaderIdAndEpoch {
                    leader_id: leader,
                    leader_epoch: epoch,
                };
            }
        }
        _ => {}
    }
    response
}

pub(super) fn decide(
    reaction: &Reaction,
    partition: i32,
    write: &mut dyn FnMut() -> PartitionProduceResponse,
) -> PartitionProduceResponse {
    let refused = |code: ErrorCode| PartitionProduceResponse {
        error_code: code.0,
        base_offset: -1,
        ..Default::default()
    };
    match reaction {
        Reaction::Refuse(code) => refused(*code),
        // Like Kafka's DelayedProduce: another error code, and the offset stays.
        Reaction::RefuseAfterWriting(code) => PartitionProduceResponse {
            error_code: code.0,
            ..write()
        },
        Reaction::RefusePartition(which, code) if *which == partition => refused(*code),
        Reaction::Moved(..) => refused(ErrorCode::NOT_LEADER_OR_FOLLOWER),
        Reaction::InvalidRecords(errors) => PartitionProduceResponse {
            record_errors: errors
                .iter()
                .map(|&(index, message)| BatchIndexAndErrorMessage {
                    batch_index: index,
                    batch_index_error_message: Some(Str::from(message)),
                })
                .collect(),
            error_message: Some(Str::from("One or more records have been rejected")),
            ..refused(ErrorCode::INVALID_RECORD)
        },
        _ => write(),
    }
}
