//! `DescribeUserScramCredentials` // key 50

use thalweg_protocol::messages::describe_user_scram_credentials::{
    CredentialInfo, DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
};
use thalweg_protocol::{ErrorCode, Str};

use super::repeats::{distinct, repeated};
use crate::error::ApiError;
use crate::requests::context::Context;
use crate::requests::subject::Subject;
use crate::security::users::Users;

impl Subject for DescribeUserScramCredentialsRequest {}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: DescribeUserScramCredentialsRequest,
) -> DescribeUserScramCredentialsResponse {
    if let Some(code) = context.refusal() {
        return DescribeUserScramCredentialsResponse {
            error_code: code.0,
            error_message: Some(code.message().into()),
            ..DescribeUserScramCredentialsResponse::default()
        };
    }
    let users = &context.core.security.users;
    let asked = request.users.unwrap_or_default().into_iter();
    let asked: Vec<Str> = asked.map(|user| user.name).collect();
    let results = if asked.is_empty() {
        users
            .with_credentials()
            .map(|user| described(users, user.into()))
            .collect()
    } else {
        let repeated = repeated(asked.iter().cloned());
        let results = distinct(asked).into_iter().map(|user| {
            if repeated.contains(&user) {
                refused(user, ErrorCode::DUPLICATE_RESOURCE, |user| {
                    format!(
                        "Cannot describe SCRAM credentials for the same user twice in a single \
                     request: {user}"
                    )
                })
            } else {
                described(users, user)
            }
        });
        results.collect()
    };
    DescribeUserScramCredentialsResponse {
        results,
        ..DescribeUserScramCredentialsResponse::default()
    }
}

fn described(users: &Users, user: Str) -> DescribeUserScramCredentialsResult {
    let Some(credentials) = users.described(&user) else {
        return refused(user, ErrorCode::RESOURCE_NOT_FOUND, |user| {
            format!("Attempt to describe a user credential that does not exist: {user}")
        });
    };
    let infos = credentials
        .into_iter()
        .map(|(hash, iterations)| CredentialInfo {
            mechanism: hash.wire_id(),
            iterations: iterations as i32,
        });
    DescribeUserScramCredentialsResult {
        user,
        credential_infos: infos.collect(),
        ..DescribeUserScramCredentialsResult::default()
    }
}

fn refused(
    user: Str,
    code: ErrorCode,
    words: impl FnOnce(&str) -> String,
) -> DescribeUserScramCredentialsResult {
    let (error_code, error_message) = ApiError::fields(Some(ApiError::new(code, words(&user))));
    DescribeUserScramCredentialsResult {
        user,
        error_code,
        error_message,
        ..DescribeUserScramCredentialsResult::default()
    }
}
