//! `DescribeLogDirs` // key 35
//!
//! There are no directories. The response shows a single one that says so, with the sizes of the
//! data in memory.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_protocol::Str;
use thalweg_protocol::messages::describe_log_dirs::{
    DescribableLogDirTopic, DescribeLogDirsPartition, DescribeLogDirsRequest,
    DescribeLogDirsResponse, DescribeLogDirsResult, DescribeLogDirsTopic,
};

use crate::Core;
use crate::requests::context::Context;
use crate::requests::subject::Subject;
use crate::topology::topic::Topic;

const MEMORY: &str = "memory";

impl Subject for DescribeLogDirsRequest {
    fn topics(&self, _: &Core) -> Vec<Str> {
        self.topics
            .iter()
            .flatten()
            .map(|topic| topic.topic.clone())
            .collect()
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: DescribeLogDirsRequest,
) -> DescribeLogDirsResponse {
    if let Some(code) = context.refusal() {
        return DescribeLogDirsResponse {
            error_code: code.0,
            ..Default::default()
        };
    }
    let core = &*context.core;
    let max = core.options.memory_bytes_max.unwrap_or(i64::MAX as u64);
    let wanted = request.topics.as_deref().map(wanted);
    let topics = core.topology.topics().filter_map(|topic| {
        let partitions = match &wanted {
            None => sizes(topic, context.node, |_| true),
            Some(wanted) => {
                let wanted = wanted.get(&topic.name)?;
                sizes(topic, context.node, |index| wanted.contains(&index))
            }
        };
        (!partitions.is_empty()).then(|| DescribeLogDirsTopic {
            name: topic.name.clone(),
            partitions,
        })
    });
    let result = DescribeLogDirsResult {
        log_dir: MEMORY.into(),
        topics: topics.collect(),
        total_bytes: max as i64,
        usable_bytes: max.saturating_sub(core.memory_bytes) as i64,
        ..DescribeLogDirsResult::default()
    };
    DescribeLogDirsResponse {
        results: vec![result],
        ..Default::default()
    }
}

/// Returns the requested partitions by topic.
fn wanted(topics: &[DescribableLogDirTopic]) -> BTreeMap<&Str, BTreeSet<i32>> {
    let mut wanted: BTreeMap<&Str, BTreeSet<i32>> = BTreeMap::new();
    for topic in topics {
        let partitions = wanted.entry(&topic.topic).or_default();
        partitions.extend(&topic.partitions);
    }
    wanted
}

/// Returns the requested partitions of which the node has a replica.
fn sizes(
    topic: &Topic,
    node: i32,
    is_wanted: impl Fn(i32) -> bool,
) -> Vec<DescribeLogDirsPartition> {
    (0..)
        .zip(&topic.partitions)
        .filter(|(index, partition)| partition.replicas.contains(&node) && is_wanted(*index))
        .map(|(index, partition)| DescribeLogDirsPartition {
            partition_index: index,
            partition_size: partition.log.size_bytes() as i64,
            ..DescribeLogDirsPartition::default()
        })
        .collect()
}
