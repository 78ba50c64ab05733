//! Parses bootstrap addresses: `host:port`, `host`, `[v6]:port`, and comma-separated lists of them.

use std::fmt;

use thiserror::Error;

/// The port of an address that names none.
const DEFAULT_PORT: u16 = 9092;

/// A broker's address as the user or a Metadata response gave it. The network crate resolves the
/// name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    pub host: String,
    pub port: u16,
}

/// Why a bootstrap address could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("bootstrap address {text:?}: {reason}")]
pub struct AddressError {
    pub text: String,
    pub reason: &'static str,
}

impl Address {
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
        }
    }

    /// Parses one address.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let refuse = |reason| AddressError {
            text: text.to_owned(),
            reason,
        };
        // People paste addresses from server.properties, with the listener's name in front.
        let trimmed = text.trim();
        let bare = trimmed.split_once("://").map_or(trimmed, |(_, rest)| rest);
        let (host, port) = if let Some(rest) = bare.strip_prefix('[') {
            let (host, after) = rest
                .split_once(']')
                .ok_or_else(|| refuse("the IPv6 address has no closing ']'"))?;
            match after {
                "" => (host, None),
                _ => (
                    host,
                    Some(
                        after
                            .strip_prefix(':')
                            .ok_or_else(|| refuse("expected ':port' after ']'"))?,
                    ),
                ),
            }
        } else {
            // More than one colon and no brackets: a bare IPv6 address.
            match bare.split_once(':') {
                Some((host, port)) if !port.contains(':') => (host, Some(port)),
                _ => (bare, None),
            }
        };
        if host.is_empty() || host.chars().any(char::is_whitespace) {
            return Err(refuse("the host name is empty or contains a space"));
        }
        let port = match port {
            None => DEFAULT_PORT,
            Some(digits) => match digits.parse::<u16>() {
                Ok(port) if port > 0 => port,
                _ => return Err(refuse("the port is not a number from 1 to 65535")),
            },
        };
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }

    /// Parses a comma-separated list. It skips empty items, and refuses a list without any address.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, AddressError> {
        let addresses = text
            .split(',')
            .filter(|item| !item.trim().is_empty())
            .map(Self::parse)
            .collect::<Result<Vec<_>, _>>()?;
        if addresses.is_empty() {
            return Err(AddressError {
                text: text.to_owned(),
                reason: "expected at least one 'host:port'",
            });
        }
        Ok(addresses)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> String {
        Address::parse(text).map_or_else(|error| error.reason.to_owned(), |a| a.to_string())
    }

    #[test]
    fn reads_names_numbers_and_ipv6() {
        assert_eq!(parsed("localhost"), "localhost:9092");
        assert_eq!(parsed(" broker-1.example:19092 "), "broker-1.example:19092");
        assert_eq!(parsed("[::1]:9093"), "[::1]:9093");
        assert_eq!(parsed("::1"), "[::1]:9092");
        assert_eq!(parsed("[fe80::1]"), "[fe80::1]:9092");
        assert_eq!(parsed("PLAINTEXT://h:1"), "h:1");
    }

    #[test]
    fn refuses_what_is_no_address() {
        for bad in [
            "", ":9092", "h:", "h:0", "h:65536", "h:x", "[::1", "[::1]x", "a b:1",
        ] {
            assert!(Address::parse(bad).is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn reads_lists() {
        let list = Address::parse_list("a:1, b:2,,c").expect("three good items");
        assert_eq!(
            list.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["a:1", "b:2", "c:9092"]
        );
        assert!(Address::parse_list(" , ").is_err());
    }
}
