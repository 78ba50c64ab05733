//! `CreateDelegationToken` // key 38
//! `RenewDelegationToken` // key 39
//! `ExpireDelegationToken` // key 40
//! `DescribeDelegationToken` // key 41
//!
//! The checks and their order are those of Kafka's `KafkaApis`. Only a client whose login proves
//! who it is, and that has not logged in with a token, may manage tokens.

use thalweg_protocol::messages::create_delegation_token::{
    CreateDelegationTokenRequest, CreateDelegationTokenResponse,
};
use thalweg_protocol::messages::describe_delegation_token::{
    DescribeDelegationTokenRequest, DescribeDelegationTokenResponse, DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
};
use thalweg_protocol::messages::expire_delegation_token::{
    ExpireDelegationTokenRequest, ExpireDelegationTokenResponse,
};
use thalweg_protocol::messages::renew_delegation_token::{
    RenewDelegationTokenRequest, RenewDelegationTokenResponse,
};
use thalweg_protocol::{ErrorCode, Str};
use thalweg_security::acl::{Operation, ResourceType};

use crate::requests::context::Context;
use crate::requests::subject::Subject;
use crate::security::tokens::{NewToken, Token};
use crate::security::{Principal, SecurityProtocol};

/// The first version in which another user than the requester may own a token (KIP-373).
const WITH_OWNER: i16 = 3;
const USER: &str = "User";
/// Kafka has no limits but that of its records.
const RENEWERS_MAX: usize = 100;
const NAME_BYTES_MAX: usize = 1000;
/// The times of a response with an error.
const NO_TIME: i64 = -1;

impl Subject for CreateDelegationTokenRequest {}
impl Subject for RenewDelegationTokenRequest {}
impl Subject for ExpireDelegationTokenRequest {}
impl Subject for DescribeDelegationTokenRequest {}

pub(crate) fn create(
    context: &mut Context<'_>,
    request: CreateDelegationTokenRequest,
) -> CreateDelegationTokenResponse {
    let requester = context.connection.principal().clone();
    let wish = wish_of(context, request, &requester);
    let owner = match &wish {
        Ok(wish) => wish.owner.clone(),
        Err(_) => requester.clone(),
    };
    let security = &mut context.core.security;
    let created = wish.and_then(|wish| {
        let id: Str = wish.id.as_str().into();
        let (mechanisms, salts) = (&security.mechanisms, &security.salts);
        let tokens = &mut security.tokens;
        let (token, hmac) = tokens.create(wish, mechanisms, salts, context.now_ms)?;
        Ok(CreateDelegationTokenResponse {
            issue_timestamp_ms: token.issued_ms,
            expiry_timestamp_ms: token.expires_ms,
            max_timestamp_ms: token.expires_max_ms,
            token_id: id,
            hmac: hmac.bytes().to_vec().into(),
            ..CreateDelegationTokenResponse::default()
        })
    });
    let mut response = created.unwrap_or_else(|code: ErrorCode| CreateDelegationTokenResponse {
        error_code: code.0,
        issue_timestamp_ms: NO_TIME,
        expiry_timestamp_ms: NO_TIME,
        max_timestamp_ms: NO_TIME,
        ..CreateDelegationTokenResponse::default()
    });
    (response.principal_type, response.principal_name) = fields(&owner);
    if context.version >= WITH_OWNER {
        let (kind, name) = fields(&requester);
        response.token_requester_principal_type = kind;
        response.token_requester_principal_name = name;
    }
    response
}

/// Checks what a client wants.
fn wish_of(
    context: &mut Context<'_>,
    request: CreateDelegationTokenRequest,
    requester: &Principal,
) -> Result<NewToken, ErrorCode> {
    refused(context)?;
    let name = request.owner_principal_name.unwrap_or_default();
    let owner = if name.is_empty() {
        requester.clone()
    } else {
        let kind = request.owner_principal_type.unwrap_or_default();
        user(&kind, &name)?
    };
    if owner != *requester
        && !context.allows(Operation::CreateTokens, ResourceType::User, owner.text())
    {
        return Err(ErrorCode::DELEGATION_TOKEN_AUTHORIZATION_FAILED);
    }
    if request.renewers.len() > RENEWERS_MAX {
        return Err(ErrorCode::POLICY_VIOLATION);
    }
    let renewers = request.renewers.iter();
    let renewers = renewers.map(|each| user(&each.principal_type, &each.principal_name));
    Ok(NewToken {
        owner,
        requester: requester.clone(),
        renewers: renewers.collect::<Result<_, _>>()?,
        lifetime_ms: request.max_lifetime_ms,
        id: context.core.random.uuid().to_string(),
    })
}

pub(crate) fn renew(
    context: &mut Context<'_>,
    request: RenewDelegationTokenRequest,
) -> RenewDelegationTokenResponse {
    let done = refused(context).and_then(|()| {
        let (user, now_ms) = (context.connection.principal(), context.now_ms);
        let tokens = &mut context.core.security.tokens;
        tokens.renew(&request.hmac, user, request.renew_period_ms, now_ms)
    });
    RenewDelegationTokenResponse {
        error_code: code_of(&done),
        expiry_timestamp_ms: done.unwrap_or(NO_TIME),
        ..RenewDelegationTokenResponse::default()
    }
}

pub(crate) fn expire(
    context: &mut Context<'_>,
    request: ExpireDelegationTokenRequest,
) -> ExpireDelegationTokenResponse {
    let done = refused(context).and_then(|()| {
        let (user, now_ms) = (context.connection.principal(), context.now_ms);
        let tokens = &mut context.core.security.tokens;
        tokens.expire(&request.hmac, user, request.expiry_time_period_ms, now_ms)
    });
    ExpireDelegationTokenResponse {
        error_code: code_of(&done),
        expiry_timestamp_ms: done.unwrap_or(NO_TIME),
        ..ExpireDelegationTokenResponse::default()
    }
}

pub(crate) fn describe(
    context: &mut Context<'_>,
    request: DescribeDelegationTokenRequest,
) -> DescribeDelegationTokenResponse {
    let tokens = &context.core.security.tokens;
    let checked = refused(context).and_then(|()| {
        let disabled = Err(ErrorCode::DELEGATION_TOKEN_AUTH_DISABLED);
        if tokens.is_enabled() {
            Ok(())
        } else {
            disabled
        }
    });
    if checked.is_err() {
        return DescribeDelegationTokenResponse {
            error_code: code_of(&checked),
            ..DescribeDelegationTokenResponse::default()
        };
    }
    // Only principals of the type `User` own tokens.
    let asked = request.owners.map(|owners| {
        let owners = owners.iter();
        let users = owners.filter_map(|each| user(&each.principal_type, &each.principal_name).ok());
        users.collect::<std::collections::BTreeSet<Principal>>()
    });
    let is_asked = |token: &Token| match &asked {
        None => true,
        Some(asked) => {
            asked.contains(&token.owner) || token.renewers.iter().any(|each| asked.contains(each))
        }
    };
    let me = context.connection.principal();
    let is_visible = |id: &str, token: &Token| {
        token.belongs_to(me)
            || context.allows(Operation::Describe, ResourceType::DelegationToken, id)
            || context.allows(
                Operation::DescribeTokens,
                ResourceType::User,
                token.owner.text(),
            )
    };
    let visible = tokens
        .all()
        .filter(|(id, token)| is_asked(token) && is_visible(id, token));
    let version = context.version;
    let rows = visible.filter_map(|(id, token)| {
        let hmac = tokens.hmac(id).ok()?;
        Some(described(id, token, hmac.bytes(), version))
    });
    DescribeDelegationTokenResponse {
        tokens: rows.collect(),
        ..DescribeDelegationTokenResponse::default()
    }
}

fn described(id: &str, token: &Token, hmac: &[u8], version: i16) -> DescribedDelegationToken {
    let renewers = token.renewers.iter().map(|each| {
        let (principal_type, principal_name) = fields(each);
        DescribedDelegationTokenRenewer {
            principal_type,
            principal_name,
        }
    });
    let (principal_type, principal_name) = fields(&token.owner);
    let mut row = DescribedDelegationToken {
        principal_type,
        principal_name,
        issue_timestamp: token.issued_ms,
        expiry_timestamp: token.expires_ms,
        max_timestamp: token.expires_max_ms,
        token_id: id.into(),
        hmac: hmac.to_vec().into(),
        renewers: renewers.collect(),
        ..DescribedDelegationToken::default()
    };
    if version >= WITH_OWNER {
        let (kind, name) = fields(&token.requester);
        row.token_requester_principal_type = kind;
        row.token_requester_principal_name = name;
    }
    row
}

/// Refuses clients that have not authenticated, and clients that logged in with a delegation token.
/// Otherwise a token could create new tokens, and its user could keep access after its expiry.
fn refused(context: &Context<'_>) -> Result<(), ErrorCode> {
    if let Some(code) = context.refusal() {
        return Err(code);
    }
    let login = &context.connection.authentication;
    let is_known = match context.core.security.protocol {
        SecurityProtocol::Plaintext => false,
        SecurityProtocol::Ssl => *login.principal() != Principal::anonymous(),
        SecurityProtocol::SaslPlaintext | SecurityProtocol::SaslSsl => true,
    };
    if is_known && !login.is_by_token() {
        return Ok(());
    }
    Err(ErrorCode::DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
}

/// As in Kafka, owners and renewers are users.
fn user(kind: &str, name: &str) -> Result<Principal, ErrorCode> {
    if kind != USER {
        return Err(ErrorCode::INVALID_PRINCIPAL_TYPE);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(ErrorCode::INVALID_REQUEST);
    }
    Ok(Principal::user(name))
}

fn fields(principal: &Principal) -> (Str, Str) {
    (Str::from_static(USER), principal.name().into())
}

fn code_of<T>(done: &Result<T, ErrorCode>) -> i16 {
    done.as_ref().err().map_or(0, |code| code.0)
}
