//! [`Principal`]: the user of a connection, as ACLs and log lines name it.

use std::fmt;
use std::sync::Arc;

/// A user. Kafka's own authorizer knows only principals of the type `User`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Principal(Arc<str>);

const TYPE: &str = "User:";

impl Principal {
    pub fn user(name: &str) -> Self {
        Self(format!("{TYPE}{name}").into())
    }

    /// Returns the user of connections that do not authenticate.
    pub fn anonymous() -> Self {
        Self::user("ANONYMOUS")
    }

    /// Returns the type and the name: `User:alice`.
    pub fn text(&self) -> &str {
        &self.0
    }

    pub fn name(&self) -> &str {
        &self.0[TYPE.len()..]
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
