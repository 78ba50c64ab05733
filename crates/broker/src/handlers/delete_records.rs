//! `DeleteRecords` // key 21

use thalweg_protocol::messages::delete_records::{
    DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse,
    DeleteRecordsTopicResult,
};
use thalweg_protocol::{ErrorCode, Str};

use crate::Core;
use crate::requests::context::Context;
use crate::requests::subject::Subject;

/// Means the high watermark: delete all records.
const ALL: i64 = -1;

impl Subject for DeleteRecordsRequest {
    fn topics(&self, _: &Core) -> Vec<Str> {
        self.topics.iter().map(|topic| topic.name.clone()).collect()
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: DeleteRecordsRequest,
) -> DeleteRecordsResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let name = topic.name.as_str();
        let partitions = topic.partitions.iter().map(|wish| {
            let deleted = delete(context, name, wish.partition_index, wish.offset);
            DeleteRecordsPartitionResult {
                partition_index: wish.partition_index,
                low_watermark: deleted.unwrap_or(-1),
                error_code: deleted.err().unwrap_or_default().0,
            }
        });
        DeleteRecordsTopicResult {
            partitions: partitions.collect(),
            name: topic.name.clone(),
        }
    });
    DeleteRecordsResponse {
        topics: topics.collect(),
        ..DeleteRecordsResponse::default()
    }
}

fn delete(
    context: &mut Context<'_>,
    topic: &str,
    index: i32,
    offset: i64,
) -> Result<i64, ErrorCode> {
    if let Some(code) = context.refusal_for(topic) {
        return Err(code);
    }
    let core = &mut *context.core;
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    let topic = core.topology.topic_mut(topic).ok_or(unknown)?;
    if !topic.options.cleanup_policy.delete {
        return Err(ErrorCode::POLICY_VIOLATION);
    }
    let partition = topic.partition_mut(index).ok_or(unknown)?;
    partition.check_leader(context.node, -1)?;
    let offset = if offset == ALL {
        partition.high_watermark()
    } else {
        offset
    };
    if !(0..=partition.high_watermark()).contains(&offset) {
        return Err(ErrorCode::OFFSET_OUT_OF_RANGE);
    }
    core.memory_bytes -= partition.log.delete_before(offset);
    let start = partition.log.start_offset();
    partition.producers.forget_before(start);
    partition.waiters.wake_all();
    Ok(partition.log.start_offset())
}
