//! Request bodies and batches that several sections need.

use std::time::SystemTime;

use thalweg_protocol::Uuid;
use thalweg_protocol::messages::{create_topics, metadata, produce};
use thalweg_records::{BatchBuilder, BatchHeader, Headers};

pub(crate) fn topic(
    name: &str,
    num_partitions: i32,
    replication_factor: i16,
    configs: &[(&str, &str)],
) -> create_topics::CreatableTopic {
    let config = |(name, value): &(&str, &str)| create_topics::CreatableTopicConfig {
        name: (*name).into(),
        value: Some((*value).into()),
    };
    create_topics::CreatableTopic {
        name: name.into(),
        num_partitions,
        replication_factor,
        configs: configs.iter().map(config).collect(),
        ..Default::default()
    }
}

pub(crate) fn metadata_of(names: &[&str]) -> metadata::MetadataRequest {
    let topic = |name: &&str| metadata::MetadataRequestTopic {
        name: Some((*name).into()),
        ..Default::default()
    };
    metadata::MetadataRequest {
        topics: Some(names.iter().map(topic).collect()),
        allow_auto_topic_creation: false,
        ..Default::default()
    }
}

pub(crate) fn produce_to(
    name: &str,
    id: Uuid,
    index: i32,
    records: &[u8],
) -> produce::ProduceRequest {
    produce::ProduceRequest {
        acks: -1,
        timeout_ms: 5000,
        topic_data: vec![produce::TopicProduceData {
            name: name.into(),
            topic_id: id,
            partition_data: vec![produce::PartitionProduceData {
                index,
                records: Some(records.to_vec().into()),
            }],
        }],
        ..Default::default()
    }
}

pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |time| time.as_millis() as i64)
}

pub(crate) fn batch(header: BatchHeader, timestamps: &[i64], key: Option<&[u8]>) -> Vec<u8> {
    let mut builder = BatchBuilder::with_header(header);
    for timestamp in timestamps {
        builder.append(*timestamp, key, Some(b"value"), Headers::NONE);
    }
    builder.finish()
}

pub(crate) fn plain(timestamps: &[i64]) -> Vec<u8> {
    batch(BatchHeader::default(), timestamps, None)
}

pub(crate) fn sequenced(producer_id: i64, epoch: i16, sequence: i32, count: usize) -> Vec<u8> {
    let header = BatchHeader {
        producer_id,
        producer_epoch: epoch,
        base_sequence: sequence,
        ..BatchHeader::default()
    };
    batch(header, &vec![1_700_000_000_000; count], None)
}
