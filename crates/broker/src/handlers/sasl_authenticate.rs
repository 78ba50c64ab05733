//! `SaslAuthenticate` // key 36

use thalweg_protocol::messages::sasl_authenticate::{
    SaslAuthenticateRequest, SaslAuthenticateResponse,
};

use crate::Core;
use crate::error::ApiError;
use crate::faults::logins::LoginFaults;
use crate::requests::context::Context;
use crate::requests::response::{Reply, ReplyTo};
use crate::requests::subject::Subject;
use crate::security::authentication::At;

impl Subject for SaslAuthenticateRequest {}

pub(crate) fn handle(
    context: &mut Context<'_>,
    _: ReplyTo,
    request: SaslAuthenticateRequest,
) -> Reply<SaslAuthenticateResponse> {
    let injected = context.injected();
    let at = At {
        now: context.now,
        now_ms: context.now_ms,
        session_ms_max: context.core.options.connections_max_reauth_ms,
    };
    let login = &mut context.connection.authentication;
    let Core {
        security, faults, ..
    } = &mut *context.core;
    let mut faults = LoginFaults::new(faults, context.node);
    let outcome = match injected {
        Some(code) => Err(login.refuse(ApiError::of(code))),
        None => login.step(security, &request.auth_bytes, &at, &mut faults),
    };
    match outcome {
        Ok(progress) => Reply::Message(SaslAuthenticateResponse {
            auth_bytes: progress.message.into(),
            session_lifetime_ms: progress.session_lifetime_ms,
            ..SaslAuthenticateResponse::default()
        }),
        Err(refused) => {
            let response = SaslAuthenticateResponse {
                error_code: refused.error.code.0,
                error_message: Some(refused.error.message.into()),
                ..SaslAuthenticateResponse::default()
            };
            if refused.is_final {
                Reply::Last(response)
            } else {
                Reply::Message(response)
            }
        }
    }
}
