//! `DescribeClientQuotas` // key 48
//!
//! The checks and texts are those of Kafka's `ClientQuotasImage`.

use std::collections::BTreeMap;

use thalweg_protocol::messages::describe_client_quotas::{
    ComponentData, DescribeClientQuotasRequest, DescribeClientQuotasResponse, EntityData,
    EntryData, ValueData,
};
use thalweg_protocol::{ErrorCode, Str};
use thalweg_security::canonical_address;

use crate::error::ApiError;
use crate::quotas::table::{Entity, Name};
use crate::requests::context::Context;
use crate::requests::subject::Subject;

const EXACT: i8 = 0;
const DEFAULT: i8 = 1;
const ANY: i8 = 2;

impl Subject for DescribeClientQuotasRequest {}

/// What the name of a type must be.
enum Match {
    Exactly(Name),
    Any,
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: DescribeClientQuotasRequest,
) -> DescribeClientQuotasResponse {
    let filter = match context.refusal() {
        Some(code) => Err(ApiError::of(code)),
        None => filter(request.components),
    };
    let filter = match filter {
        Ok(filter) => filter,
        Err(error) => {
            let (error_code, error_message) = ApiError::fields(Some(error));
            return DescribeClientQuotasResponse {
                error_code,
                error_message,
                entries: None,
                ..DescribeClientQuotasResponse::default()
            };
        }
    };
    let all = context.core.quotas.table.all();
    let found = all.filter(|(entity, _)| fits(entity, &filter, request.strict));
    let entries = found.map(|(entity, quotas)| EntryData {
        entity: entity.parts().map(part).collect(),
        values: quotas
            .iter()
            .map(|(key, value)| ValueData {
                key: Str::from_static(key),
                value: *value,
            })
            .collect(),
    });
    DescribeClientQuotasResponse {
        entries: Some(entries.collect()),
        ..DescribeClientQuotasResponse::default()
    }
}

fn part((kind, name): (&'static str, Option<Str>)) -> EntityData {
    EntityData {
        entity_type: Str::from_static(kind),
        entity_name: name,
    }
}

fn fits(entity: &Entity, filter: &BTreeMap<String, Match>, is_strict: bool) -> bool {
    if is_strict && (filter.is_empty() || entity.parts().count() != filter.len()) {
        return false;
    }
    filter.iter().all(|(kind, wanted)| {
        let name = entity.name_of(kind);
        match wanted {
            Match::Any => name.is_some(),
            Match::Exactly(wanted) => name == Some(wanted),
        }
    })
}

fn filter(components: Vec<ComponentData>) -> Result<BTreeMap<String, Match>, ApiError> {
    let invalid = |words: String| Err(ApiError::new(ErrorCode::INVALID_REQUEST, words));
    let mut filter = BTreeMap::new();
    for component in components {
        let kind = component.entity_type.to_string();
        if kind.is_empty() {
            return invalid("Invalid empty entity type.".to_owned());
        }
        if filter.contains_key(&kind) {
            return invalid(format!(
                "Entity type {kind} cannot appear more than once in the filter."
            ));
        }
        if !["user", "client-id", "ip"].contains(&kind.as_str()) {
            let words = format!("Unsupported entity type {kind}");
            return Err(ApiError::new(ErrorCode::UNSUPPORTED_VERSION, words));
        }
        let named = component.match_;
        let wanted = match (component.match_type, named) {
            (EXACT, Some(name)) => {
                let ip = (kind == "ip").then(|| canonical_address(&name)).flatten();
                Match::Exactly(Name::Of(ip.map_or(name, Str::from)))
            }
            (EXACT, None) => {
                let words = "Request specified MATCH_TYPE_EXACT, but set match string to null.";
                return invalid(words.to_owned());
            }
            (DEFAULT, None) => Match::Exactly(Name::Default),
            (ANY, None) => Match::Any,
            (DEFAULT | ANY, Some(_)) => {
                let kind = match component.match_type {
                    DEFAULT => "MATCH_TYPE_DEFAULT",
                    _ => "MATCH_TYPE_SPECIFIED",
                };
                return invalid(format!(
                    "Request specified {kind}, but also specified a match string."
                ));
            }
            (other, _) => return invalid(format!("Unknown match type {other}")),
        };
        filter.insert(kind, wanted);
    }
    if filter.contains_key("ip") && filter.len() > 1 {
        let words = "Invalid entity filter component combination. IP filter component should not \
                     be used with user or clientId filter component.";
        return invalid(words.to_owned());
    }
    Ok(filter)
}
