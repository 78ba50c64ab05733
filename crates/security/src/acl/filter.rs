//! [`AclFilter`]: selects rules, to describe or to delete them.

use super::{Acl, Operation, PatternType, Permission, ResourceType, WILDCARD, canonical_host};

/// Which patterns a filter selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patterns {
    Any,
    /// All patterns that apply to the name.
    Match,
    Only(PatternType),
}

/// A filter. `None` selects everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclFilter {
    resource_type: Option<ResourceType>,
    patterns: Patterns,
    name: Option<String>,
    principal: Option<String>,
    host: Option<String>,
    operation: Option<Operation>,
    permission: Option<Permission>,
}

/// A number without a meaning.
struct Unknown;

/// In Kafka's protocol, 1 stands for ANY, which is `None`.
fn known<T>(id: i8, from_wire_id: fn(i8) -> Option<T>) -> Result<Option<T>, Unknown> {
    match id {
        1 => Ok(None),
        id => from_wire_id(id).map(Some).ok_or(Unknown),
    }
}

impl AclFilter {
    /// Takes the numbers of Kafka's protocol. `None`: one of them is unknown.
    pub fn from_wire(
        resource_type: i8,
        pattern_type: i8,
        operation: i8,
        permission: i8,
    ) -> Option<Self> {
        Some(Self {
            resource_type: known(resource_type, ResourceType::from_wire_id).ok()?,
            patterns: match pattern_type {
                1 => Patterns::Any,
                2 => Patterns::Match,
                id => Patterns::Only(PatternType::from_wire_id(id)?),
            },
            name: None,
            principal: None,
            host: None,
            operation: known(operation, Operation::from_wire_id).ok()?,
            permission: known(permission, Permission::from_wire_id).ok()?,
        })
    }

    /// Adds the texts of a filter. `None` selects everything.
    #[must_use]
    pub fn with(
        self,
        name: Option<String>,
        principal: Option<String>,
        host: Option<String>,
    ) -> Self {
        Self {
            name,
            principal,
            // A text that is not an address selects nothing.
            host: host.map(|text| canonical_host(&text).unwrap_or(text)),
            ..self
        }
    }

    /// Whether the filter selects the rule.
    pub fn matches(&self, acl: &Acl) -> bool {
        fn is<T: PartialEq + ?Sized>(wanted: Option<&T>, value: &T) -> bool {
            wanted.is_none_or(|wanted| wanted == value)
        }
        is(self.resource_type.as_ref(), &acl.resource_type)
            && self.matches_pattern(acl)
            && is(self.principal.as_deref(), acl.principal.as_str())
            && is(self.host.as_deref(), acl.host.as_str())
            && is(self.operation.as_ref(), &acl.operation)
            && is(self.permission.as_ref(), &acl.permission)
    }

    fn matches_pattern(&self, acl: &Acl) -> bool {
        if let Patterns::Only(wanted) = self.patterns
            && wanted != acl.pattern_type
        {
            return false;
        }
        let Some(name) = self.name.as_deref() else {
            return true;
        };
        if acl.name == name {
            return true;
        }
        self.patterns == Patterns::Match
            && match acl.pattern_type {
                PatternType::Literal => acl.name == WILDCARD,
                PatternType::Prefixed => name.starts_with(&acl.name),
            }
    }
}
