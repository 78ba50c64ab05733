//! `SaslHandshake` // key 17

use thalweg_protocol::ErrorCode;
use thalweg_protocol::messages::sasl_handshake::{SaslHandshakeRequest, SaslHandshakeResponse};

use crate::error::ApiError;
use crate::requests::context::Context;
use crate::requests::response::{Reply, ReplyTo};
use crate::requests::subject::Subject;

impl Subject for SaslHandshakeRequest {}

pub(crate) fn handle(
    context: &mut Context<'_>,
    _: ReplyTo,
    request: SaslHandshakeRequest,
) -> Reply<SaslHandshakeResponse> {
    let injected = context.injected();
    let security = &context.core.security;
    let login = &mut context.connection.authentication;
    let outcome = match injected {
        Some(code) => Err(login.refuse(ApiError::of(code))),
        None => login.begin(security, &request.mechanism, context.now),
    };
    let code = outcome
        .as_ref()
        .err()
        .map_or(ErrorCode::NONE, |refused| refused.error.code);
    let mechanisms = match code {
        // The client has logged in already, or there is nothing to log in to.
        ErrorCode::ILLEGAL_SASL_STATE => Vec::new(),
        _ => security
            .mechanisms
            .iter()
            .map(|each| each.name().into())
            .collect(),
    };
    let response = SaslHandshakeResponse {
        error_code: code.0,
        mechanisms,
    };
    match outcome {
        Err(refused) if refused.is_final => Reply::Last(response),
        _ => Reply::Message(response),
    }
}
