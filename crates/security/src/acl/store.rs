//! [`Acls`]: all rules, sorted by the resources that they are about.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::{Acl, AclFilter, Operation, PatternType, Permission, ResourceType, WILDCARD};

/// More than this are refused. Kafka has no limit.
const ACLS_MAX: usize = 100_000;

/// Who wants to do something, and from where.
#[derive(Debug, Clone, Copy)]
pub struct Who<'a> {
    /// `User:name`.
    pub principal: &'a str,
    /// The address, without the slash of Java.
    pub host: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rule {
    principal: String,
    host: String,
    operation: Operation,
    permission: Permission,
}

impl Rule {
    fn is_about(&self, who: Who<'_>) -> bool {
        let is_user = self.principal == who.principal || self.principal == "User:*";
        is_user && (self.host == WILDCARD || self.host == who.host)
    }
}

type Names = BTreeMap<String, BTreeSet<Rule>>;

/// The rules about resources of one type.
#[derive(Debug, Default)]
struct OfType {
    literal: Names,
    prefixed: Names,
    /// The lengths of all prefixes, so that a name is compared only with prefixes that exist.
    prefix_lengths: BTreeMap<usize, usize>,
}

impl OfType {
    fn names(&mut self, pattern: PatternType) -> &mut Names {
        match pattern {
            PatternType::Literal => &mut self.literal,
            PatternType::Prefixed => &mut self.prefixed,
        }
    }

    /// Returns all rules about a name.
    fn about<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Rule> {
        let exact = [name, WILDCARD].into_iter().enumerate();
        let exact = exact.filter(move |(index, _)| *index == 0 || name != WILDCARD);
        let literal = exact.filter_map(|(_, name)| self.literal.get(name));
        let lengths = (Bound::Unbounded, Bound::Included(name.len()));
        let prefixes = self.prefix_lengths.range(lengths);
        let prefixed = prefixes.filter_map(|(length, _)| self.prefixed.get(name.get(..*length)?));
        literal.chain(prefixed).flatten()
    }
}

/// All ACLs of a cluster.
#[derive(Debug, Default)]
pub struct Acls {
    of_types: BTreeMap<ResourceType, OfType>,
    count: usize,
    super_users: BTreeSet<String>,
    /// `allow.everyone.if.no.acl.found`.
    allows_if_none_found: bool,
}

impl Acls {
    /// `super_users` may do everything. They are written as `User:name`.
    pub fn new(super_users: BTreeSet<String>, allows_if_none_found: bool) -> Self {
        Self {
            super_users,
            allows_if_none_found,
            ..Self::default()
        }
    }

    /// Adds a rule. Returns false if there are too many.
    pub fn create(&mut self, acl: Acl) -> bool {
        if self.count >= ACLS_MAX {
            return false;
        }
        let of_type = self.of_types.entry(acl.resource_type).or_default();
        let length = acl.name.len();
        let is_new_name = !of_type.names(acl.pattern_type).contains_key(&acl.name);
        if is_new_name && acl.pattern_type == PatternType::Prefixed {
            *of_type.prefix_lengths.entry(length).or_default() += 1;
        }
        let rule = Rule {
            principal: acl.principal,
            host: acl.host,
            operation: acl.operation,
            permission: acl.permission,
        };
        let rules = of_type.names(acl.pattern_type).entry(acl.name).or_default();
        self.count += usize::from(rules.insert(rule));
        true
    }

    /// Removes a rule. Returns whether it existed.
    pub fn delete(&mut self, acl: &Acl) -> bool {
        let Some(of_type) = self.of_types.get_mut(&acl.resource_type) else {
            return false;
        };
        let Some(rules) = of_type.names(acl.pattern_type).get_mut(&acl.name) else {
            return false;
        };
        let rule = Rule {
            principal: acl.principal.clone(),
            host: acl.host.clone(),
            operation: acl.operation,
            permission: acl.permission,
        };
        let existed = rules.remove(&rule);
        self.count -= usize::from(existed);
        if rules.is_empty() {
            of_type.names(acl.pattern_type).remove(&acl.name);
            if acl.pattern_type == PatternType::Prefixed {
                let length = acl.name.len();
                let left = of_type.prefix_lengths.get_mut(&length);
                let left = left.map_or(0, |count| {
                    *count -= 1;
                    *count
                });
                if left == 0 {
                    of_type.prefix_lengths.remove(&length);
                }
            }
        }
        existed
    }

    /// Returns all rules that a filter matches, sorted.
    pub fn matching(&self, filter: &AclFilter) -> Vec<Acl> {
        self.all().filter(|acl| filter.matches(acl)).collect()
    }

    fn all(&self) -> impl Iterator<Item = Acl> {
        self.of_types.iter().flat_map(|(&resource_type, of_type)| {
            let literal = of_type
                .literal
                .iter()
                .map(|each| (PatternType::Literal, each));
            let prefixed = of_type
                .prefixed
                .iter()
                .map(|each| (PatternType::Prefixed, each));
            literal
                .chain(prefixed)
                .flat_map(move |(pattern_type, (name, rules))| {
                    rules.iter().map(move |rule| Acl {
                        resource_type,
                        pattern_type,
                        name: name.clone(),
                        principal: rule.principal.clone(),
                        host: rule.host.clone(),
                        operation: rule.operation,
                        permission: rule.permission,
                    })
                })
        })
    }

    /// Whether a user may do something with a resource.
    pub fn allows(
        &self,
        who: Who<'_>,
        operation: Operation,
        resource_type: ResourceType,
        name: &str,
    ) -> bool {
        if self.super_users.contains(who.principal) {
            return true;
        }
        let Some(of_type) = self.of_types.get(&resource_type) else {
            return self.allows_if_none_found;
        };
        let (mut is_any, mut is_allowed) = (false, false);
        for rule in of_type.about(name) {
            is_any = true;
            if !rule.is_about(who) {
                continue;
            }
            match rule.permission {
                Permission::Deny if rule.operation.covers(operation) => return false,
                Permission::Allow => is_allowed |= rule.operation.allows(operation),
                Permission::Deny => {}
            }
        }
        is_allowed || (!is_any && self.allows_if_none_found)
    }

    /// Whether a user may do something with at least one resource of a type (KIP-679): an ALLOW
    /// that no DENY covers.
    pub fn allows_any(
        &self,
        who: Who<'_>,
        operation: Operation,
        resource_type: ResourceType,
    ) -> bool {
        // As in Kafka, a name that nobody uses finds out about super users and about
        // `allow.everyone.if.no.acl.found`.
        if self.allows(who, operation, resource_type, "hardcode") {
            return true;
        }
        let Some(of_type) = self.of_types.get(&resource_type) else {
            return false;
        };
        let has = |rules: &BTreeSet<Rule>, permission: Permission| {
            let mut rules = rules.iter();
            rules.any(|rule| {
                rule.permission == permission
                    && rule.operation.covers(operation)
                    && rule.is_about(who)
            })
        };
        let denies = |names: &Names, name: &str| {
            names
                .get(name)
                .is_some_and(|rules| has(rules, Permission::Deny))
        };
        if denies(&of_type.literal, WILDCARD) {
            return false;
        }
        let is_denied_by_prefix = |name: &str| {
            let lengths = of_type.prefix_lengths.range(..=name.len());
            let mut prefixes = lengths.filter_map(|(length, _)| name.get(..*length));
            prefixes.any(|prefix| denies(&of_type.prefixed, prefix))
        };
        let allowing = |names: &'_ Names, is_literal: bool| {
            names.iter().any(|(name, rules)| {
                let is_denied_by_name = is_literal && denies(&of_type.literal, name);
                has(rules, Permission::Allow) && !is_denied_by_name && !is_denied_by_prefix(name)
            })
        };
        allowing(&of_type.literal, true) || allowing(&of_type.prefixed, false)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
