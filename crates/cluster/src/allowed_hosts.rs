//! Which hosts the client may connect to, of those that brokers advertise.
//!
//! Metadata and other responses name the addresses of brokers, and a client connects to whatever
//! they name. Without TLS, an attacker who has taken over a broker can make the client open
//! connections to other services of its network.

use core::net::IpAddr;
use std::fmt;

/// Patterns of host names: `*` stands for any characters, and case does not matter. A pattern of an
/// address matches only addresses: `10.0.*` does not match the name `10.0.example.com`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedHosts(Vec<String>);

impl AllowedHosts {
    pub fn new<T: AsRef<str>>(patterns: impl IntoIterator<Item = T>) -> Self {
        let lower = patterns.into_iter().map(|each| comparable(each.as_ref()));
        Self(lower.collect())
    }

    /// Whether one of the patterns matches the whole name.
    pub fn contains(&self, host: &str) -> bool {
        let host = comparable(host);
        let is_address = host.parse::<IpAddr>().is_ok();
        self.0
            .iter()
            .any(|pattern| (is_address || !is_of_addresses(pattern)) && matches(pattern, &host))
    }
}

impl fmt::Display for AllowedHosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

/// Returns a name in the form in which names are compared: the dot at its end means nothing.
fn comparable(name: &str) -> String {
    let name = name.trim();
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Whether a pattern has the form of an address. Names of hosts have no colon.
fn is_of_addresses(pattern: &str) -> bool {
    let is_v4 = || {
        pattern.contains(|char: char| char.is_ascii_digit())
            && pattern
                .chars()
                .all(|char| matches!(char, '0'..='9' | '.' | '*'))
    };
    pattern.contains(':') || is_v4()
}

fn matches(pattern: &str, host: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == host;
    };
    let Some(mut left) = host.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        // The earliest match leaves the most for the parts that follow.
        let Some(at) = left.find(part) else {
            return false;
        };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::AllowedHosts;

    fn allows(pattern: &str, host: &str) -> bool {
        AllowedHosts::new([pattern]).contains(host)
    }

    #[test]
    fn a_pattern_matches_the_whole_name() {
        assert!(allows("*.example.com", "b1.example.com"));
        assert!(allows("*.Example.com", "B1.eXample.COM."));
        assert!(allows("b*-*.example.com", "b1-use1-az2.example.com"));
        assert!(allows("10.0.*", "10.0.3.4"));
        assert!(allows("2001:db8:*", "2001:DB8::7"));
        assert!(allows("*", "any") && allows("*", "10.0.3.4"));
        assert!(allows("a*a", "aba"));
        for wrong in [
            "example.com",
            "b1.example.com.attacker.net",
            "b1.example.org",
            "b1-example.com",
        ] {
            assert!(!allows("*.example.com", wrong), "{wrong}");
        }
        assert!(!allows("a*a", "a"), "a character cannot match twice");
        assert!(!allows("10.0.*", "110.0.3.4"));
        assert!(!allows("b1", "b10"));
    }

    #[test]
    fn a_pattern_of_an_address_matches_no_name() {
        assert!(!allows("10.0.*", "10.0.attacker.example"));
        assert!(!allows("1*", "1.attacker.example"));
        assert!(!allows("*.4", "attacker.4"));
        assert!(!allows("2001:db8:*", "2001:db8:attacker.example"));
        assert!(allows("b1*", "b1.example"), "a pattern of names");
    }

    #[test]
    fn one_of_several_patterns_is_enough_and_none_allows_nothing() {
        let hosts = AllowedHosts::new(["b1", "*.example.com"]);
        assert!(hosts.contains("b1") && hosts.contains("x.example.com") && !hosts.contains("b2"));
        assert_eq!(hosts.to_string(), "b1, *.example.com");
        assert!(!AllowedHosts::new::<&str>([]).contains("b1"));
    }
}
