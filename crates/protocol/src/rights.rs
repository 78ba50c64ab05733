//! The rights (ACLs) that requests need, for errors that say what to grant.
//!
//! It is the table of Kafka's documentation, "Authorization and ACLs", corrected by its code where
//! the two differ. A right to `READ`, `WRITE`, `DELETE` or `ALTER` includes `DESCRIBE`, so where a
//! client needs both, the table has the greater one.

use std::fmt;

use crate::{ApiKey, ErrorCode};

/// An operation on a resource, in Kafka's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Right {
    pub operation: &'static str,
    pub resource: Resource,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    Topic,
    Group,
    TransactionalId,
    Cluster,
    /// The owner of a delegation token (KIP-373).
    User,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Topic => "topic",
            Self::Group => "group",
            Self::TransactionalId => "transactional ID",
            Self::Cluster => "cluster",
            Self::User => "user",
        })
    }
}

impl Resource {
    fn of(code: ErrorCode) -> Option<Self> {
        Some(match code {
            ErrorCode::TOPIC_AUTHORIZATION_FAILED => Self::Topic,
            ErrorCode::GROUP_AUTHORIZATION_FAILED => Self::Group,
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED => Self::TransactionalId,
            ErrorCode::CLUSTER_AUTHORIZATION_FAILED => Self::Cluster,
            ErrorCode::DELEGATION_TOKEN_AUTHORIZATION_FAILED => Self::User,
            _ => return None,
        })
    }
}

/// Returns the right that was missing if a broker refuses a request with this code.
pub fn needed(api: ApiKey, code: ErrorCode) -> Option<Right> {
    let resource = Resource::of(code)?;
    let operation = match resource {
        Resource::Topic => of_topic(api)?,
        Resource::Group => of_group(api),
        Resource::TransactionalId => match api {
            ApiKey::DESCRIBE_TRANSACTIONS => "DESCRIBE",
            _ => "WRITE",
        },
        Resource::Cluster => of_cluster(api),
        Resource::User => "CREATE_TOKENS",
    };
    Some(Right {
        operation,
        resource,
    })
}

fn of_topic(api: ApiKey) -> Option<&'static str> {
    Some(match api {
        ApiKey::PRODUCE | ApiKey::ADD_PARTITIONS_TO_TXN => "WRITE",
        ApiKey::FETCH
        | ApiKey::DESCRIBE_PRODUCERS
        | ApiKey::OFFSET_COMMIT
        | ApiKey::TXN_OFFSET_COMMIT
        | ApiKey::OFFSET_DELETE => "READ",
        ApiKey::METADATA
        | ApiKey::LIST_OFFSETS
        | ApiKey::OFFSET_FOR_LEADER_EPOCH
        | ApiKey::OFFSET_FETCH
        | ApiKey::DESCRIBE_TOPIC_PARTITIONS
        | ApiKey::CONSUMER_GROUP_HEARTBEAT => "DESCRIBE",
        ApiKey::CREATE_TOPICS => "CREATE",
        ApiKey::DELETE_TOPICS | ApiKey::DELETE_RECORDS => "DELETE",
        ApiKey::CREATE_PARTITIONS => "ALTER",
        ApiKey::DESCRIBE_CONFIGS => "DESCRIBE_CONFIGS",
        ApiKey::ALTER_CONFIGS | ApiKey::INCREMENTAL_ALTER_CONFIGS => "ALTER_CONFIGS",
        _ => return None,
    })
}

fn of_group(api: ApiKey) -> &'static str {
    match api {
        ApiKey::OFFSET_FETCH | ApiKey::DESCRIBE_GROUPS | ApiKey::CONSUMER_GROUP_DESCRIBE => {
            "DESCRIBE"
        }
        ApiKey::DELETE_GROUPS | ApiKey::OFFSET_DELETE => "DELETE",
        ApiKey::DESCRIBE_CONFIGS => "DESCRIBE_CONFIGS",
        ApiKey::ALTER_CONFIGS | ApiKey::INCREMENTAL_ALTER_CONFIGS => "ALTER_CONFIGS",
        _ => "READ",
    }
}

fn of_cluster(api: ApiKey) -> &'static str {
    match api {
        ApiKey::INIT_PRODUCER_ID | ApiKey::PRODUCE => "IDEMPOTENT_WRITE",
        ApiKey::CREATE_TOPICS => "CREATE",
        ApiKey::DESCRIBE_LOG_DIRS
        | ApiKey::DESCRIBE_QUORUM
        | ApiKey::LIST_PARTITION_REASSIGNMENTS
        | ApiKey::DESCRIBE_ACLS
        | ApiKey::DESCRIBE_USER_SCRAM_CREDENTIALS => "DESCRIBE",
        ApiKey::DESCRIBE_CONFIGS | ApiKey::DESCRIBE_CLIENT_QUOTAS => "DESCRIBE_CONFIGS",
        ApiKey::ALTER_CONFIGS | ApiKey::INCREMENTAL_ALTER_CONFIGS | ApiKey::ALTER_CLIENT_QUOTAS => {
            "ALTER_CONFIGS"
        }
        _ => "ALTER",
    }
}

/// Says what to grant to a principal, for an error. `name` names the resource. It is empty if the
/// text before it does so.
pub fn advice(principal: &str, api: ApiKey, code: ErrorCode, name: &str) -> Option<String> {
    let Right {
        operation,
        resource,
    } = needed(api, code)?;
    Some(match resource {
        Resource::Cluster if operation == "IDEMPOTENT_WRITE" => format!(
            "{principal} needs WRITE on a topic, or IDEMPOTENT_WRITE on the cluster. Before Kafka \
             2.8 only the latter counts: grant it, or set enable_idempotence=False"
        ),
        Resource::Cluster => format!("{principal} needs {operation} on the cluster"),
        _ if name.is_empty() => format!("{principal} needs {operation} on the {resource}"),
        _ => format!("{principal} needs {operation} on {resource} '{name}'"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refusals_for_lack_of_rights_have_advice() {
        for code in ErrorCode::all() {
            let is_about_rights = Resource::of(code).is_some();
            let found = advice("User:alice", ApiKey::PRODUCE, code, "t");
            assert!(found.is_none() || is_about_rights, "{code}");
        }
        let refused = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
        assert_eq!(
            advice("User:alice", ApiKey::FETCH, refused, "orders").as_deref(),
            Some("User:alice needs READ on topic 'orders'")
        );
    }
}
