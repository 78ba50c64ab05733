//! `CreatePartitions` // key 37

use thalweg_protocol::Str;
use thalweg_protocol::messages::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopicResult,
};

use crate::Core;
use crate::context::Context;
use crate::error::ApiError;
use crate::subject::Subject;

impl Subject for CreatePartitionsRequest {
    fn topics(&self, _: &Core) -> Vec<Str> {
        self.topics.iter().map(|topic| topic.name.clone()).collect()
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: CreatePartitionsRequest,
) -> CreatePartitionsResponse {
    let results = request.topics.into_iter().map(|topic| {
        let lists = topic
            .assignments
            .map(|lists| lists.into_iter().map(|a| a.broker_ids).collect());
        let created = match context.injected_for(&topic.name) {
            Some(code) => Err(ApiError::of(code)),
            None => context.core.topology.create_partitions(
                &topic.name,
                topic.count,
                lists,
                request.validate_only,
            ),
        };
        let (error_code, error_message) = ApiError::fields(created.err());
        CreatePartitionsTopicResult {
            name: topic.name,
            error_code,
            error_message,
        }
    });
    CreatePartitionsResponse {
        results: results.collect(),
        ..CreatePartitionsResponse::default()
    }
}
