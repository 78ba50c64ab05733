//! ACLs, and whether they allow an operation: the rules of Kafka's `StandardAuthorizer`.
//!
//! ```text
//! Acl ─create─▶ Acls ─allows(who, operation, resource)─▶ true or false
//!                 └─matching(AclFilter)─▶ for describing and deleting
//! ```
//! A DENY that matches beats every ALLOW. READ, WRITE, DELETE and ALTER also allow DESCRIBE, and
//! `ALTER_CONFIGS` also allows `DESCRIBE_CONFIGS`. A DENY implies nothing.

mod filter;
mod kinds;
mod store;

pub use filter::AclFilter;
pub use kinds::{Operation, PatternType, Permission, ResourceType};
pub use store::{ACLS_MAX, Acls, Who};

/// The name of the only resource of the type cluster.
pub const CLUSTER_NAME: &str = "kafka-cluster";

/// Stands for every name of a resource, for every user (`User:*`) and for every host.
pub const WILDCARD: &str = "*";

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Acl {
    pub resource_type: ResourceType,
    pub pattern_type: PatternType,
    pub name: String,
    /// `User:name`.
    pub principal: String,
    pub host: String,
    pub operation: Operation,
    pub permission: Permission,
}
