//! Rules: who may create, describe and delete them, and which ones are refused.

use thalweg_protocol::messages::create_acls::{AclCreation, CreateAclsRequest};
use thalweg_protocol::messages::delete_acls::{DeleteAclsFilter, DeleteAclsRequest};
use thalweg_protocol::messages::describe_acls::DescribeAclsRequest;

use super::authorization::{CLUSTER, CLUSTER_DENIED, NONE, READ, TOPIC, WRITE, World};
use super::*;

fn described(world: &mut World, user: &str) -> (ErrorCode, usize) {
    let all = DescribeAclsRequest {
        resource_type_filter: 1,
        pattern_type_filter: 1,
        operation: 1,
        permission_type: 1,
        ..DescribeAclsRequest::default()
    };
    let all = DescribeAclsRequest {
        resource_name_filter: None,
        principal_filter: None,
        host_filter: None,
        ..all
    };
    let response = world.ask(user, &all, 3);
    let count = response
        .resources
        .iter()
        .map(|resource| resource.acls.len())
        .sum();
    (ErrorCode(response.error_code), count)
}

#[test]
fn rules_are_created_described_and_deleted_by_those_who_may() {
    let mut world = World::new();
    world.allow(TOPIC, "t", READ);
    world.allow(TOPIC, "t", WRITE);
    assert_eq!(described(&mut world, "alice"), (CLUSTER_DENIED, 0));
    assert_eq!(described(&mut world, "admin"), (NONE, 2));
    let filter = DeleteAclsFilter {
        resource_type_filter: 2,
        resource_name_filter: Some("t".into()),
        pattern_type_filter: 2,
        principal_filter: None,
        host_filter: None,
        operation: WRITE,
        permission_type: 1,
    };
    let filters = vec![filter];
    let request = DeleteAclsRequest { filters };
    let response = world.ask("alice", &request, 3);
    assert_eq!(response.filter_results[0].error_code, CLUSTER_DENIED.0);
    let response = world.ask("admin", &request, 3);
    assert_eq!(response.filter_results[0].matching_acls[0].operation, WRITE);
    assert_eq!(described(&mut world, "admin"), (NONE, 1));
    let creations = vec![AclCreation::default()];
    let response = world.ask("alice", &CreateAclsRequest { creations }, 3);
    assert_eq!(response.results[0].error_code, CLUSTER_DENIED.0);
}

#[test]
fn malformed_rules_are_refused_one_by_one() {
    let mut world = World::new();
    let good = AclCreation {
        resource_type: TOPIC,
        resource_name: "t".into(),
        resource_pattern_type: 3,
        principal: "User:alice".into(),
        host: "*".into(),
        operation: READ,
        permission_type: 3,
    };
    let long = "n".repeat(1001);
    let bad = [
        AclCreation {
            resource_type: 1,
            ..good.clone()
        },
        AclCreation {
            resource_pattern_type: 2,
            ..good.clone()
        },
        AclCreation {
            operation: 1,
            ..good.clone()
        },
        AclCreation {
            permission_type: 1,
            ..good.clone()
        },
        AclCreation {
            resource_name: "".into(),
            ..good.clone()
        },
        AclCreation {
            resource_name: long.into(),
            ..good.clone()
        },
        AclCreation {
            resource_type: CLUSTER,
            ..good.clone()
        },
        AclCreation {
            principal: "alice".into(),
            ..good.clone()
        },
        AclCreation {
            principal: "User:".into(),
            ..good.clone()
        },
        AclCreation {
            host: "10.0.0.0/8".into(),
            ..good.clone()
        },
    ];
    let creations: Vec<AclCreation> = bad.into_iter().chain([good]).collect();
    let response = world.ask("admin", &CreateAclsRequest { creations }, 3);
    let (last, refused) = response.results.split_last().unwrap();
    assert!(
        refused
            .iter()
            .all(|each| each.error_code == ErrorCode::INVALID_REQUEST.0)
    );
    let told = refused
        .iter()
        .filter_map(|each| each.error_message.as_deref());
    let limits = told.filter(|words| words.contains("longer than 1000 bytes"));
    assert_eq!(limits.count(), 1);
    assert_eq!(
        (last.error_code, described(&mut world, "admin")),
        (0, (NONE, 1))
    );
}

#[test]
fn a_rule_beyond_the_limit_is_refused_by_the_limit() {
    let mut world = World::new();
    let creation = |index: i32| AclCreation {
        resource_type: TOPIC,
        resource_name: "t".into(),
        resource_pattern_type: 3,
        principal: format!("User:user-{index}").into(),
        host: "*".into(),
        operation: READ,
        permission_type: 3,
    };
    for thousand in 0..=100 {
        let creations = (thousand * 1000..(thousand + 1) * 1000).map(creation);
        let request = CreateAclsRequest {
            creations: creations.collect(),
        };
        let response = world.ask("admin", &request, 3);
        for result in response.results {
            let expected = if thousand < 100 {
                NONE
            } else {
                ErrorCode::POLICY_VIOLATION
            };
            assert_eq!(result.error_code, expected.0);
            let words = result.error_message.unwrap_or_default();
            assert_eq!(words.contains("at most 100000 ACLs"), thousand == 100);
        }
    }
}

#[test]
fn without_an_authorizer_everything_is_allowed_and_there_are_no_rules() {
    let mut world = World(Bench::new(1));
    world.0.create("t", 1, &[]);
    let response = world.ask("alice", &produce_request("t", 0, batch(&[NOW_MS])), 12);
    assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
    assert_eq!(
        described(&mut world, "alice").0,
        ErrorCode::SECURITY_DISABLED
    );
}
