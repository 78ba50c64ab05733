//! `IncrementalAlterConfigs` // key 44
//!
//! Changes only options of topics. A node's options are given at its start and cannot be changed.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_protocol::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterConfigsResourceResponse, AlterableConfig,
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};
use thalweg_protocol::{ErrorCode, Str};

use super::describe_configs::{self, TOPIC, topics_among};
use super::repeats;
use crate::Core;
use crate::error::ApiError;
use crate::options::TopicOption;
use crate::requests::context::Context;
use crate::requests::subject::Subject;

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

impl Subject for IncrementalAlterConfigsRequest {
    fn topics(&self, _: &Core) -> Vec<Str> {
        let resources = self.resources.iter();
        topics_among(resources.map(|resource| (resource.resource_type, &resource.resource_name)))
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse {
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
    IncrementalAlterConfigsResponse {
        responses: responses.collect(),
        ..Default::default()
    }
}

fn alter(
    context: &mut Context<'_>,
    resource: &AlterConfigsResource,
    validate_only: bool,
) -> Result<(), ApiError> {
    let topic = find_topic(context, resource.resource_type, &resource.resource_name)?;
    check_options(resource.configs.iter().map(|config| &config.name))?;
    let mut own = topic.clone();
    for config in &resource.configs {
        apply(config, &mut own, context.core)?;
    }
    set_topic_options(context.core, &resource.resource_name, own, validate_only)
}

/// Refuses an option that is named twice.
pub(super) fn check_options<'a>(names: impl Iterator<Item = &'a Str>) -> Result<(), ApiError> {
    match repeats::repeated(names).first() {
        None => Ok(()),
        Some(name) => Err(ApiError::new(
            ErrorCode::INVALID_REQUEST,
            format!("Error due to duplicate config keys: {}", name.as_str()),
        )),
    }
}

/// Returns the options that are set for a topic.
pub(super) fn find_topic<'a>(
    context: &'a Context<'_>,
    resource_type: i8,
    name: &str,
) -> Result<&'a BTreeMap<String, String>, ApiError> {
    if resource_type != TOPIC {
        let why = "The embedded broker changes only options of topics. Give it its own options at \
                   its start.";
        return Err(ApiError::new(ErrorCode::INVALID_REQUEST, why));
    }
    if let Some(code) = context.refusal_for(name) {
        return Err(ApiError::of(code));
    }
    let topic = context
        .core
        .topology
        .topic(name)
        .ok_or_else(ApiError::unknown_topic)?;
    Ok(&topic.own_options)
}

fn apply(
    config: &AlterableConfig,
    own: &mut BTreeMap<String, String>,
    core: &Core,
) -> Result<(), ApiError> {
    let option = describe_configs::check_topic_option(&config.name)?;
    let name = option.name.to_owned();
    if config.config_operation == DELETE {
        own.remove(&name);
        return Ok(());
    }
    let Some(value) = &config.value else {
        let why = format!("Null value not supported for : {name}");
        return Err(ApiError::new(ErrorCode::INVALID_REQUEST, why));
    };
    let text = match config.config_operation {
        SET => value.to_string(),
        APPEND | SUBTRACT if option.kind.is_list() => {
            let present = own
                .get(&name)
                .map(String::as_str)
                .or_else(|| core.options.given(option.broker_name))
                .unwrap_or(option.default);
            change_list(present, value, config.config_operation == APPEND)
        }
        APPEND | SUBTRACT => return Err(not_a_list(option)),
        other => {
            let why = format!("Unknown operation {other}");
            return Err(ApiError::new(ErrorCode::INVALID_REQUEST, why));
        }
    };
    own.insert(name, text);
    Ok(())
}

fn not_a_list(option: &TopicOption) -> ApiError {
    ApiError::new(
        ErrorCode::INVALID_CONFIG,
        format!(
            "Can't append to or subtract from key {} because its type is not LIST.",
            option.name
        ),
    )
}

fn change_list(present: &str, change: &str, appends: bool) -> String {
    let words = |text| -> Vec<&str> { crate::options::split_list(text).collect() };
    let (present, change) = (words(present), words(change));
    let mut result: Vec<&str> = present.clone();
    if appends {
        let known: BTreeSet<&str> = present.iter().copied().collect();
        result.extend(change.iter().filter(|word| !known.contains(*word)));
    } else {
        let gone: BTreeSet<&str> = change.iter().copied().collect();
        result.retain(|word| !gone.contains(word));
    }
    result.join(",")
}

/// Checks all options together and applies them.
pub(super) fn set_topic_options(
    core: &mut Core,
    name: &str,
    own: BTreeMap<String, String>,
    validate_only: bool,
) -> Result<(), ApiError> {
    for value in own.values() {
        describe_configs::check_value(value)?;
    }
    let options = core
        .options
        .topic_options(&own)
        .map_err(|error| ApiError::new(ErrorCode::INVALID_CONFIG, error.to_string()))?;
    if let Some(topic) = core.topology.topic_mut(name).filter(|_| !validate_only) {
        topic.own_options = own;
        topic.options = options;
    }
    Ok(())
}
