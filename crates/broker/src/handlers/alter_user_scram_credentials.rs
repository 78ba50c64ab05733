//! `AlterUserScramCredentials` // key 51
//!
//! The checks and texts are those of Kafka's `ScramControlManager`. A user with an error keeps all
//! its credentials.

use std::collections::BTreeMap;

use thalweg_protocol::messages::alter_user_scram_credentials::{
    AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult, ScramCredentialUpsertion,
};
use thalweg_protocol::{ErrorCode, Str};
use thalweg_security::scram::{Credential, ITERATIONS_MAX, ITERATIONS_MIN, ScramHash};

use crate::error::ApiError;
use crate::requests::context::Context;
use crate::requests::subject::Subject;
use crate::security::users::{CREDENTIALS_MAX, Users};

/// Kafka has no limit on a name except that of its records.
const USER_BYTES_MAX: usize = 1000;
const SALT_BYTES_MAX: usize = 1000;

impl Subject for AlterUserScramCredentialsRequest {}

/// `None` deletes the credential.
type Change = Option<ScramCredentialUpsertion>;

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: AlterUserScramCredentialsRequest,
) -> AlterUserScramCredentialsResponse {
    let injected = context.refusal();
    let users = &mut context.core.security.users;
    let mut errors: BTreeMap<Str, Option<ApiError>> = BTreeMap::new();
    let mut changes: BTreeMap<(Str, i8), Change> = BTreeMap::new();
    let deletions = request
        .deletions
        .into_iter()
        .map(|each| (each.name, each.mechanism, None));
    let upsertions = request.upsertions.into_iter().map(|each| {
        let name = each.name.clone();
        (name, each.mechanism, Some(each))
    });
    let mut accepted = 0;
    for (user, mechanism, change) in deletions.chain(upsertions) {
        let error = match injected {
            Some(code) => Some(ApiError::of(code)),
            None => checked(users, accepted, &user, mechanism, change.as_ref()).err(),
        };
        accepted += usize::from(error.is_none() && change.is_some());
        let is_repeated = changes.insert((user.clone(), mechanism), change).is_some();
        let first = errors.entry(user).or_insert(None);
        if is_repeated {
            let words = "A user credential cannot be altered twice in the same request";
            *first = Some(ApiError::new(ErrorCode::DUPLICATE_RESOURCE, words));
        } else if first.is_none() {
            *first = error;
        }
    }
    for ((user, mechanism), change) in changes {
        if errors.get(&user).is_some_and(Option::is_none) {
            apply(users, &user, mechanism, change);
        }
    }
    let results = errors.into_iter().map(|(user, error)| {
        let (error_code, error_message) = ApiError::fields(error);
        AlterUserScramCredentialsResult {
            user,
            error_code,
            error_message,
        }
    });
    AlterUserScramCredentialsResponse {
        results: results.collect(),
        ..AlterUserScramCredentialsResponse::default()
    }
}

fn checked(
    users: &Users,
    accepted: usize,
    user: &str,
    mechanism: i8,
    change: Option<&ScramCredentialUpsertion>,
) -> Result<(), ApiError> {
    let unacceptable = |words: &str| ApiError::new(ErrorCode::UNACCEPTABLE_CREDENTIAL, words);
    if user.is_empty() {
        return Err(unacceptable("Username must not be empty"));
    }
    let Some(hash) = ScramHash::from_wire_id(mechanism) else {
        let code = ErrorCode::UNSUPPORTED_SASL_MECHANISM;
        return Err(ApiError::new(code, "Unknown SCRAM mechanism"));
    };
    let exists = users.credential(user, hash).is_some();
    let Some(upsertion) = change else {
        let words = "Attempt to delete a user credential that does not exist";
        let missing = ApiError::new(ErrorCode::RESOURCE_NOT_FOUND, words);
        return if exists { Ok(()) } else { Err(missing) };
    };
    let iterations = upsertion.iterations;
    if iterations < ITERATIONS_MIN as i32 {
        return Err(unacceptable("Too few iterations"));
    }
    if iterations > ITERATIONS_MAX as i32 {
        return Err(unacceptable("Too many iterations"));
    }
    if user.len() > USER_BYTES_MAX {
        return Err(unacceptable(&format!(
            "The user name is longer than {USER_BYTES_MAX} bytes"
        )));
    }
    if upsertion.salt.is_empty() || upsertion.salt.len() > SALT_BYTES_MAX {
        return Err(unacceptable(&format!(
            "The salt is empty or longer than {SALT_BYTES_MAX} bytes"
        )));
    }
    if upsertion.salted_password.len() != hash.digest().output_len() {
        return Err(unacceptable(
            "The salted password does not have the length of the hash",
        ));
    }
    if !exists && !users.has_room_for(accepted + 1) {
        let words = format!(
            "The embedded broker keeps at most {CREDENTIALS_MAX} SCRAM credentials. Delete some \
             first"
        );
        return Err(ApiError::new(ErrorCode::POLICY_VIOLATION, words));
    }
    Ok(())
}

fn apply(users: &mut Users, user: &str, mechanism: i8, change: Change) {
    let Some(hash) = ScramHash::from_wire_id(mechanism) else {
        return;
    };
    match change {
        None => {
            users.remove_credential(user, hash);
        }
        Some(ScramCredentialUpsertion {
            salted_password,
            salt,
            iterations,
            ..
        }) => {
            let credential =
                Credential::from_salted(hash, &salted_password, &salt, iterations as u32);
            users.set_credential(user, hash, credential);
        }
    }
}
