//! `ApiVersions` // key 18
//!
//! The finalized features are what a client goes by (`transaction.version`, KIP-890): none yet.

use thalweg_protocol::ErrorCode;
use thalweg_protocol::messages::api_versions::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse,
};

use crate::answer::{Outcome, ReplyTo};
use crate::api::{self, Call};
use crate::context::Context;
use crate::subject::Subject;

/// Features that never change: nobody finalizes others at run time.
const FEATURES_EPOCH: i64 = 0;

impl Subject for ApiVersionsRequest {}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: ApiVersionsRequest,
) -> ApiVersionsResponse {
    let api_keys = api::announced(context.core);
    match context.injected() {
        Some(code) => refusal(code, api_keys),
        None if context.version >= 3 && !names_its_software(&request) => {
            refusal(ErrorCode::INVALID_REQUEST, Vec::new())
        }
        None => ApiVersionsResponse {
            api_keys,
            finalized_features_epoch: FEATURES_EPOCH,
            ..ApiVersionsResponse::default()
        },
    }
}

/// KIP-511: a version that is not known gets version 0 of the answer, with what is known.
pub(crate) fn unsupported_version(call: Call<'_>) -> Outcome {
    let answer = refusal(ErrorCode::UNSUPPORTED_VERSION, api::announced(call.core));
    let reply_to = ReplyTo {
        version: 0,
        ..call.reply_to
    };
    reply_to.message(&answer, call.now)
}

fn refusal(code: ErrorCode, api_keys: Vec<ApiVersion>) -> ApiVersionsResponse {
    ApiVersionsResponse {
        error_code: code.0,
        api_keys,
        ..ApiVersionsResponse::default()
    }
}

/// Kafka's pattern `[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?` for name and version.
fn names_its_software(request: &ApiVersionsRequest) -> bool {
    [
        &request.client_software_name,
        &request.client_software_version,
    ]
    .iter()
    .all(|text| {
        let bytes = text.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        ends.iter()
            .all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
            && bytes
                .iter()
                .all(|b| b.is_ascii_alphanumeric() || b"-.".contains(b))
    })
}
