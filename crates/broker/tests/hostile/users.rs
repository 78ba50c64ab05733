//! Frames about logins and users.

use bytes::Bytes;
use thalweg_protocol::ApiKey;
use thalweg_protocol::dynamic::Value;

use crate::attacks::{Attack, attack, long, named};
use crate::world::{fields, int, list, text};

pub(crate) fn all() -> Vec<Attack> {
    let describes = (ApiKey::DESCRIBE_USER_SCRAM_CREDENTIALS, 0);
    let alters = (ApiKey::ALTER_USER_SCRAM_CREDENTIALS, 0);
    let deletions = |deletions| fields([("Deletions", deletions), ("Upsertions", list(0, int))]);
    let upsertions = |upsertions| fields([("Deletions", list(0, int)), ("Upsertions", upsertions)]);
    let upsertion = |name: Value| {
        fields([
            ("Name", name),
            ("Mechanism", int(1)),
            ("Iterations", int(4096)),
            ("Salt", Bytes::from_static(b"salt").into()),
            ("SaltedPassword", Bytes::from_static(&[7; 32]).into()),
        ])
    };
    let describe_acls = (ApiKey::DESCRIBE_ACLS, 3);
    let create_acls = (ApiKey::CREATE_ACLS, 3);
    let delete_acls = (ApiKey::DELETE_ACLS, 3);
    let acl = |name: Value| {
        fields([
            ("ResourceType", int(2)),
            ("ResourceName", name),
            ("ResourcePatternType", int(4)),
            ("Principal", text("User:a")),
            ("Host", text("*")),
            ("Operation", int(3)),
            ("PermissionType", int(3)),
        ])
    };
    let filter = || {
        [
            ("ResourceTypeFilter", int(1)),
            ("ResourceNameFilter", long()),
            ("PatternTypeFilter", int(2)),
            ("PrincipalFilter", Value::Null),
            ("HostFilter", Value::Null),
            ("Operation", int(1)),
            ("PermissionType", int(1)),
        ]
    };
    let create_token = (ApiKey::CREATE_DELEGATION_TOKEN, 3);
    let describe_tokens = (ApiKey::DESCRIBE_DELEGATION_TOKEN, 3);
    let principal = |index| {
        fields([
            ("PrincipalType", text("User")),
            ("PrincipalName", named("u", index)),
        ])
    };
    let describe_quotas = (ApiKey::DESCRIBE_CLIENT_QUOTAS, 1);
    let alter_quotas = (ApiKey::ALTER_CLIENT_QUOTAS, 1);
    let quota = |index| {
        let part = fields([
            ("EntityType", text("user")),
            ("EntityName", named("u", index)),
        ]);
        let op = fields([
            ("Key", text("producer_byte_rate")),
            ("Value", Value::Float(1.0)),
            ("Remove", Value::Bool(false)),
        ]);
        fields([
            ("Entity", Value::Array(vec![part])),
            ("Ops", Value::Array(vec![op])),
        ])
    };
    vec![
        attack("DescribeClientQuotas", describe_quotas, |_| {
            let component = fields([
                ("EntityType", text("user")),
                ("MatchType", int(0)),
                ("Match", long()),
            ]);
            fields([
                ("Components", Value::Array(vec![component])),
                ("Strict", Value::Bool(false)),
            ])
        }),
        attack(
            "AlterClientQuotas of many users",
            alter_quotas,
            move |count| {
                fields([
                    ("Entries", list(count, quota)),
                    ("ValidateOnly", Value::Bool(false)),
                ])
            },
        ),
        attack(
            "CreateDelegationToken with many renewers",
            create_token,
            move |count| {
                fields([
                    ("OwnerPrincipalType", text("User")),
                    ("OwnerPrincipalName", long()),
                    ("Renewers", list(count, principal)),
                    ("MaxLifetimeMs", int(1)),
                ])
            },
        ),
        attack(
            "RenewDelegationToken",
            (ApiKey::RENEW_DELEGATION_TOKEN, 2),
            |count| {
                fields([
                    ("Hmac", Bytes::from(vec![b'a'; count]).into()),
                    ("RenewPeriodMs", int(1)),
                ])
            },
        ),
        attack(
            "ExpireDelegationToken",
            (ApiKey::EXPIRE_DELEGATION_TOKEN, 2),
            |count| {
                fields([
                    ("Hmac", Bytes::from(vec![b'a'; count]).into()),
                    ("ExpiryTimePeriodMs", int(1)),
                ])
            },
        ),
        attack(
            "DescribeDelegationToken of many owners",
            describe_tokens,
            move |count| fields([("Owners", list(count, principal))]),
        ),
        attack("DescribeAcls", describe_acls, move |_| fields(filter())),
        attack("CreateAcls of many prefixes", create_acls, move |count| {
            fields([("Creations", list(count, |index| acl(named("t", index))))])
        }),
        attack("DeleteAcls with many filters", delete_acls, move |count| {
            fields([("Filters", list(count, |_| fields(filter())))])
        }),
        attack("SaslHandshake", (ApiKey::SASL_HANDSHAKE, 1), |_| {
            fields([("Mechanism", long())])
        }),
        attack(
            "SaslAuthenticate",
            (ApiKey::SASL_AUTHENTICATE, 2),
            |count| fields([("AuthBytes", Bytes::from(vec![b'a'; count]).into())]),
        ),
        attack(
            "DescribeUserScramCredentials of one user many times",
            describes,
            |count| fields([("Users", list(count, |_| fields([("Name", text("u"))])))]),
        ),
        attack(
            "DescribeUserScramCredentials of many users",
            describes,
            |count| {
                fields([(
                    "Users",
                    list(count, |index| fields([("Name", named("u", index))])),
                )])
            },
        ),
        attack(
            "AlterUserScramCredentials deletes one user many times",
            alters,
            move |count| {
                deletions(list(count, |_| {
                    fields([("Name", text("u")), ("Mechanism", int(1))])
                }))
            },
        ),
        attack(
            "AlterUserScramCredentials creates many users",
            alters,
            move |count| upsertions(list(count, |index| upsertion(named("u", index)))),
        ),
        attack(
            "AlterUserScramCredentials creates one user many times",
            alters,
            move |count| upsertions(list(count, |_| upsertion(text("u")))),
        ),
    ]
}
