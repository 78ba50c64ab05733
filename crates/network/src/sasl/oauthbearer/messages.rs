//! The messages of OAUTHBEARER (RFC 7628, section 3).
//!
//! The client checks a token and its extensions before it sends them: a control character inside
//! would add attributes to the message.

use std::fmt;

use crate::sasl::shown;

use super::token::Token;

/// The limit on the message. Kafka's brokers accept 512 KiB.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// The limit on the broker's reason. Kafka's have about 30 bytes.
const REFUSAL_BYTES_MAX: usize = 16 << 10;

/// Ends an exchange after a refusal.
pub(super) const END: &[u8] = b"\x01";

/// The header of the message: no channel binding, no authorization ID.
const GS2_HEADER: &str = "n,,";
const BEARER: &str = "\x01auth=Bearer ";

/// Returns why a token cannot be sent. The text does not contain it.
pub(super) fn problem(token: &Token) -> Option<String> {
    let value = token.value.reveal();
    if value.is_empty() {
        return Some("the token is empty".to_owned());
    }
    if !is_token(value) {
        return Some(
            "the token contains a character that a bearer token cannot have, such as a space"
                .to_owned(),
        );
    }
    for (name, value) in &token.extensions {
        let name_shown = shown(name);
        if name == "auth" || name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphabetic()) {
            return Some(format!(
                "the extension {name_shown:?} has an invalid name: only letters are allowed, and not \
                 'auth'"
            ));
        }
        if !value.bytes().all(is_in_value) {
            return Some(format!(
                "the value of the extension {name_shown:?} contains a character that is not allowed: \
                 only visible ASCII characters, spaces and line breaks are"
            ));
        }
    }
    let length = length(token);
    (length > MESSAGE_BYTES_MAX).then(|| {
        format!("the token and its extensions have {length} bytes, more than {MESSAGE_BYTES_MAX}")
    })
}

/// Returns the client's first message. The token must have no [`problem`].
pub(in crate::sasl) fn client_first(token: &Token) -> Vec<u8> {
    // A buffer that grows would leave copies of the token in freed memory.
    let mut message = String::with_capacity(length(token));
    message.extend([GS2_HEADER, BEARER, token.value.reveal(), "\x01"]);
    for (name, value) in &token.extensions {
        message.extend([name.as_str(), "=", value.as_str(), "\x01"]);
    }
    message.push('\x01');
    message.into_bytes()
}

/// Returns the length of [`client_first`].
fn length(token: &Token) -> usize {
    let pairs = token.extensions.iter();
    let extensions: usize = pairs
        .map(|(name, value)| name.len() + value.len() + 2)
        .sum();
    GS2_HEADER.len() + BEARER.len() + token.value.reveal().len() + 1 + extensions + 1
}

/// RFC 6750, section 2.1.
fn is_token(value: &str) -> bool {
    let body = value.trim_end_matches('=');
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b"-._~+/".contains(&b);
    !body.is_empty() && body.bytes().all(is_allowed)
}

fn is_in_value(byte: u8) -> bool {
    byte.is_ascii_graphic() || b" \t\r\n".contains(&byte)
}

/// Why a broker refuses a token, in its own words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: String,
    scope: Option<String>,
    openid_configuration: Option<String>,
}

impl Refusal {
    /// Reads the broker's JSON. Whatever the broker sends instead is a refusal, too.
    pub(super) fn parse(message: &[u8]) -> Self {
        let unreadable = |what: &str| Self {
            status: format!("{what} of {} bytes", message.len()),
            scope: None,
            openid_configuration: None,
        };
        if message.len() > REFUSAL_BYTES_MAX {
            return unreadable("a reason");
        }
        let Ok(serde_json::Value::Object(fields)) = serde_json::from_slice(message) else {
            return unreadable("a reason that is not JSON,");
        };
        let field = |name: &str| Some(shown(fields.get(name)?.as_str()?));
        let Some(status) = field("status") else {
            return unreadable("a reason without a status,");
        };
        Self {
            status,
            scope: field("scope"),
            openid_configuration: field("openid-configuration"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.status)?;
        if let Some(scope) = &self.scope {
            write!(f, ", it requires the scope {scope}")?;
        }
        if let Some(place) = &self.openid_configuration {
            write!(f, ", its OpenID configuration is {place}")?;
        }
        Ok(())
    }
}
