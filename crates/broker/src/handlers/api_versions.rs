//! `ApiVersions` // key 18
//!
//! Also reports the finalized features that clients rely on (KIP-584): here `transaction.version`
//! (KIP-890).

use thalweg_protocol::ErrorCode;
use thalweg_protocol::messages::api_versions::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};

use crate::options::TRANSACTION_VERSION_MAX;
use crate::requests::api::{self, ApiCall};
use crate::requests::context::Context;
use crate::requests::response::{Outcome, ReplyTo};
use crate::requests::subject::Subject;

/// The features never change, because no client can finalize others at run time.
const FEATURES_EPOCH: i64 = 0;
const TRANSACTION_VERSION: &str = "transaction.version";

impl Subject for ApiVersionsRequest {}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: ApiVersionsRequest,
) -> ApiVersionsResponse {
    let api_keys = api::announced(context.core);
    match context.refusal() {
        Some(code) => refusal(code, api_keys),
        None if context.version >= 3 && !names_its_software(&request) => {
            refusal(ErrorCode::INVALID_REQUEST, Vec::new())
        }
        None => ApiVersionsResponse {
            api_keys,
            supported_features: supported_features(context.version),
            finalized_features_epoch: FEATURES_EPOCH,
            finalized_features: finalized_features(context.core.options.transaction_version),
            ..ApiVersionsResponse::default()
        },
    }
}

/// Omits a feature that may be at 0 before version 4, because such clients fail on it.
fn supported_features(version: i16) -> Vec<SupportedFeatureKey> {
    let transactions = SupportedFeatureKey {
        name: TRANSACTION_VERSION.into(),
        min_version: 0,
        max_version: TRANSACTION_VERSION_MAX,
    };
    if version >= 4 {
        vec![transactions]
    } else {
        Vec::new()
    }
}

/// A feature at level 0 is not finalized.
fn finalized_features(level: i16) -> Vec<FinalizedFeatureKey> {
    let transactions = FinalizedFeatureKey {
        name: TRANSACTION_VERSION.into(),
        max_version_level: level,
        min_version_level: level,
    };
    if level > 0 {
        vec![transactions]
    } else {
        Vec::new()
    }
}

/// Responds to an unknown version with version 0 of the response, which lists the supported
/// versions (KIP-511).
pub(crate) fn unsupported_version(call: ApiCall<'_>) -> Outcome {
    let response = refusal(ErrorCode::UNSUPPORTED_VERSION, api::announced(call.core));
    let reply_to = ReplyTo {
        version: 0,
        ..call.reply_to
    };
    reply_to.message(&response, call.now)
}

fn refusal(code: ErrorCode, api_keys: Vec<ApiVersion>) -> ApiVersionsResponse {
    ApiVersionsResponse {
        error_code: code.0,
        api_keys,
        ..ApiVersionsResponse::default()
    }
}

/// Checks name and version against Kafka's pattern `[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?`.
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
