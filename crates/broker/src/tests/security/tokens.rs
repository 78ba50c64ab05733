//! Delegation tokens: who may create, see, renew and expire them, and until when. Logins with them
//! are in the tests of Python, which have the client's side of SCRAM.

use thalweg_protocol::messages::create_acls::{AclCreation, CreateAclsRequest};
use thalweg_protocol::messages::create_delegation_token::{
    CreatableRenewers, CreateDelegationTokenRequest, CreateDelegationTokenResponse,
};
use thalweg_protocol::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource,
};
use thalweg_protocol::messages::describe_delegation_token::{
    DescribeDelegationTokenOwner, DescribeDelegationTokenRequest,
};
use thalweg_protocol::messages::expire_delegation_token::ExpireDelegationTokenRequest;
use thalweg_protocol::messages::renew_delegation_token::RenewDelegationTokenRequest;

use super::*;
use crate::{SecurityConfig, SecurityProtocol};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
const DELEGATION_TOKEN: i8 = 6;
const USER: i8 = 7;
const KEY: (&str, &str) = ("delegation.token.secret.key", "the-key-of-the-cluster");
const AUTHORIZER: [(&str, &str); 2] = [
    (
        "authorizer.class.name",
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    ),
    ("super.users", "User:admin"),
];

/// A broker whose users show certificates.
struct World(Bench);

impl World {
    fn new(options: &[(&str, &str)]) -> Self {
        let mut bench = Bench::with_options(1, options);
        bench.core.secure(&SecurityConfig {
            protocol: SecurityProtocol::Ssl,
            ..SecurityConfig::default()
        });
        Self(bench)
    }

    /// An empty name is that of nobody.
    fn ask<R: Request>(&mut self, user: &str, request: &R, version: i16) -> R::Response {
        let mut connection = self.0.core.connect(1, "/127.0.0.1".to_owned());
        if !user.is_empty() {
            connection.identify(user);
        }
        let frame = frame::encode_request(request, version, 7, Some("test")).unwrap();
        let outcome = self
            .0
            .handle_on(&mut connection, Bytes::from(frame).slice(4..));
        decode::<R>(outcome, version)
    }

    fn create(&mut self, user: &str, request: &CreateDelegationTokenRequest) -> Created {
        self.ask(user, request, 3)
    }

    /// Returns the new expiry.
    fn renew(&mut self, user: &str, token: &Created, period_ms: i64) -> Result<i64, ErrorCode> {
        let request = RenewDelegationTokenRequest {
            hmac: token.hmac.clone(),
            renew_period_ms: period_ms,
        };
        let response = self.ask(user, &request, 2);
        result(response.error_code, response.expiry_timestamp_ms)
    }

    fn expire(&mut self, user: &str, token: &Created, period_ms: i64) -> Result<i64, ErrorCode> {
        let request = ExpireDelegationTokenRequest {
            hmac: token.hmac.clone(),
            expiry_time_period_ms: period_ms,
        };
        let response = self.ask(user, &request, 2);
        result(response.error_code, response.expiry_timestamp_ms)
    }

    /// Returns the IDs of the tokens that a user sees.
    fn seen(&mut self, user: &str, owners: Option<&[&str]>) -> Result<Vec<String>, ErrorCode> {
        let owner = |name: &&str| DescribeDelegationTokenOwner {
            principal_type: "User".into(),
            principal_name: (*name).into(),
        };
        let request = DescribeDelegationTokenRequest {
            owners: owners.map(|owners| owners.iter().map(owner).collect()),
        };
        let response = self.ask(user, &request, 3);
        let ids = response.tokens.iter().map(|each| each.token_id.to_string());
        result(response.error_code, ids.collect())
    }

    fn allow(&mut self, user: &str, resource_type: i8, name: &str, operation: i8) {
        let creation = AclCreation {
            resource_type,
            resource_name: name.into(),
            resource_pattern_type: 3,
            principal: format!("User:{user}").into(),
            host: "*".into(),
            operation,
            permission_type: 3,
        };
        let creations = vec![creation];
        let response = self.ask("admin", &CreateAclsRequest { creations }, 3);
        assert_eq!(response.results[0].error_code, 0);
    }
}

type Created = CreateDelegationTokenResponse;

fn result<T>(code: i16, value: T) -> Result<T, ErrorCode> {
    match ErrorCode(code) {
        ErrorCode::NONE => Ok(value),
        code => Err(code),
    }
}

fn wish(
    owner: Option<&str>,
    renewers: &[&str],
    max_lifetime_ms: i64,
) -> CreateDelegationTokenRequest {
    let renewers = renewers.iter().map(|name| CreatableRenewers {
        principal_type: "User".into(),
        principal_name: (*name).into(),
    });
    CreateDelegationTokenRequest {
        owner_principal_type: owner.map(|_| "User".into()),
        owner_principal_name: owner.map(Into::into),
        renewers: renewers.collect(),
        max_lifetime_ms,
    }
}

#[test]
fn a_token_lives_a_day_unless_it_is_renewed_and_a_week_at_most() {
    let mut world = World::new(&[KEY]);
    let token = world.create("alice", &wish(None, &["bob"], -1));
    assert_eq!(token.error_code, 0);
    assert_eq!(
        (&*token.principal_type, &*token.principal_name),
        ("User", "alice")
    );
    assert_eq!(&*token.token_requester_principal_name, "alice");
    assert_eq!(token.issue_timestamp_ms, NOW_MS);
    assert_eq!(token.expiry_timestamp_ms, NOW_MS + DAY_MS);
    assert_eq!(token.max_timestamp_ms, NOW_MS + 7 * DAY_MS);
    assert_eq!(token.hmac.len(), 64);

    world.0.pass(Duration::from_secs(23 * 3600));
    assert_eq!(
        world.renew("bob", &token, -1),
        Ok(NOW_MS + 23 * HOUR_MS + DAY_MS)
    );
    assert_eq!(
        world.renew("alice", &token, 1000),
        Ok(NOW_MS + 23 * HOUR_MS + 1000)
    );
    for _ in 0..6 {
        world.renew("alice", &token, 9 * DAY_MS).unwrap();
        world.0.pass(Duration::from_secs(22 * 3600));
    }
    assert_eq!(world.renew("alice", &token, -1), Ok(NOW_MS + 7 * DAY_MS));
    world.0.pass(Duration::from_secs(24 * 3600));
    let expired = Err(ErrorCode::DELEGATION_TOKEN_EXPIRED);
    assert_eq!(world.renew("alice", &token, -1), expired);
    assert_eq!(world.expire("alice", &token, -1), expired);
    // The next check removes it.
    assert_eq!(world.seen("alice", None).unwrap().len(), 1);
    let (now, now_ms) = (world.0.now, world.0.now_ms);
    assert!(world.0.core.next_deadline() <= now);
    world.0.core.tick(now, now_ms);
    assert_eq!(world.seen("alice", None), Ok(vec![]));
    let missing = Err(ErrorCode::DELEGATION_TOKEN_NOT_FOUND);
    assert_eq!(world.renew("alice", &token, -1), missing);
}

#[test]
fn the_owner_and_the_renewers_may_end_a_token() {
    let mut world = World::new(&[KEY]);
    let token = world.create("alice", &wish(None, &["bob"], DAY_MS / 2));
    assert_eq!(token.expiry_timestamp_ms, NOW_MS + DAY_MS / 2);
    let mismatch = Err(ErrorCode::DELEGATION_TOKEN_OWNER_MISMATCH);
    assert_eq!(world.renew("carol", &token, -1), mismatch);
    assert_eq!(world.expire("carol", &token, -1), mismatch);
    assert_eq!(world.expire("bob", &token, 1000), Ok(NOW_MS + 1000));
    assert_eq!(world.expire("bob", &token, DAY_MS), Ok(NOW_MS + DAY_MS / 2));
    assert_eq!(world.expire("bob", &token, -1), Ok(-1));
    let missing = Err(ErrorCode::DELEGATION_TOKEN_NOT_FOUND);
    assert_eq!(world.expire("bob", &token, -1), missing);
    assert_eq!(world.seen("alice", None), Ok(vec![]));
}

#[test]
fn only_a_known_user_may_manage_tokens_and_only_where_there_are_any() {
    let mut world = World::new(&[KEY]);
    let token = world.create("alice", &wish(None, &[], -1));
    let not_allowed = ErrorCode::DELEGATION_TOKEN_REQUEST_NOT_ALLOWED;
    let refused = world.create("", &wish(None, &[], -1));
    assert_eq!(ErrorCode(refused.error_code), not_allowed);
    assert_eq!((refused.expiry_timestamp_ms, refused.hmac.len()), (-1, 0));
    assert_eq!(world.renew("", &token, -1), Err(not_allowed));
    assert_eq!(world.expire("", &token, -1), Err(not_allowed));
    assert_eq!(world.seen("", None), Err(not_allowed));

    let mut world = World::new(&[]);
    let disabled = ErrorCode::DELEGATION_TOKEN_AUTH_DISABLED;
    let refused = world.create("alice", &wish(None, &[], -1));
    assert_eq!(ErrorCode(refused.error_code), disabled);
    assert_eq!(world.renew("alice", &token, -1), Err(disabled));
    assert_eq!(world.expire("alice", &token, -1), Err(disabled));
    assert_eq!(world.seen("alice", None), Err(disabled));
}

#[test]
fn owners_and_renewers_are_users() {
    let mut world = World::new(&[KEY]);
    let mut request = wish(Some("bob"), &["carol"], -1);
    request.renewers[0].principal_type = "Group".into();
    let response = world.create("alice", &request);
    assert_eq!(
        ErrorCode(response.error_code),
        ErrorCode::INVALID_PRINCIPAL_TYPE
    );
    request = wish(Some("bob"), &[], -1);
    request.owner_principal_type = Some("Group".into());
    let response = world.create("alice", &request);
    assert_eq!(
        ErrorCode(response.error_code),
        ErrorCode::INVALID_PRINCIPAL_TYPE
    );
    let response = world.create("alice", &wish(None, &["r"; 101], -1));
    assert_eq!(ErrorCode(response.error_code), ErrorCode::POLICY_VIOLATION);
    let long = "r".repeat(1001);
    let response = world.create("alice", &wish(None, &[&long], -1));
    assert_eq!(ErrorCode(response.error_code), ErrorCode::INVALID_REQUEST);
}

#[test]
fn tokens_of_others_need_rights() {
    let mut world = World::new(&[KEY, AUTHORIZER[0], AUTHORIZER[1]]);
    let denied = ErrorCode::DELEGATION_TOKEN_AUTHORIZATION_FAILED;
    let response = world.create("alice", &wish(Some("bob"), &[], -1));
    assert_eq!(ErrorCode(response.error_code), denied);
    world.allow("alice", USER, "User:bob", 13);
    let response = world.create("alice", &wish(Some("bob"), &["carol"], -1));
    assert_eq!(response.error_code, 0);
    assert_eq!(&*response.principal_name, "bob");
    assert_eq!(&*response.token_requester_principal_name, "alice");
    let id = response.token_id.to_string();

    // Who has created a token does not see it, if it belongs to somebody else.
    let nothing = Ok(vec![]);
    let it = Ok(vec![id.clone()]);
    assert_eq!(world.seen("alice", None), nothing);
    assert_eq!(world.seen("bob", None), it);
    assert_eq!(world.seen("carol", None), it);
    assert_eq!(world.seen("admin", None), it);
    assert_eq!(world.seen("admin", Some(&["carol"])), it);
    assert_eq!(world.seen("admin", Some(&["alice"])), nothing);
    assert_eq!(world.seen("admin", Some(&[])), nothing);
    world.allow("alice", USER, "User:bob", 14);
    assert_eq!(world.seen("alice", None), it);
    assert_eq!(world.seen("dave", None), nothing);
    world.allow("dave", DELEGATION_TOKEN, &id, 8);
    assert_eq!(world.seen("dave", None), it);
}

#[test]
fn nothing_shows_the_key() {
    let mut world = World::new(&[KEY]);
    let token = world.create("alice", &wish(None, &[], -1));
    let core = &world.0.core;
    let shown = format!("{:?} {:?} {token:?}", core.options, core.security);
    assert!(!shown.contains(KEY.1), "{shown}");
    let request = DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type: 4,
            resource_name: "1".into(),
            configuration_keys: None,
        }],
        include_synonyms: true,
        include_documentation: false,
    };
    let response = world.ask("alice", &request, 4);
    let rows = &response.results[0].configs;
    let row = rows.iter().find(|row| &*row.name == KEY.0).unwrap();
    assert!(row.is_sensitive && row.value.is_none());
    assert!(row.synonyms.iter().all(|each| each.value.is_none()));
    assert_eq!((row.config_source, row.config_type), (4, 9));
}
