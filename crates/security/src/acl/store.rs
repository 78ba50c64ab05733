//! [`Acls`]: all rules, sorted by the resources that they are about.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::{Acl, AclFilter, Operation, PatternType, Permission, ResourceType, WILDCARD};

/// More than this are refused. Kafka has no limit.
pub const ACLS_MAX: usize = 100_000;
const EVERYBODY: &str = "User:*";

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
    host: String,
    operation: Operation,
    permission: Permission,
}

/// The rules about one name, by their principals: a broker may have a rule for each of many users.
#[derive(Debug, Default)]
struct Rules(BTreeMap<String, BTreeSet<Rule>>);

impl Rules {
    /// Returns whether the rule is new.
    fn insert(&mut self, principal: String, rule: Rule) -> bool {
        self.0.entry(principal).or_default().insert(rule)
    }

    /// Returns whether the rule existed.
    fn remove(&mut self, principal: &str, rule: &Rule) -> bool {
        let Some(rules) = self.0.get_mut(principal) else {
            return false;
        };
        let existed = rules.remove(rule);
        if rules.is_empty() {
            self.0.remove(principal);
        }
        existed
    }

    /// Returns the rules that apply to a client: those of its principal and of all principals, at
    /// its host.
    fn of<'a>(&'a self, who: Who<'a>) -> impl Iterator<Item = &'a Rule> {
        let everybody = (who.principal != EVERYBODY).then_some(EVERYBODY);
        let principals = [Some(who.principal), everybody].into_iter().flatten();
        let rules = principals.filter_map(|principal| self.0.get(principal));
        let mut rules = rules.flatten();
        std::iter::from_fn(move || {
            rules.find(|rule| rule.host == WILDCARD || rule.host == who.host)
        })
    }

    fn all(&self) -> impl Iterator<Item = (&String, &Rule)> {
        let principals = self.0.iter();
        principals.flat_map(|(principal, rules)| rules.iter().map(move |rule| (principal, rule)))
    }
}

type Names = BTreeMap<String, Rules>;

/// The rules about resources of one type.
#[derive(Debug, Default)]
struct OfType {
    literal: Names,
    prefixed: Names,
}

impl OfType {
    fn names(&mut self, pattern: PatternType) -> &mut Names {
        match pattern {
            PatternType::Literal => &mut self.literal,
            PatternType::Prefixed => &mut self.prefixed,
        }
    }

    /// Returns all rules about a name.
    fn about<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Rules> {
        let any = (name != WILDCARD).then_some(WILDCARD);
        let exact = [Some(name), any].into_iter().flatten();
        let literal = exact.filter_map(|name| self.literal.get(name));
        literal.chain(prefixes_of(name, &self.prefixed))
    }
}

/// Returns the rules about prefixes of a name, the longest first.
fn prefixes_of<'a>(name: &'a str, prefixed: &'a Names) -> impl Iterator<Item = &'a Rules> {
    let mut rest = Some(name);
    std::iter::from_fn(move || {
        loop {
            let up_to_rest = (Bound::Unbounded, Bound::Included(rest?));
            let (prefix, rules) = prefixed.range::<str, _>(up_to_rest).next_back()?;
            let pairs = prefix.bytes().zip(name.bytes());
            let common = pairs.take_while(|(one, other)| one == other).count();
            // A longer prefix of the name would be between the two in the order of the map.
            if common < prefix.len() {
                rest = Some(head(name, common));
            } else {
                let shorter = common.checked_sub(1);
                rest = shorter.map(|length| head(name, length));
                return Some(rules);
            }
        }
    })
}

/// Returns at most `bytes` bytes of a text, without half a character.
fn head(text: &str, mut bytes: usize) -> &str {
    while !text.is_char_boundary(bytes) {
        bytes -= 1;
    }
    &text[..bytes]
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
        let rule = Rule {
            host: acl.host,
            operation: acl.operation,
            permission: acl.permission,
        };
        let rules = of_type.names(acl.pattern_type).entry(acl.name).or_default();
        self.count += usize::from(rules.insert(acl.principal, rule));
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
            host: acl.host.clone(),
            operation: acl.operation,
            permission: acl.permission,
        };
        let existed = rules.remove(&acl.principal, &rule);
        self.count -= usize::from(existed);
        if rules.0.is_empty() {
            of_type.names(acl.pattern_type).remove(&acl.name);
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
                    rules.all().map(move |(principal, rule)| Acl {
                        resource_type,
                        pattern_type,
                        name: name.clone(),
                        principal: principal.clone(),
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
        for rules in of_type.about(name) {
            is_any = true;
            for rule in rules.of(who) {
                match rule.permission {
                    Permission::Deny if rule.operation.covers(operation) => return false,
                    Permission::Allow => is_allowed |= rule.operation.allows(operation),
                    Permission::Deny => {}
                }
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
        // As in Kafka, the check of a name that no resource has shows whether the user is a super
        // user, and whether `allow.everyone.if.no.acl.found` applies.
        if self.allows(who, operation, resource_type, "hardcode") {
            return true;
        }
        let Some(of_type) = self.of_types.get(&resource_type) else {
            return false;
        };
        let has = |rules: &Rules, permission: Permission| {
            let mut rules = rules.of(who);
            rules.any(|rule| rule.permission == permission && rule.operation.covers(operation))
        };
        let denies = |name: &str| {
            let rules = of_type.literal.get(name);
            rules.is_some_and(|rules| has(rules, Permission::Deny))
        };
        if denies(WILDCARD) {
            return false;
        }
        let is_denied_by_prefix = |name: &str| {
            prefixes_of(name, &of_type.prefixed).any(|rules| has(rules, Permission::Deny))
        };
        let allowing = |names: &'_ Names, is_literal: bool| {
            names.iter().any(|(name, rules)| {
                let is_denied_by_name = is_literal && denies(name);
                has(rules, Permission::Allow) && !is_denied_by_name && !is_denied_by_prefix(name)
            })
        };
        allowing(&of_type.literal, true) || allowing(&of_type.prefixed, false)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
