//! `Produce` // key 0
//!
//! Supported from version 3 on, but advertised from 0 on (see `requests/api.rs`). For each
//! partition it checks that this node leads it, that the batch is in its producer's transaction,
//! valid and in sequence, and that there is room. Then it appends the batch and wakes the requests
//! that wait for records. Nothing is replicated, so acks=all gets its response as soon as acks=1.

use bytes::Bytes;
use thalweg_protocol::messages::produce::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceData,
    PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceData,
    TopicProduceResponse,
};
use thalweg_protocol::{ErrorCode, Str, Uuid};
use thalweg_records::batch_header::NO_PRODUCER_ID;

use crate::Core;
use crate::options::BrokerOptions;
use crate::quotas::QuotaKind;
use crate::requests::context::Context;
use crate::requests::response::{Reply, ReplyTo};
use crate::requests::subject::{Subject, topic_name};
use crate::storage::Sequenced;
use crate::storage::validate::{self, Accepted, Refusal};
use crate::transactions::Verification;

impl Subject for ProduceRequest {
    fn topics(&self, core: &Core) -> Vec<Str> {
        let topics = self.topic_data.iter();
        topics
            .filter_map(|topic| topic_name(core, &topic.name, topic.topic_id))
            .collect()
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    _: ReplyTo,
    request: ProduceRequest,
) -> Reply<ProduceResponse> {
    let acks = request.acks;
    context.spend(QuotaKind::Produce, context.frame_bytes as f64);
    let mut circumstances = Circumstances {
        acks,
        transactional_id: request.transactional_id,
        decoded_bytes_left: validate::decoded_bytes_max(context.frame_bytes),
    };
    let mut responses = Vec::with_capacity(request.topic_data.len());
    for topic in request.topic_data {
        responses.push(produce_topic(context, &mut circumstances, topic));
    }
    let mut partitions = responses
        .iter()
        .flat_map(|topic| &topic.partition_responses);
    if acks == 0 {
        // The client reads no response. The only way to report an error is to close the connection.
        let failed = partitions.any(|partition| partition.error_code != 0);
        return if failed { Reply::Close } else { Reply::Nothing };
    }
    let hints = partitions.map(|partition| partition.current_leader.leader_id);
    let node_endpoints = node_endpoints(context, hints.collect());
    Reply::Message(ProduceResponse {
        responses,
        node_endpoints,
        throttle_time_ms: context.throttle_ms,
    })
}

/// What all batches of a request have in common.
struct Circumstances {
    acks: i16,
    transactional_id: Option<Str>,
    /// The bytes to which the remaining batches may decompress.
    decoded_bytes_left: usize,
}

/// The result of a batch that was not refused.
struct AppendedBatch {
    base_offset: i64,
    log_append_time_ms: i64,
    log_start_offset: i64,
}

fn produce_topic(
    context: &mut Context<'_>,
    circumstances: &mut Circumstances,
    topic: TopicProduceData,
) -> TopicProduceResponse {
    let uses_ids = context.version >= 13;
    let topology = &context.core.topology;
    let id = circumstances.transactional_id.as_ref();
    let denied = id.and_then(|id| context.denied_transactional_id(id));
    // A client that may not write does not learn whether the topic exists.
    let denied_by_name = || context.denied_topic(&topic.name).filter(|_| !uses_ids);
    let denied = denied.or_else(denied_by_name);
    let found = if let Some(code) = denied {
        Err(code)
    } else if uses_ids {
        topology
            .topic_by_id(topic.topic_id)
            .ok_or(ErrorCode::UNKNOWN_TOPIC_ID)
    } else {
        topology
            .topic(&topic.name)
            .ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
    };
    let found = found.map(|topic| topic.id);
    let partition_responses = topic
        .partition_data
        .into_iter()
        .map(|PartitionProduceData { index, records }| {
            let produced = found
                .map_err(|code| Refusal::new(code, code.message()))
                .and_then(|id| produce_partition(context, circumstances, (id, index), records));
            match produced {
                Ok(appended) => success(index, &appended),
                Err(refusal) => failure(context, found.ok(), index, refusal),
            }
        })
        .collect();
    TopicProduceResponse {
        name: topic.name,
        topic_id: topic.topic_id,
        partition_responses,
    }
}

fn produce_partition(
    context: &mut Context<'_>,
    circumstances: &mut Circumstances,
    (topic, index): (Uuid, i32),
    records: Option<Bytes>,
) -> Result<AppendedBatch, Refusal> {
    check(context, circumstances.acks, topic, index)?;
    context.core.verify_batch(
        records.as_deref().unwrap_or_default(),
        circumstances.transactional_id.as_ref(),
        (topic, index),
        Verification::of_produce(context.version),
        context.time(),
    )?;
    let (now_ms, frame_bytes) = (context.now_ms, context.frame_bytes);
    let core = &mut *context.core;
    let size = records.as_ref().map_or(0, Bytes::len);
    let has_room = core.has_room(size, now_ms);
    let Some(topic) = core.topology.topic_by_id_mut(topic) else {
        return Err(plain(ErrorCode::UNKNOWN_TOPIC_ID));
    };
    let accepted = validate::validate(
        records,
        &topic.options,
        now_ms,
        &mut core.codecs,
        &mut circumstances.decoded_bytes_left,
    )?;
    let options = &topic.options;
    let Some(partition) = topic.partitions.get_mut(index as usize) else {
        return Err(plain(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    };
    let Accepted {
        header,
        data,
        log_append_time_ms,
    } = accepted;
    if header.producer_id != NO_PRODUCER_ID {
        match partition.producers.check(&header) {
            Sequenced::Append => {}
            Sequenced::Duplicate {
                base_offset,
                timestamp,
            } => {
                let log_start_offset = partition.log.start_offset();
                let log_append_time_ms = timestamp;
                return Ok(AppendedBatch {
                    base_offset,
                    log_append_time_ms,
                    log_start_offset,
                });
            }
            Sequenced::Refused { code, message } => return Err(Refusal::new(code, message)),
        }
    }
    if !has_room {
        return Err(no_room(&core.options));
    }
    let size_before = partition.log.size_bytes();
    let epoch = partition.leader_epoch;
    let base_offset = partition
        .log
        .append(&header, data, frame_bytes, epoch, options);
    if header.producer_id != NO_PRODUCER_ID {
        partition
            .producers
            .appended(&header, base_offset, header.max_timestamp);
    }
    core.memory_bytes += partition.log.size_bytes() - size_before;
    partition.waiters.wake_all();
    let log_start_offset = partition.log.start_offset();
    Ok(AppendedBatch {
        base_offset,
        log_append_time_ms,
        log_start_offset,
    })
}

fn no_room(options: &BrokerOptions) -> Refusal {
    Refusal::new(
        ErrorCode::POLICY_VIOLATION,
        format!(
            "The embedded broker stores at most {} bytes. Raise thalweg.memory.max.bytes, or lower \
             retention.ms or retention.bytes of the topics.",
            options.memory_bytes_max.unwrap_or_default()
        ),
    )
}

/// Checks that this node may append to the partition.
fn check(context: &Context<'_>, acks: i16, topic: Uuid, index: i32) -> Result<(), Refusal> {
    let topology = &context.core.topology;
    let topic = topology
        .topic_by_id(topic)
        .ok_or_else(|| plain(ErrorCode::UNKNOWN_TOPIC_ID))?;
    if let Some(code) = context.refusal_for(&topic.name) {
        return Err(plain(code));
    }
    if !(-1..=1).contains(&acks) {
        return Err(plain(ErrorCode::INVALID_REQUIRED_ACKS));
    }
    let partition = topic
        .partition(index)
        .ok_or_else(|| plain(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION))?;
    partition.check_leader(context.node, -1).map_err(plain)?;
    if let Some(code) = partition.refusals.produce {
        return Err(plain(code));
    }
    let in_sync = topology.isr(partition).len() as i32;
    // There cannot be more in-sync replicas than replicas (KIP-966).
    let wanted = topic
        .options
        .min_insync_replicas
        .min(partition.replicas.len() as i32);
    if acks == -1 && in_sync < wanted {
        return Err(Refusal::new(
            ErrorCode::NOT_ENOUGH_REPLICAS,
            format!(
                "The size of the current ISR is {in_sync}, below min.insync.replicas, {wanted}."
            ),
        ));
    }
    Ok(())
}

fn plain(code: ErrorCode) -> Refusal {
    Refusal::new(code, code.message())
}

fn success(index: i32, appended: &AppendedBatch) -> PartitionProduceResponse {
    PartitionProduceResponse {
        index,
        base_offset: appended.base_offset,
        log_append_time_ms: appended.log_append_time_ms,
        log_start_offset: appended.log_start_offset,
        ..PartitionProduceResponse::default()
    }
}

fn failure(
    context: &Context<'_>,
    topic: Option<Uuid>,
    index: i32,
    refusal: Refusal,
) -> PartitionProduceResponse {
    let record_error = |(batch_index, message): (i32, String)| BatchIndexAndErrorMessage {
        batch_index,
        batch_index_error_message: Some(message.into()),
    };
    PartitionProduceResponse {
        index,
        error_code: refusal.code.0,
        base_offset: -1,
        record_errors: refusal.records.into_iter().map(record_error).collect(),
        error_message: Some(refusal.message.into()),
        log_start_offset: log_start(context, topic, index, refusal.code),
        current_leader: leader_hint(context, topic, index, refusal.code),
        ..PartitionProduceResponse::default()
    }
}

/// Returns the log start offset for errors of a batch's contents, as in Kafka, otherwise -1.
fn log_start(context: &Context<'_>, topic: Option<Uuid>, index: i32, code: ErrorCode) -> i64 {
    let is_told = matches!(
        code,
        ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER
            | ErrorCode::INVALID_PRODUCER_EPOCH
            | ErrorCode::INVALID_TIMESTAMP
    );
    let partition = topic
        .filter(|_| is_told)
        .and_then(|id| context.core.topology.topic_by_id(id))
        .and_then(|topic| topic.partition(index));
    partition.map_or(-1, |partition| partition.log.start_offset())
}

/// Returns the leader, for a client that asked the wrong node (KIP-951).
fn leader_hint(
    context: &Context<'_>,
    topic: Option<Uuid>,
    index: i32,
    code: ErrorCode,
) -> LeaderIdAndEpoch {
    let led = topic
        .and_then(|id| context.core.topology.topic_by_id(id))
        .and_then(|topic| topic.partition(index));
    match led {
        Some(partition) if code == ErrorCode::NOT_LEADER_OR_FOLLOWER && context.version >= 10 => {
            LeaderIdAndEpoch {
                leader_id: partition.leader,
                leader_epoch: partition.leader_epoch,
            }
        }
        _ => LeaderIdAndEpoch::default(),
    }
}

fn node_endpoints(context: &Context<'_>, mut leaders: Vec<i32>) -> Vec<NodeEndpoint> {
    leaders.sort_unstable();
    leaders.dedup();
    let nodes = leaders
        .into_iter()
        .filter_map(|id| context.core.topology.node(id));
    nodes
        .map(|node| NodeEndpoint {
            node_id: node.id,
            host: node.host.clone(),
            port: i32::from(node.port),
            rack: None,
        })
        .collect()
}
