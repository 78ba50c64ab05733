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

use crate::address::canonical_address;

pub use filter::AclFilter;
pub use kinds::{Operation, PatternType, Permission, ResourceType};
pub use store::{ACLS_MAX, Acls, Who};

/// The name of the only resource of the type cluster.
pub const CLUSTER_NAME: &str = "kafka-cluster";

/// Stands for every name of a resource, for every user (`User:*`) and for every host.
pub const WILDCARD: &str = "*";

/// Returns a host in the form that is compared, or `None` if it is neither an IP address nor
/// [`WILDCARD`].
pub fn canonical_host(text: &str) -> Option<String> {
    if text == WILDCARD {
        return Some(text.to_owned());
    }
    canonical_address(text)
}

/// An ACL: it allows or denies an operation on a resource to a principal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Acl {
    pub resource_type: ResourceType,
    pub pattern_type: PatternType,
    pub name: String,
    /// `User:name`.
    pub principal: String,
    /// In the form of [`canonical_host`].
    pub host: String,
    pub operation: Operation,
    pub permission: Permission,
}
