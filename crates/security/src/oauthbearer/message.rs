//! The client's first message (RFC 7628, section 3.1).

use crate::{Refusal, Secret};

/// The limit on the message. Clients of this project send up to the same size.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// The limit on the number of extensions.
const EXTENSIONS_MAX: usize = 100;

/// The token and its extensions. The token is not checked yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFirst {
    pub token: Secret,
    /// Names and values (KIP-342).
    pub extensions: Vec<(String, String)>,
    /// Empty: the user of the token.
    authorization_id: String,
}

impl ClientFirst {
    pub fn parse(message: &[u8]) -> Result<Self, Refusal> {
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(malformed());
        }
        let text = str::from_utf8(message).map_err(|_| malformed())?;
        let rest = text.strip_prefix("n,").ok_or_else(malformed)?;
        let (authorization, rest) = rest.split_once(',').ok_or_else(malformed)?;
        let authorization_id = match authorization.strip_prefix("a=") {
            Some(id) => id,
            None if authorization.is_empty() => "",
            None => return Err(malformed()),
        };
        let pairs = rest.strip_prefix('\x01').ok_or_else(malformed)?;
        let pairs = pairs.strip_suffix("\x01\x01").ok_or_else(malformed)?;
        let mut token = None;
        let mut extensions: Vec<(String, String)> = Vec::new();
        for pair in pairs.split('\x01') {
            let (name, value) = pair.split_once('=').ok_or_else(malformed)?;
            let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphabetic());
            if !is_name || !value.bytes().all(is_in_value) {
                return Err(malformed());
            }
            if name == "auth" {
                let bearer = value.split_once(' ').filter(|(scheme, bearer)| {
                    scheme.eq_ignore_ascii_case("bearer") && is_token(bearer)
                });
                let (_, bearer) = bearer.ok_or_else(malformed)?;
                if token.replace(Secret::new(bearer)).is_some() {
                    return Err(malformed());
                }
            } else if extensions.len() == EXTENSIONS_MAX {
                return Err(malformed());
            } else {
                extensions.push((name.to_owned(), value.to_owned()));
            }
        }
        Ok(Self {
            token: token.ok_or_else(malformed)?,
            extensions,
            authorization_id: authorization_id.to_owned(),
        })
    }

    /// Refuses an authorization ID that is not the user of the token.
    pub fn check_authorization(&self, principal: &str) -> Result<(), Refusal> {
        if self.authorization_id.is_empty() || self.authorization_id == principal {
            return Ok(());
        }
        Err(Refusal::new(
            "Authentication failed: Client requested an authorization id that is different from \
             the token's principal name",
        ))
    }
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

fn malformed() -> Refusal {
    Refusal::new("Invalid OAUTHBEARER client first message")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(message: &str) -> bool {
        ClientFirst::parse(message.as_bytes()).is_err()
    }

    #[test]
    fn token_and_extensions_are_read() {
        let message = b"n,a=alice,\x01auth=Bearer a.b-c\x01traceId=1 2\x01\x01";
        let first = ClientFirst::parse(message).expect("well formed");
        assert_eq!(first.token.reveal(), "a.b-c");
        assert_eq!(first.extensions, [("traceId".to_owned(), "1 2".to_owned())]);
        first.check_authorization("alice").expect("the same");
        first.check_authorization("bob").expect_err("another one");
        assert!(!format!("{first:?}").contains("a.b-c"));
    }

    #[test]
    fn malformed_messages_are_refused() {
        for message in [
            "",
            "n,,",
            "n,,\x01\x01",
            "y,,\x01auth=Bearer t\x01\x01",
            "n,b=x,\x01auth=Bearer t\x01\x01",
            "n,,\x01auth=Basic t\x01\x01",
            "n,,\x01auth=Bearer \x01\x01",
            "n,,\x01auth=Bearer a b\x01\x01",
            "n,,\x01auth=Bearer t\x01",
            "n,,\x01auth=Bearer t\x01auth=Bearer u\x01\x01",
            "n,,\x01x=1\x01\x01",
            "n,,\x01auth=Bearer t\x01x1=1\x01\x01",
            "n,,\x01auth=Bearer t\x01x=\u{e9}\x01\x01",
        ] {
            assert!(is_refused(message), "{message:?}");
        }
        let many = "x=1\x01".repeat(EXTENSIONS_MAX + 1);
        assert!(is_refused(&format!("n,,\x01auth=Bearer t\x01{many}\x01")));
        let long = "t".repeat(MESSAGE_BYTES_MAX);
        assert!(is_refused(&format!("n,,\x01auth=Bearer {long}\x01\x01")));
    }
}
