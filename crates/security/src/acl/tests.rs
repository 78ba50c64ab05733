use proptest::prelude::*;

use super::*;
use crate::acl::canonical_host;

const ALICE: Who<'_> = Who {
    principal: "User:alice",
    host: "127.0.0.1",
};

fn acl(permission: Permission, operation: Operation, pattern: PatternType, name: &str) -> Acl {
    Acl {
        resource_type: ResourceType::Topic,
        pattern_type: pattern,
        name: name.to_owned(),
        principal: ALICE.principal.to_owned(),
        host: WILDCARD.to_owned(),
        operation,
        permission,
    }
}

fn allow(operation: Operation, name: &str) -> Acl {
    acl(Permission::Allow, operation, PatternType::Literal, name)
}

fn deny(operation: Operation, name: &str) -> Acl {
    acl(Permission::Deny, operation, PatternType::Literal, name)
}

fn prefixed(acl: Acl) -> Acl {
    Acl {
        pattern_type: PatternType::Prefixed,
        ..acl
    }
}

fn acls(all: impl IntoIterator<Item = Acl>) -> Acls {
    let mut acls = Acls::default();
    for acl in all {
        assert!(acls.create(acl));
    }
    acls
}

fn topic(acls: &Acls, operation: Operation, name: &str) -> bool {
    acls.allows(ALICE, operation, ResourceType::Topic, name)
}

#[test]
fn nothing_is_allowed_without_a_rule() {
    assert!(!topic(&acls([]), Operation::Read, "t"));
    let acls = acls([allow(Operation::Read, "t")]);
    assert!(topic(&acls, Operation::Read, "t"));
    assert!(!topic(&acls, Operation::Read, "u"));
    assert!(!topic(&acls, Operation::Write, "t"));
    assert!(!acls.allows(ALICE, Operation::Read, ResourceType::Group, "t"));
    let bob = Who {
        principal: "User:bob",
        ..ALICE
    };
    assert!(!acls.allows(bob, Operation::Read, ResourceType::Topic, "t"));
}

#[test]
fn a_deny_beats_every_allow() {
    for denied in [
        deny(Operation::Write, "t"),
        deny(Operation::All, "*"),
        prefixed(deny(Operation::Write, "t")),
    ] {
        let acls = acls([
            allow(Operation::All, "t"),
            allow(Operation::All, "*"),
            denied,
        ]);
        assert!(!topic(&acls, Operation::Write, "t"));
    }
    let acls = acls([allow(Operation::All, "*"), deny(Operation::Write, "t")]);
    assert!(topic(&acls, Operation::Read, "t"));
    assert!(topic(&acls, Operation::Write, "tt"));
}

#[test]
fn some_operations_imply_others_but_only_when_allowed() {
    for operation in [
        Operation::Read,
        Operation::Write,
        Operation::Delete,
        Operation::Alter,
    ] {
        let allowed = acls([allow(operation, "t")]);
        assert!(topic(&allowed, Operation::Describe, "t"), "{operation:?}");
        assert!(!topic(&allowed, Operation::DescribeConfigs, "t"));
        let denied = acls([allow(Operation::Describe, "t"), deny(operation, "t")]);
        assert!(topic(&denied, Operation::Describe, "t"), "{operation:?}");
    }
    let configs = acls([allow(Operation::AlterConfigs, "t")]);
    assert!(topic(&configs, Operation::DescribeConfigs, "t"));
    assert!(!topic(&configs, Operation::Describe, "t"));
    assert!(!topic(
        &acls([allow(Operation::Create, "t")]),
        Operation::Describe,
        "t"
    ));
}

#[test]
fn prefixes_match_names_that_begin_with_them() {
    let acls = acls([
        prefixed(allow(Operation::Read, "orders-")),
        prefixed(allow(Operation::Read, "\u{e9}")),
    ]);
    for (name, is_allowed) in [
        ("orders-1", true),
        ("orders-", true),
        ("orders", false),
        ("an-orders-1", false),
        ("\u{e9}t\u{e9}", true),
        ("\u{e8}", false),
        ("", false),
    ] {
        assert_eq!(topic(&acls, Operation::Read, name), is_allowed, "{name}");
    }
}

#[test]
fn a_literal_star_is_every_name_and_a_prefixed_one_is_not() {
    assert!(topic(
        &acls([allow(Operation::Read, "*")]),
        Operation::Read,
        "t"
    ));
    let star = acls([prefixed(allow(Operation::Read, "*"))]);
    assert!(!topic(&star, Operation::Read, "t"));
    assert!(topic(&star, Operation::Read, "*t"));
}

#[test]
fn hosts_and_users_are_exact_or_a_star() {
    let with = |principal: &str, host: &str| {
        let acl = Acl {
            principal: principal.to_owned(),
            host: host.to_owned(),
            ..allow(Operation::Read, "t")
        };
        topic(&acls([acl]), Operation::Read, "t")
    };
    assert!(with("User:*", "*"));
    assert!(with("User:alice", "127.0.0.1"));
    assert!(!with("User:alice", "127.0.0.2"));
    assert!(!with("User:Alice", "*"));
    assert!(!with("User:al*", "*"));
    assert!(!with("Group:*", "*"));
}

#[test]
fn an_address_has_one_form_and_other_hosts_have_none() {
    for (text, form) in [
        ("*", "*"),
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"), // Java's form
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("2001:DB8::0001", "2001:db8::1"),
    ] {
        assert_eq!(canonical_host(text).as_deref(), Some(form), "{text}");
    }
    for text in [
        "",
        " ",
        "localhost",
        " 127.0.0.1",
        "127.0.0.1/32",
        "[::1]",
        "**",
    ] {
        assert_eq!(canonical_host(text), None, "{text}");
    }
    let loopback = Acl {
        host: "::1".to_owned(),
        ..allow(Operation::Read, "t")
    };
    let wanted = |host: &str| {
        let any = AclFilter::from_wire(1, 1, 1, 1).expect("known numbers");
        any.with(None, None, Some(host.to_owned()))
    };
    assert!(wanted("0:0:0:0:0:0:0:1").matches(&loopback));
    assert!(!wanted("localhost").matches(&loopback));
}

#[test]
fn super_users_may_do_everything_and_others_what_no_rule_is_about() {
    let mut acls = Acls::new([ALICE.principal.to_owned()].into(), false);
    acls.create(deny(Operation::All, "*"));
    assert!(topic(&acls, Operation::Write, "t"));
    assert!(acls.allows_any(ALICE, Operation::Write, ResourceType::Topic));

    let mut open = Acls::new(BTreeSet::new(), true);
    assert!(topic(&open, Operation::Write, "t"));
    let of_bob = Acl {
        principal: "User:bob".to_owned(),
        ..allow(Operation::Read, "t")
    };
    open.create(of_bob);
    assert!(!topic(&open, Operation::Write, "t"));
    assert!(topic(&open, Operation::Write, "u"));
}

#[test]
fn any_resource_of_a_type_is_an_allow_that_no_deny_covers() {
    let any = |all: Vec<Acl>| acls(all).allows_any(ALICE, Operation::Write, ResourceType::Topic);
    assert!(!any(vec![]));
    assert!(any(vec![allow(Operation::Write, "t")]));
    assert!(any(vec![allow(Operation::All, "t")]));
    assert!(!any(vec![allow(Operation::Read, "t")]));
    assert!(!any(vec![
        allow(Operation::Write, "t"),
        deny(Operation::Write, "t")
    ]));
    assert!(!any(vec![
        allow(Operation::Write, "t"),
        deny(Operation::All, "*")
    ]));
    assert!(!any(vec![
        allow(Operation::Write, "tt"),
        prefixed(deny(Operation::Write, "t"))
    ]));
    assert!(any(vec![
        prefixed(allow(Operation::Write, "t")),
        deny(Operation::Write, "t")
    ]));
    assert!(any(vec![
        prefixed(allow(Operation::Write, "t")),
        prefixed(deny(Operation::Write, "tt"))
    ]));
    assert!(!any(vec![
        prefixed(allow(Operation::Write, "tt")),
        prefixed(deny(Operation::Write, "t"))
    ]));
    assert!(any(vec![
        allow(Operation::Write, "*"),
        deny(Operation::Write, "t")
    ]));
}

#[test]
fn a_deleted_rule_has_no_effect() {
    let both = [
        allow(Operation::Read, "t"),
        prefixed(allow(Operation::Read, "u")),
    ];
    let mut acls = acls(both.clone());
    acls.create(both[0].clone());
    assert!(topic(&acls, Operation::Read, "u1"));
    for each in &both {
        assert!(acls.delete(each));
        assert!(!acls.delete(each));
    }
    assert!(!topic(&acls, Operation::Read, "t") && !topic(&acls, Operation::Read, "u1"));
    let topics = &acls.of_types[&ResourceType::Topic];
    assert!(acls.count == 0 && topics.literal.is_empty() && topics.prefixed.is_empty());
}

#[test]
fn the_number_of_rules_is_limited() {
    let mut acls = Acls::default();
    for index in 0..ACLS_MAX {
        assert!(acls.create(allow(Operation::Read, &index.to_string())));
    }
    assert!(!acls.create(allow(Operation::Read, "one more")));
}

/// With 100,000 rules, one after the other would take more than a minute here.
#[test]
fn rules_for_other_users_and_prefixes_of_other_names_cost_no_time() {
    let topic_of_many = (0..ACLS_MAX / 2).map(|user| Acl {
        principal: format!("User:user-{user}"),
        ..allow(Operation::Read, "t")
    });
    let prefixes = (0..ACLS_MAX / 2).map(|each| {
        let name = format!("{}-{each}", "u".repeat(each % 200));
        prefixed(allow(Operation::Read, &name))
    });
    let acls = acls(topic_of_many.chain(prefixes));
    let began = std::time::Instant::now();
    for _ in 0..50_000 {
        assert!(!topic(&acls, Operation::Read, "t"));
        assert!(!topic(&acls, Operation::Read, "uuuu"));
    }
    let took = began.elapsed();
    assert!(took.as_secs() < 30, "{took:?}");
}

#[test]
fn filters_select_by_every_field() {
    let all = [
        allow(Operation::Read, "orders"),
        deny(Operation::Write, "*"),
        prefixed(allow(Operation::Read, "ord")),
        prefixed(allow(Operation::Read, "x")),
    ];
    let acls = acls(all.clone());
    let select = |pattern: i8, name: Option<&str>, operation: i8, permission: i8| {
        let filter = AclFilter::from_wire(1, pattern, operation, permission).expect("known");
        let filter = filter.with(name.map(str::to_owned), None, None);
        acls.matching(&filter).len()
    };
    assert_eq!(select(1, None, 1, 1), 4);
    assert_eq!(select(1, Some("orders"), 1, 1), 1);
    assert_eq!(select(2, Some("orders"), 1, 1), 3);
    assert_eq!(select(3, Some("ord"), 1, 1), 0);
    assert_eq!(select(4, None, 1, 1), 2);
    assert_eq!(select(1, None, 3, 1), 3);
    assert_eq!(select(1, None, 1, 2), 1);
    let all = AclFilter::from_wire(2, 1, 1, 1).expect("known");
    let of_bob = all.with(None, Some("User:bob".to_owned()), None);
    assert!(acls.matching(&of_bob).is_empty());
    for unknown in [
        (0, 1, 1, 1),
        (1, 0, 1, 1),
        (1, 1, 0, 1),
        (1, 1, 1, 0),
        (99, 1, 1, 1),
    ] {
        let (resource, pattern, operation, permission) = unknown;
        assert_eq!(
            AclFilter::from_wire(resource, pattern, operation, permission),
            None
        );
    }
}

proptest! {
    /// Against the definition: all rules, one after the other. The two letters begin with the same
    /// byte.
    #[test]
    fn the_sorted_rules_decide_as_a_list_of_them(
        rules in proptest::collection::vec(
            (0..3_usize, 0..2_usize, "[éèa*]{0,4}", 0..2_usize, 0..3_usize),
            0..16,
        ),
        name in "[éèa]{1,5}",
    ) {
        let operations = [Operation::Read, Operation::Describe, Operation::All];
        let principals = [ALICE.principal, "User:bob", "User:*"];
        let list: Vec<Acl> = rules.into_iter().map(|(operation, pattern, name, permission, user)| Acl {
            principal: principals[user].to_owned(),
            ..acl(Permission::ALL[permission], operations[operation], PatternType::ALL[pattern], &name)
        }).collect();
        let about = |acl: &&Acl| acl.principal != "User:bob" && match acl.pattern_type {
            PatternType::Literal => acl.name == name || acl.name == "*",
            PatternType::Prefixed => name.starts_with(&acl.name),
        };
        let is_denied = list.iter().filter(about).any(|acl| {
            acl.permission == Permission::Deny
                && [Operation::All, Operation::Describe].contains(&acl.operation)
        });
        let is_allowed = list.iter().filter(about).any(|acl| acl.permission == Permission::Allow);
        let acls = acls(list.clone());
        prop_assert_eq!(topic(&acls, Operation::Describe, &name), is_allowed && !is_denied);
    }
}
