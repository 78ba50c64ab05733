//! Credentials of SCRAM, as administrators create, describe and delete them.

use thalweg_protocol::messages::alter_user_scram_credentials::{
    AlterUserScramCredentialsRequest, ScramCredentialDeletion, ScramCredentialUpsertion,
};
use thalweg_protocol::messages::describe_user_scram_credentials::{
    DescribeUserScramCredentialsRequest, UserName,
};

use super::*;

fn upsertion(user: &str, mechanism: i8, iterations: i32) -> ScramCredentialUpsertion {
    let length = if mechanism == 1 { 32 } else { 64 };
    ScramCredentialUpsertion {
        name: user.into(),
        mechanism,
        iterations,
        salt: Bytes::from_static(b"salt"),
        salted_password: vec![7; length].into(),
    }
}

fn deletion(user: &str, mechanism: i8) -> ScramCredentialDeletion {
    ScramCredentialDeletion {
        name: user.into(),
        mechanism,
    }
}

/// Returns (user, code, message) of each result.
fn alter(
    bench: &mut Bench,
    upsertions: Vec<ScramCredentialUpsertion>,
    deletions: Vec<ScramCredentialDeletion>,
) -> Vec<(String, ErrorCode, String)> {
    let request = AlterUserScramCredentialsRequest {
        deletions,
        upsertions,
    };
    let results = bench.ask(&request, 0).results.into_iter();
    let row = |text: Option<thalweg_protocol::Str>| text.as_deref().unwrap_or_default().to_owned();
    results
        .map(|each| {
            (
                each.user.to_string(),
                ErrorCode(each.error_code),
                row(each.error_message),
            )
        })
        .collect()
}

/// User, code, and mechanism with iterations of each credential.
type Described = (String, ErrorCode, Vec<(i8, i32)>);

fn describe(bench: &mut Bench, users: &[&str]) -> Vec<Described> {
    let users = users.iter().map(|name| UserName {
        name: (*name).into(),
    });
    let request = DescribeUserScramCredentialsRequest {
        users: Some(users.collect()),
    };
    let results = bench.ask(&request, 0).results.into_iter();
    results
        .map(|each| {
            let infos = each.credential_infos.iter();
            let infos = infos
                .map(|info| (info.mechanism, info.iterations))
                .collect();
            (each.user.to_string(), ErrorCode(each.error_code), infos)
        })
        .collect()
}

#[test]
fn credentials_are_created_changed_described_and_deleted() {
    let mut bench = Bench::new(1);
    let fine = (ErrorCode::NONE, String::new());
    let created = vec![upsertion("bob", 1, 4096), upsertion("alice", 2, 8192)];
    let rows = alter(&mut bench, created, vec![]);
    let expected = ["alice", "bob"].map(|user| (user.to_owned(), fine.0, fine.1.clone()));
    assert_eq!(rows, expected);
    alter(&mut bench, vec![upsertion("alice", 1, 16_384)], vec![]);
    let all = describe(&mut bench, &[]);
    assert_eq!(
        all,
        [
            (
                "alice".to_owned(),
                ErrorCode::NONE,
                vec![(1, 16_384), (2, 8192)]
            ),
            ("bob".to_owned(), ErrorCode::NONE, vec![(1, 4096)]),
        ]
    );
    alter(
        &mut bench,
        vec![],
        vec![deletion("alice", 2), deletion("bob", 1)],
    );
    let left = describe(&mut bench, &[]);
    assert_eq!(
        left,
        [("alice".to_owned(), ErrorCode::NONE, vec![(1, 16_384)])]
    );
}

#[test]
fn refusals_are_in_kafkas_words_and_change_nothing() {
    let mut bench = Bench::new(1);
    let cases = [
        (
            upsertion("a", 1, 4095),
            ErrorCode::UNACCEPTABLE_CREDENTIAL,
            "Too few iterations",
        ),
        (
            upsertion("b", 2, 16_385),
            ErrorCode::UNACCEPTABLE_CREDENTIAL,
            "Too many iterations",
        ),
        (
            upsertion("", 2, 4096),
            ErrorCode::UNACCEPTABLE_CREDENTIAL,
            "Username must not be empty",
        ),
        (
            upsertion("c", 3, 4096),
            ErrorCode::UNSUPPORTED_SASL_MECHANISM,
            "Unknown SCRAM mechanism",
        ),
    ];
    for (upsertion, code, words) in cases {
        let user = upsertion.name.to_string();
        let rows = alter(&mut bench, vec![upsertion], vec![]);
        assert_eq!(rows, [(user, code, words.to_owned())]);
    }
    let mut short = upsertion("d", 2, 4096);
    short.salted_password = Bytes::from_static(b"short");
    let rows = alter(&mut bench, vec![short], vec![deletion("e", 1)]);
    assert_eq!(rows[0].1, ErrorCode::UNACCEPTABLE_CREDENTIAL);
    let missing = "Attempt to delete a user credential that does not exist";
    assert_eq!(
        rows[1],
        (
            "e".to_owned(),
            ErrorCode::RESOURCE_NOT_FOUND,
            missing.to_owned()
        )
    );
    assert!(describe(&mut bench, &[]).is_empty());
}

#[test]
fn a_credential_that_is_altered_twice_stays_as_it_is() {
    let mut bench = Bench::new(1);
    alter(&mut bench, vec![upsertion("alice", 1, 4096)], vec![]);
    let twice = vec![upsertion("alice", 1, 8192), upsertion("bob", 1, 4096)];
    let rows = alter(&mut bench, twice, vec![deletion("alice", 1)]);
    let words = "A user credential cannot be altered twice in the same request";
    assert_eq!(
        rows[0],
        (
            "alice".to_owned(),
            ErrorCode::DUPLICATE_RESOURCE,
            words.to_owned()
        )
    );
    assert_eq!(rows[1].1, ErrorCode::NONE);
    assert_eq!(describe(&mut bench, &["alice"])[0].2, [(1, 4096)]);
}

#[test]
fn only_users_with_credentials_are_described_and_only_once() {
    let mut bench = Bench::new(1);
    alter(&mut bench, vec![upsertion("alice", 1, 4096)], vec![]);
    let rows = describe(&mut bench, &["alice", "bob", "bob"]);
    assert_eq!(
        rows[0],
        ("alice".to_owned(), ErrorCode::NONE, vec![(1, 4096)])
    );
    assert_eq!(
        rows[1],
        ("bob".to_owned(), ErrorCode::DUPLICATE_RESOURCE, vec![])
    );
    let rows = describe(&mut bench, &["bob"]);
    assert_eq!(
        rows,
        [("bob".to_owned(), ErrorCode::RESOURCE_NOT_FOUND, vec![])]
    );
}
