//! `AlterConfigs` // key 33
//!
//! The older form: options that the request omits return to their defaults.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_protocol::messages::alter_configs::{
    AlterConfigsRequest, AlterConfigsResource, AlterConfigsResourceResponse, AlterConfigsResponse,
};
use thalweg_protocol::{ErrorCode, Str};

use super::describe_configs::{self, topics_among};
use super::incremental_alter_configs::{check_options, find_topic, set_topic_options};
use super::repeats;
use crate::Core;
use crate::error::ApiError;
use crate::requests::context::Context;
use crate::requests::subject::Subject;

impl Subject for AlterConfigsRequest {
    fn topics(&self, _: &Core) -> Vec<Str> {
        let resources = self.resources.iter();
        topics_among(resources.map(|resource| (resource.resource_type, &resource.resource_name)))
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: AlterConfigsRequest,
) -> AlterConfigsResponse {
    let key =
        |resource: &AlterConfigsResource| (resource.resource_type, resource.resource_name.clone());
    let repeated = repeats::repeated(request.resources.iter().map(key));
    let mut refused = BTreeSet::new();
    let responses = request.resources.into_iter().filter_map(|resource| {
        let is_repeated = repeated.contains(&key(&resource));
        // A resource that is named twice is refused once.
        if is_repeated && !refused.insert(key(&resource)) {
            return None;
        }
        let altered = if is_repeated {
            Err(repeats::duplicate_resource())
        } else {
            alter(context, &resource, request.validate_only)
        };
        let (error_code, error_message) = ApiError::fields(altered.err());
        Some(AlterConfigsResourceResponse {
            error_code,
            error_message,
            resource_type: resource.resource_type,
            resource_name: resource.resource_name,
        })
    });
    AlterConfigsResponse {
        responses: responses.collect(),
        ..AlterConfigsResponse::default()
    }
}

fn alter(
    context: &mut Context<'_>,
    resource: &AlterConfigsResource,
    validate_only: bool,
) -> Result<(), ApiError> {
    find_topic(context, resource.resource_type, &resource.resource_name)?;
    check_options(resource.configs.iter().map(|config| &config.name))?;
    let mut own = BTreeMap::new();
    for config in &resource.configs {
        describe_configs::check_topic_option(&config.name)?;
        let Some(value) = &config.value else {
            let why = format!("Null value not supported for : {}", config.name.as_str());
            return Err(ApiError::new(ErrorCode::INVALID_CONFIG, why));
        };
        own.insert(config.name.to_string(), value.to_string());
    }
    set_topic_options(context.core, &resource.resource_name, own, validate_only)
}
