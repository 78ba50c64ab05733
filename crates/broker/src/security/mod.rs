//! Who may connect: the protocol of the listeners, the users, and the state of each connection.
//!
//! ```text
//! SecurityConfig ─▶ Security (one for all nodes) ─▶ Authentication (one for each connection)
//! ```
//! The machines of the mechanisms are in the crate `thalweg-security`. The handlers of
//! `SaslHandshake` and `SaslAuthenticate` carry their messages.

pub(crate) mod authentication;
mod config;
mod exchange;
mod principal;
pub(crate) mod tokens;
pub(crate) mod users;

use thalweg_security::oauthbearer::jwks::{Expected, Jwks};
use thalweg_security::{Nonces, Salts};

pub use config::{SaslMechanism, SecurityConfig, SecurityProtocol, TlsFiles};
pub use principal::Principal;

use crate::options::BrokerOptions;
use tokens::Tokens;
use users::Users;

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Security {
    pub(crate) protocol: SecurityProtocol,
    /// In the order in which the broker names them.
    pub(crate) mechanisms: Vec<SaslMechanism>,
    pub(crate) users: Users,
    pub(crate) tokens: Tokens,
    /// The keys of signed tokens, and what is in them.
    pub(crate) jwks: Option<Jwks>,
    pub(crate) expected_claims: Expected,
    pub(crate) salts: Salts,
    pub(crate) nonces: Nonces,
    /// Counts how often `expire_sessions` has ended all sessions.
    pub(crate) era: u64,
}

impl Security {
    /// Derives the keys of all users, which takes milliseconds for each.
    pub(crate) fn new(config: &SecurityConfig, options: &BrokerOptions) -> Self {
        let salts = Salts::new(&config.seed);
        let mut users = Users::new(&salts);
        for (user, password) in &config.users {
            users.set(
                user,
                users::derive(user, password, &config.mechanisms, &salts),
            );
        }
        Self {
            protocol: config.protocol,
            mechanisms: config.mechanisms.clone(),
            users,
            tokens: Tokens::new(&options.tokens),
            jwks: config.jwks.clone(),
            expected_claims: options.expected_claims(),
            nonces: Nonces::new(salts.clone()),
            salts,
            era: 0,
        }
    }

    /// Returns what [`users::derive`] needs.
    pub(crate) fn for_deriving(&self) -> (Vec<SaslMechanism>, Salts) {
        (self.mechanisms.clone(), self.salts.clone())
    }
}
