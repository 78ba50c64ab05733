//! The part of [`Context`] that asks the ACLs.

use thalweg_protocol::ErrorCode;
use thalweg_security::acl::{Acls, CLUSTER_NAME, Operation, ResourceType, Who};

use super::context::Context;
use crate::requests::operations;

impl Context<'_> {
    /// Whether the client may do something. Without an authorizer, it may do everything.
    pub(crate) fn allows(
        &self,
        operation: Operation,
        resource_type: ResourceType,
        name: &str,
    ) -> bool {
        let acls = self.core.acls.as_ref();
        acls.is_none_or(|acls| acls.allows(self.connection.who(), operation, resource_type, name))
    }

    /// Whether the client may do something with at least one resource of a type.
    pub(crate) fn allows_any(&self, operation: Operation, resource_type: ResourceType) -> bool {
        let acls = self.core.acls.as_ref();
        acls.is_none_or(|acls| acls.allows_any(self.connection.who(), operation, resource_type))
    }

    pub(crate) fn allows_on_cluster(&self, operation: Operation) -> bool {
        self.allows(operation, ResourceType::Cluster, CLUSTER_NAME)
    }

    fn denies(&self, needs: Option<Operation>, resource_type: ResourceType, name: &str) -> bool {
        needs.is_some_and(|operation| !self.allows(operation, resource_type, name))
    }

    /// Returns the error if the client may not do with the topic what the request wants.
    pub(crate) fn denied_topic(&self, name: &str) -> Option<ErrorCode> {
        let denied = self.denies(self.needs.topic, ResourceType::Topic, name);
        denied.then_some(ErrorCode::TOPIC_AUTHORIZATION_FAILED)
    }

    pub(crate) fn denied_group(&self, group: &str) -> Option<ErrorCode> {
        let denied = self.denies(self.needs.group, ResourceType::Group, group);
        denied.then_some(ErrorCode::GROUP_AUTHORIZATION_FAILED)
    }

    pub(crate) fn denied_transactional_id(&self, id: &str) -> Option<ErrorCode> {
        let kind = ResourceType::TransactionalId;
        let denied = self.denies(self.needs.transactional_id, kind, id);
        denied.then_some(ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    }

    pub(crate) fn denied_cluster(&self) -> Option<ErrorCode> {
        let denied = self.denies(self.needs.cluster, ResourceType::Cluster, CLUSTER_NAME);
        denied.then_some(ErrorCode::CLUSTER_AUTHORIZATION_FAILED)
    }

    /// See [`allowed_of`].
    pub(crate) fn allowed_of(&self, all: i32, resource_type: ResourceType, name: &str) -> i32 {
        let acls = self.core.acls.as_ref();
        allowed_of(acls, self.connection.who(), all, (resource_type, name))
    }

    /// Returns what the client may do with the cluster. Without the permission to describe it, that
    /// is nothing.
    pub(crate) fn allowed_on_cluster(&self) -> i32 {
        if self.allows_on_cluster(Operation::Describe) {
            self.allowed_of(operations::CLUSTER, ResourceType::Cluster, CLUSTER_NAME)
        } else {
            0
        }
    }
}

/// Removes from `all`, which are bits (KIP-430), the operations that a client may not do.
pub(crate) fn allowed_of(
    acls: Option<&Acls>,
    who: Who<'_>,
    all: i32,
    (resource_type, name): (ResourceType, &str),
) -> i32 {
    let Some(acls) = acls.filter(|_| all != operations::NOT_ASKED) else {
        return all;
    };
    let operations = Operation::ALL.iter();
    let denied = operations.filter(|each| !acls.allows(who, **each, resource_type, name));
    denied.fold(all, |bits, each| bits & !(1 << each.wire_id()))
}
