//! `DescribeCluster` // key 60

use thalweg_protocol::ErrorCode;
use thalweg_protocol::messages::describe_cluster::{
    DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse,
};

use crate::requests::operations;

use crate::requests::context::Context;
use crate::requests::subject::Subject;

/// The endpoint type for brokers, not controllers.
const BROKERS: i8 = 1;

impl Subject for DescribeClusterRequest {}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: DescribeClusterRequest,
) -> DescribeClusterResponse {
    let mismatch =
        (request.endpoint_type != BROKERS).then_some(ErrorCode::MISMATCHED_ENDPOINT_TYPE);
    if let Some(code) = context.refusal().or(mismatch) {
        return DescribeClusterResponse {
            error_code: code.0,
            error_message: Some(code.message().into()),
            ..DescribeClusterResponse::default()
        };
    }
    let topology = &context.core.topology;
    // A stopped node is what Kafka calls fenced.
    let nodes = topology
        .nodes()
        .filter(|node| node.is_live || request.include_fenced_brokers);
    let brokers = nodes.map(|node| DescribeClusterBroker {
        broker_id: node.id,
        host: node.host.clone(),
        port: i32::from(node.port),
        rack: None,
        is_fenced: !node.is_live,
    });
    DescribeClusterResponse {
        cluster_id: topology.cluster_id.clone(),
        controller_id: topology.controller(),
        brokers: brokers.collect(),
        cluster_authorized_operations: if request.include_cluster_authorized_operations {
            context.allowed_on_cluster()
        } else {
            operations::NOT_ASKED
        },
        ..DescribeClusterResponse::default()
    }
}
