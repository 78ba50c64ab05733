//! `ListConfigResources` // key 74

use thalweg_protocol::messages::list_config_resources::{
    ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse,
};

use super::describe_configs::{BROKER, TOPIC};
use crate::requests::context::Context;
use crate::requests::subject::Subject;

/// The only type that version 0 asks for. There are no such resources here.
const CLIENT_METRICS: i8 = 16;

impl Subject for ListConfigResourcesRequest {}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: ListConfigResourcesRequest,
) -> ListConfigResourcesResponse {
    if let Some(code) = context.refusal() {
        return ListConfigResourcesResponse {
            error_code: code.0,
            ..ListConfigResourcesResponse::default()
        };
    }
    let types = match (context.version, request.resource_types.is_empty()) {
        (0, _) => vec![CLIENT_METRICS],
        (_, true) => vec![TOPIC, BROKER],
        (_, false) => request.resource_types,
    };
    let topology = &context.core.topology;
    let mut config_resources = Vec::new();
    if types.contains(&TOPIC) {
        let topics = topology.topics().map(|topic| topic.name.clone());
        config_resources.extend(topics.map(|resource_name| ConfigResource {
            resource_name,
            resource_type: TOPIC,
        }));
    }
    if types.contains(&BROKER) {
        let nodes = topology.live_nodes().map(|node| node.id.to_string().into());
        config_resources.extend(nodes.map(|resource_name| ConfigResource {
            resource_name,
            resource_type: BROKER,
        }));
    }
    ListConfigResourcesResponse {
        config_resources,
        ..ListConfigResourcesResponse::default()
    }
}
