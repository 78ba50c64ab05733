//! `AlterClientQuotas` // key 49
//!
//! The checks and texts are those of Kafka's `ClientQuotaControlManager`. An entity with an error
//! keeps all its quotas.

use std::collections::BTreeMap;

use thalweg_protocol::messages::alter_client_quotas::{
    AlterClientQuotasRequest, AlterClientQuotasResponse, AlterClientQuotasResponseEntryData,
    EntityData, OpData,
};
use thalweg_protocol::{ErrorCode, Str};
use thalweg_security::canonical_address;

use crate::error::ApiError;
use crate::quotas::QuotaKind;
use crate::quotas::table::{ENTITIES_MAX, Entity, Name};
use crate::requests::context::Context;
use crate::requests::subject::Subject;

/// Kafka has no limit but that of its records.
const NAME_BYTES_MAX: usize = 1000;
/// How far a value may be from a whole number.
const EPSILON: f64 = 1e-6;

const OF_CLIENTS: [QuotaKind; 4] = [
    QuotaKind::Produce,
    QuotaKind::Fetch,
    QuotaKind::Request,
    QuotaKind::Mutation,
];

impl Subject for AlterClientQuotasRequest {}

/// A value of `None` removes the quota.
type Changes = Vec<(&'static str, Option<f64>)>;

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: AlterClientQuotasRequest,
) -> AlterClientQuotasResponse {
    let refusal = context.refusal();
    let table = &mut context.core.quotas.table;
    let entries = request.entries.into_iter().map(|entry| {
        let checked = match refusal {
            Some(code) => Err(ApiError::of(code)),
            None => entity(&entry.entity).and_then(|entity| {
                let changes = changes(&entity, &entry.ops)?;
                Ok((entity, changes))
            }),
        };
        let done = checked.and_then(|(entity, changes)| {
            if request.validate_only || table.alter(&entity, &changes) {
                return Ok(());
            }
            let words = format!(
                "The embedded broker keeps quotas for at most {ENTITIES_MAX} entities. Remove some \
                 first"
            );
            Err(ApiError::new(ErrorCode::POLICY_VIOLATION, words))
        });
        let (error_code, error_message) = ApiError::fields(done.err());
        AlterClientQuotasResponseEntryData {
            error_code,
            error_message,
            entity: entry.entity,
        }
    });
    AlterClientQuotasResponse {
        entries: entries.collect(),
        ..AlterClientQuotasResponse::default()
    }
}

fn invalid(words: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::INVALID_REQUEST, words)
}

fn entity(parts: &[EntityData]) -> Result<Entity, ApiError> {
    let mut entity = Entity::default();
    for EntityData {
        entity_type: kind,
        entity_name: name,
    } in parts
    {
        let slot = match kind.as_str() {
            "user" => &mut entity.user,
            "client-id" => &mut entity.client_id,
            "ip" => &mut entity.ip,
            other => {
                return Err(invalid(format!(
                    "Unhandled client quota entity type: {other}"
                )));
            }
        };
        let name = name.as_ref().map(Str::detached);
        if name.as_ref().is_some_and(|name| name.is_empty()) {
            return Err(invalid(format!("Empty {} not supported", kind.as_str())));
        }
        if name
            .as_ref()
            .is_some_and(|name| name.len() > NAME_BYTES_MAX)
        {
            return Err(invalid(format!(
                "The name of the {} is longer than {NAME_BYTES_MAX} bytes",
                kind.as_str()
            )));
        }
        if slot.replace(Name::new(name)).is_some() {
            return Err(invalid(format!(
                "Invalid empty client quota entity, duplicate entity entry {}",
                kind.as_str()
            )));
        }
    }
    let is_of_client = entity.user.is_some() || entity.client_id.is_some();
    match &mut entity.ip {
        None if is_of_client => Ok(entity),
        Some(name) if !is_of_client => {
            if let Name::Of(ip) = name {
                let Some(canonical) = canonical_address(ip) else {
                    return Err(invalid(format!(
                        "{} is not a valid IP or resolvable host.",
                        ip.as_str()
                    )));
                };
                *ip = canonical.into();
            }
            Ok(entity)
        }
        Some(_) => Err(invalid(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or \
             ClientId",
        )),
        None => Err(invalid("Invalid empty client quota entity")),
    }
}

fn changes(entity: &Entity, ops: &[OpData]) -> Result<Changes, ApiError> {
    let kinds: &[QuotaKind] = match entity.ip {
        Some(_) => &[QuotaKind::Connection],
        None => &OF_CLIENTS,
    };
    let mut changes = BTreeMap::new();
    for op in ops {
        let kind = kinds.iter().find(|kind| kind.key() == op.key.as_str());
        let value = (!op.remove).then_some(op.value);
        let Some(kind) = kind else {
            let words = format!("Invalid configuration key {}", op.key.as_str());
            return Err(invalid(words));
        };
        if let Some(value) = value {
            check(*kind, value)?;
        }
        if changes.insert(kind.key(), value).is_some() {
            return Err(invalid(format!(
                "Duplicate quota key {} not updating quota for this entity",
                kind.key()
            )));
        }
    }
    Ok(changes.into_iter().collect())
}

fn check(kind: QuotaKind, value: f64) -> Result<(), ApiError> {
    let key = kind.key();
    if value.is_nan() || value <= 0.0 {
        return Err(invalid(format!("Quota {key} must be greater than 0")));
    }
    let (name, max) = match kind {
        QuotaKind::Produce | QuotaKind::Fetch => ("a LONG", i64::MAX as f64),
        QuotaKind::Connection => ("an INT", f64::from(i32::MAX)),
        QuotaKind::Request | QuotaKind::Mutation => return Ok(()),
    };
    if value > max {
        return Err(invalid(format!(
            "Proposed value for {key} is too large for {name}."
        )));
    }
    if ((value + EPSILON).floor() - value).abs() > EPSILON {
        return Err(invalid(format!("{key} cannot be a fractional value.")));
    }
    Ok(())
}
