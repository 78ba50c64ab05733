//! `DescribeConfigs` // key 32
//!
//! Describes topics and nodes. The effective value is the topic's own, otherwise the broker's
//! option as given at the start, otherwise Kafka's default.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_protocol::messages::describe_configs::DescribeConfigsResponse;
use thalweg_protocol::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult,
    DescribeConfigsResult, DescribeConfigsSynonym,
};
use thalweg_protocol::{ErrorCode, Str};

use super::repeats;
use thalweg_security::acl::Operation;

use crate::Core;
use crate::error::ApiError;
use crate::options::{BROKER_OPTIONS, BrokerOptions, Kind, TOPIC_OPTIONS, TopicOption};
use crate::requests::context::Context;
use crate::requests::subject::Subject;

pub(crate) const TOPIC: i8 = 2;
pub(crate) const BROKER: i8 = 4;

/// The limit on resources: the options of one take some kilobytes, but its name in a request only
/// some bytes.
const RESOURCES_PER_REQUEST_MAX: usize = 10_000;
/// As in Kafka's controller.
const VALUE_BYTES_MAX: usize = i16::MAX as usize;

/// Options whose default is another option's, or that a broker does not have. A topic's own value
/// is their only synonym.
const WITHOUT_DEFAULT: [&str; 9] = [
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "log.flush.interval.ms",
    "log.retention.ms",
    "log.roll.jitter.ms",
    "log.roll.ms",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
];

const FROM_TOPIC: i8 = 1;
const FROM_BROKER: i8 = 4;
const FROM_DEFAULT: i8 = 5;

impl Subject for DescribeConfigsRequest {
    fn topics(&self, _: &Core) -> Vec<Str> {
        let resources = self.resources.iter();
        topics_among(resources.map(|resource| (resource.resource_type, &resource.resource_name)))
    }
}

/// Returns the topics among resources, each given as type and name.
pub(super) fn topics_among<'a>(resources: impl Iterator<Item = (i8, &'a Str)>) -> Vec<Str> {
    let topics = resources.filter(|(kind, _)| *kind == TOPIC);
    topics.map(|(_, name)| name.clone()).collect()
}

/// The effective value, its source, and the values that it overrides.
#[derive(Debug, Clone)]
pub(crate) struct ConfigValue {
    pub(crate) text: String,
    pub(crate) source: i8,
    synonyms: Vec<(&'static str, String, i8)>,
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: DescribeConfigsRequest,
) -> DescribeConfigsResponse {
    let with_synonyms = request.include_synonyms;
    let key = |resource: &DescribeConfigsResource| {
        (resource.resource_type, resource.resource_name.clone())
    };
    let repeated = repeats::repeated(request.resources.iter().map(key));
    let mut refused = BTreeSet::new();
    let mut left = RESOURCES_PER_REQUEST_MAX;
    let results = request.resources.into_iter().filter_map(|resource| {
        let is_repeated = repeated.contains(&key(&resource));
        // A resource that is named twice is refused once.
        if is_repeated && !refused.insert(key(&resource)) {
            return None;
        }
        let described = match left {
            _ if is_repeated => Err(repeats::duplicate_resource()),
            0 => Err(too_many_resources()),
            _ => describe(context, &resource, with_synonyms),
        };
        left -= usize::from(described.is_ok());
        let error = described.as_ref().err().cloned();
        Some(DescribeConfigsResult {
            error_code: error.as_ref().map_or(0, |error| error.code.0),
            error_message: error.map_or_else(|| Some(Str::default()), |e| Some(e.message.into())),
            resource_type: resource.resource_type,
            resource_name: resource.resource_name,
            configs: described.unwrap_or_default(),
        })
    });
    DescribeConfigsResponse {
        results: results.collect(),
        ..DescribeConfigsResponse::default()
    }
}

fn describe(
    context: &Context<'_>,
    resource: &DescribeConfigsResource,
    with_synonyms: bool,
) -> Result<Vec<DescribeConfigsResourceResult>, ApiError> {
    let name = &resource.resource_name;
    let core = &*context.core;
    let mut configs = match resource.resource_type {
        TOPIC => {
            if let Some(code) = context.refusal_for(name) {
                return Err(ApiError::of(code));
            }
            let topic = core
                .topology
                .topic(name)
                .ok_or_else(ApiError::unknown_topic)?;
            let values = topic_values(&topic.own_options, &core.options);
            values
                .into_iter()
                .map(|(option, value)| row(option.name, option.kind, value))
                .collect()
        }
        BROKER => {
            if let Some(code) = context.refusal() {
                return Err(ApiError::of(code));
            }
            if !context.allows_on_cluster(Operation::DescribeConfigs) {
                return Err(ApiError::of(ErrorCode::CLUSTER_AUTHORIZATION_FAILED));
            }
            check_broker(context, name)?;
            broker_rows(&core.options)
        }
        other => {
            let why = format!("Unsupported resource type: {other}");
            return Err(ApiError::new(ErrorCode::INVALID_REQUEST, why));
        }
    };
    if let Some(wanted) = &resource.configuration_keys {
        let wanted: BTreeSet<&Str> = wanted.iter().collect();
        configs.retain(|config: &DescribeConfigsResourceResult| wanted.contains(&config.name));
    }
    if !with_synonyms {
        for config in &mut configs {
            config.synonyms.clear();
        }
    }
    Ok(configs)
}

/// Checks that the resource is this node. An empty name means what all nodes have in common.
pub(crate) fn check_broker(context: &Context<'_>, name: &str) -> Result<(), ApiError> {
    if name.is_empty() || name.parse() == Ok(context.node) {
        return Ok(());
    }
    let why = format!(
        "Unexpected broker id, expected {} or empty string, but received {name}",
        context.node
    );
    Err(ApiError::new(ErrorCode::INVALID_REQUEST, why))
}

/// Refuses an option that Kafka does not have.
pub(crate) fn check_topic_option(name: &str) -> Result<&'static TopicOption, ApiError> {
    TopicOption::find(name).ok_or_else(|| {
        ApiError::new(
            ErrorCode::INVALID_CONFIG,
            format!("Unknown topic config name: {name}"),
        )
    })
}

/// Refuses a value that is too long to be stored.
pub(crate) fn check_value(value: &str) -> Result<(), ApiError> {
    if value.len() <= VALUE_BYTES_MAX {
        return Ok(());
    }
    let why = format!(
        "The configuration value cannot be added because it exceeds the maximum value size of {VALUE_BYTES_MAX} bytes."
    );
    Err(ApiError::new(ErrorCode::INVALID_CONFIG, why))
}

fn too_many_resources() -> ApiError {
    let why = format!("A request may describe at most {RESOURCES_PER_REQUEST_MAX} resources.");
    ApiError::new(ErrorCode::POLICY_VIOLATION, why)
}

/// Returns all options of a topic.
pub(crate) fn topic_values(
    own: &BTreeMap<String, String>,
    broker: &BrokerOptions,
) -> Vec<(&'static TopicOption, ConfigValue)> {
    let value = |option: &'static TopicOption| {
        let mut synonyms = Vec::new();
        if let Some(text) = own.get(option.name) {
            synonyms.push((option.name, text.clone(), FROM_TOPIC));
        }
        synonyms.extend(broker_synonyms(option.broker_name, option.default, broker));
        (option, ConfigValue::new(synonyms, option.default))
    };
    TOPIC_OPTIONS.iter().map(value).collect()
}

fn broker_synonyms(
    name: &'static str,
    default: &str,
    broker: &BrokerOptions,
) -> Vec<(&'static str, String, i8)> {
    let given = broker
        .given(name)
        .map(|text| (name, text.to_owned(), FROM_BROKER));
    let has_default = !WITHOUT_DEFAULT.contains(&name);
    let default = has_default.then(|| (name, default.to_owned(), FROM_DEFAULT));
    given.into_iter().chain(default).collect()
}

impl ConfigValue {
    /// Uses the first of the synonyms, or the default if there are none.
    fn new(synonyms: Vec<(&'static str, String, i8)>, default: &str) -> Self {
        let (text, source) = match synonyms.first() {
            Some((_, text, source)) => (text.clone(), *source),
            None => (default.to_owned(), FROM_DEFAULT),
        };
        Self {
            text,
            source,
            synonyms,
        }
    }
}

fn broker_rows(options: &BrokerOptions) -> Vec<DescribeConfigsResourceResult> {
    let own = BROKER_OPTIONS
        .iter()
        .map(|(name, kind, default)| (*name, *kind, *default));
    let of_topics = TOPIC_OPTIONS
        .iter()
        .map(|o| (o.broker_name, o.kind, o.default));
    let mut rows: Vec<_> = own
        .chain(of_topics)
        .map(|(name, kind, default)| {
            let value = ConfigValue::new(broker_synonyms(name, default, options), default);
            // They are given at the start and never change.
            DescribeConfigsResourceResult {
                read_only: true,
                ..row(name, kind, value)
            }
        })
        .collect();
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    rows
}

fn row(name: &'static str, kind: Kind, value: ConfigValue) -> DescribeConfigsResourceResult {
    let is_sensitive = kind == Kind::Password;
    let shown = |text: String| (!is_sensitive).then(|| text.into());
    let synonyms = value
        .synonyms
        .into_iter()
        .map(|(name, text, source)| DescribeConfigsSynonym {
            name: Str::from_static(name),
            value: shown(text),
            source,
        });
    DescribeConfigsResourceResult {
        name: Str::from_static(name),
        value: shown(value.text),
        is_sensitive,
        documentation: None,
        config_source: value.source,
        synonyms: synonyms.collect(),
        config_type: kind.wire_id(),
        ..DescribeConfigsResourceResult::default()
    }
}
