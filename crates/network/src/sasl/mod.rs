//! SASL mechanisms: what the client says in `SaslAuthenticate`, and which brokers it accepts.
//!
//! ```text
//!   SaslConfig ─▶ Mechanism (one per client) ─▶ Session (one per connection) ─▶ step, step, ...
//! ```
//! Nothing here does I/O. `connection/authentication.rs` carries the messages. A new mechanism is a
//! variant of [`SaslConfig`] and of `Mechanism`, and a `Session`.

mod aws;
#[cfg(test)]
mod both_sides;
pub(crate) mod fuzzing;
mod gssapi;
mod oauthbearer;
mod password;
mod plain;
mod scram;
mod signing;

use std::sync::{Arc, Mutex};

use thalweg_cluster::SetupStep;
use tokio::sync::Semaphore;

use crate::clock::WallClock;
use aws::{AwsMskIam, Logins};
use gssapi::Kerberos;
use oauthbearer::{OAuthBearer, Tokens};
use password::{Passwords, locked};
use plain::Plain;
use scram::{Credentials, Scram};

pub use aws::{AwsLogins, AwsMskIamConfig};
pub use gssapi::GssapiConfig;
pub use oauthbearer::{
    OAuthBearerConfig, RefreshConfig, Token, TokenError, TokenProvider, TokenReply,
};
pub use password::{PasswordProvider, PasswordReply, PasswordSource};
pub use scram::{ScramConfig, ScramHash};
pub use signing::{JwtAlgorithm, SigningError, sign_jwt};
pub use thalweg_security::Secret;

/// The longest text of a broker, or name of a user, that becomes part of an error.
const SHOWN_CHARS_MAX: usize = 1000;

/// The options of a mechanism, with its credentials.
#[derive(Debug, Clone)]
pub enum SaslConfig {
    Plain { username: String, password: Secret },
    Scram(ScramConfig),
    OAuthBearer(OAuthBearerConfig),
    AwsMskIam(AwsMskIamConfig),
    Gssapi(GssapiConfig),
}

/// A mechanism with its credentials. All connections of a client share it.
pub(crate) enum Mechanism {
    Plain {
        /// The user name and the password.
        login: Mutex<(String, Secret)>,
        passwords: Passwords,
    },
    Scram {
        credentials: Mutex<Arc<Credentials>>,
        passwords: Passwords,
    },
    OAuthBearer {
        tokens: Arc<Tokens>,
        wall_clock: WallClock,
    },
    AwsMskIam(Logins),
    Gssapi(Arc<Kerberos>),
}

impl Mechanism {
    /// `source` supplies the passwords, if they are not in the configuration. The error says what
    /// this system lacks.
    pub(crate) fn new(
        config: &SaslConfig,
        source: Option<PasswordSource>,
        client_id: Option<&str>,
        wall_clock: WallClock,
    ) -> Result<Self, String> {
        let passwords = Passwords::new(source);
        Ok(match config.clone() {
            SaslConfig::Plain { username, password } => Self::Plain {
                login: Mutex::new((username, password)),
                passwords,
            },
            SaslConfig::Scram(config) => Self::Scram {
                credentials: Mutex::new(Arc::new(Credentials::new(config))),
                passwords,
            },
            SaslConfig::OAuthBearer(config) => {
                let tokens = Arc::new(Tokens::new(config, client_id, wall_clock));
                Self::OAuthBearer { tokens, wall_clock }
            }
            SaslConfig::AwsMskIam(config) => Self::AwsMskIam(Logins::new(config)),
            SaslConfig::Gssapi(config) => Self::Gssapi(Arc::new(Kerberos::new(config)?)),
        })
    }

    /// Returns the name for `SaslHandshake`.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Plain { .. } => "PLAIN",
            Self::Scram { credentials, .. } => locked(credentials).config.hash.mechanism(),
            Self::OAuthBearer { .. } => "OAUTHBEARER",
            Self::AwsMskIam(_) => "AWS_MSK_IAM",
            Self::Gssapi(_) => "GSSAPI",
        }
    }

    /// Returns the name of the user, for errors. A token may have one, but need not.
    pub(crate) fn username(&self) -> Option<String> {
        match self {
            Self::Plain { login, .. } => Some(locked(login).0.clone()),
            Self::Scram { credentials, .. } => Some(locked(credentials).config.username.clone()),
            Self::OAuthBearer { .. } | Self::AwsMskIam(_) => None,
            Self::Gssapi(kerberos) => kerberos.principal(),
        }
    }

    /// Changes the credentials for the next authentication. Returns whether the mechanism has a
    /// user name and a password.
    pub(crate) fn set_credentials(&self, username: String, password: Secret) -> bool {
        match self {
            Self::Plain { login, passwords } => {
                passwords.replace(|| *locked(login) = (username, password));
            }
            Self::Scram {
                credentials,
                passwords,
            } => {
                passwords.replace(|| {
                    let mut credentials = locked(credentials);
                    *credentials = Arc::new(credentials.with(username, password));
                });
            }
            Self::OAuthBearer { .. } | Self::AwsMskIam(_) | Self::Gssapi(_) => return false,
        }
        true
    }

    /// Returns what to check if a broker refuses the credentials.
    pub(crate) fn advice(&self) -> String {
        let options = "Check sasl_plain_username and sasl_plain_password";
        match self {
            Self::Plain { login, .. } => {
                let (username, password) = &*locked(login);
                format!("{options}{}", space_around(username, password))
            }
            Self::Scram { credentials, .. } if locked(credentials).config.tokenauth => {
                "Check that the delegation token has not expired, and that the brokers know it"
                    .to_owned()
            }
            Self::Scram { credentials, .. } => {
                let config = &locked(credentials).config;
                let (name, space) = (
                    config.hash.mechanism(),
                    space_around(&config.username, &config.password),
                );
                format!(
                    "{options}, and that the user has a credential for {name} on the brokers{space}"
                )
            }
            Self::OAuthBearer { .. } => {
                "Check the token (of sasl_oauth_token_provider or of the token endpoint) against what \
                 the brokers expect: its issuer, audience, expiry and signature"
                    .to_owned()
            }
            Self::AwsMskIam(_) => {
                "Check the AWS credentials, their permission kafka-cluster:Connect for this \
                 cluster, the region (sasl_aws_region), and this machine's clock"
                    .to_owned()
            }
            Self::Gssapi(_) => {
                "Check that the broker has the current key of its principal, this machine's clock, \
                 and the broker's log"
                    .to_owned()
            }
        }
    }

    /// Returns what [`Self::start`] waits for, if the application supplies the credentials.
    pub(crate) fn awaits(&self) -> Option<SetupStep> {
        match self {
            Self::Plain { passwords, .. } | Self::Scram { passwords, .. } => {
                passwords.are_asked_for().then_some(SetupStep::Password)
            }
            Self::OAuthBearer { .. } => Some(SetupStep::Token),
            Self::AwsMskIam(_) => Some(SetupStep::AwsLogin),
            // Its first step waits.
            Self::Gssapi(_) => None,
        }
    }

    /// Starts an exchange for one connection. `host` is the broker as the client knows it.
    pub(crate) async fn start(&self, host: &str) -> Result<Box<dyn Session>, SaslError> {
        let session: Box<dyn Session> = match self {
            Self::Plain { login, passwords } => {
                if let Some(password) = passwords.ask().await.map_err(SaslError::NoToken)? {
                    passwords.if_asked_for(|| locked(login).1 = password);
                }
                let (username, password) = locked(login).clone();
                Box::new(Plain::new(username, password))
            }
            Self::Scram {
                credentials,
                passwords,
            } => {
                if let Some(password) = passwords.ask().await.map_err(SaslError::NoToken)? {
                    passwords.if_asked_for(|| {
                        let mut credentials = locked(credentials);
                        // The same password keeps the keys that were derived from it.
                        if credentials.config.password != password {
                            let username = credentials.config.username.clone();
                            *credentials = Arc::new(credentials.with(username, password));
                        }
                    });
                }
                let credentials = Arc::clone(&locked(credentials));
                Box::new(Scram::new(credentials, scram::nonce()?))
            }
            Self::OAuthBearer { tokens, wall_clock } => {
                let session = OAuthBearer::start(tokens, *wall_clock).await;
                Box::new(session.map_err(SaslError::NoToken)?)
            }
            Self::AwsMskIam(logins) => {
                let session = AwsMskIam::start(logins, host).await;
                Box::new(session.map_err(SaslError::NoToken)?)
            }
            Self::Gssapi(kerberos) => Box::new(kerberos.start(host)),
        };
        Ok(session)
    }
}

/// One exchange on one connection. The client sends the first message.
pub(crate) trait Session: Send {
    /// Handles the broker's message and returns the client's next message. `None` means that the
    /// exchange has succeeded. The first call gets an empty message, because the client begins.
    fn step(&mut self, received: &[u8]) -> Result<Option<Vec<u8>>, SaslError>;

    /// Whether the next step may take milliseconds. Then it must not run on the I/O thread.
    fn is_slow(&self) -> bool {
        false
    }

    /// Returns the permits for slow steps, if only some of them may run at a time.
    fn turns(&self) -> Option<Arc<Semaphore>> {
        None
    }

    /// Returns what the next step waits for, if that is not the broker.
    fn awaits(&self) -> Option<SetupStep> {
        None
    }

    /// Whether the broker has refused the credentials within the exchange.
    fn is_refused(&self) -> bool {
        false
    }

    /// Takes note that the broker has refused the credentials.
    fn refused(&mut self) -> Refused {
        Refused::default()
    }
}

/// What a session knows about its refusal.
#[derive(Default)]
pub(crate) struct Refused {
    /// The reason, if the broker gave it within the exchange.
    pub(crate) words: Option<String>,
    /// Whether another exchange, with new credentials, may succeed at once.
    pub(crate) try_again: bool,
}

/// Why an exchange failed. It never contains a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SaslError {
    /// The broker refused the client, in its own words.
    ByBroker(String),
    /// The client refused the broker, or cannot send its credentials.
    ByClient(String),
    /// The token provider has no token.
    NoToken(TokenError),
}

/// Makes a foreign text fit for an error message: cuts it, and escapes control characters.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::new();
    for (index, char) in text.chars().enumerate() {
        if index == SHOWN_CHARS_MAX {
            shown.push_str("...");
            break;
        }
        if char.is_control() {
            shown.extend(char.escape_default());
        } else {
            shown.push(char);
        }
    }
    shown
}

/// Returns what to add to advice. A password from a file often ends with the line break of the file.
fn space_around(username: &str, password: &Secret) -> &'static str {
    let has_space = |text: &str| text.trim().len() != text.len();
    match (has_space(username), has_space(password.reveal())) {
        (_, true) => ". The password begins or ends with a space or a line break",
        (true, false) => ". The user name begins or ends with a space or a line break",
        (false, false) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_texts_are_cut_and_cannot_forge_lines_of_a_log() {
        assert_eq!(shown("no\nsuch\u{1b}[1m user"), "no\\nsuch\\u{1b}[1m user");
        assert_eq!(shown(&"x".repeat(SHOWN_CHARS_MAX)).len(), SHOWN_CHARS_MAX);
        let cut = shown(&"x".repeat(1_000_000));
        assert_eq!(cut.len(), SHOWN_CHARS_MAX + "...".len());
    }

    #[test]
    fn advice_mentions_a_space_that_nobody_sees() {
        let advice = |username: &str, password: &str| {
            let (username, password) = (username.to_owned(), Secret::new(password));
            let scram = ScramConfig::new(ScramHash::Sha256, &username, password.clone());
            let plain = SaslConfig::Plain { username, password };
            [plain, SaslConfig::Scram(scram)].map(|config| {
                Mechanism::new(&config, None, None, WallClock::default())
                    .expect("this system lacks nothing")
                    .advice()
            })
        };
        for text in advice("alice", "s3cret\n") {
            assert!(text.ends_with("The password begins or ends with a space or a line break"));
        }
        for text in advice(" alice", "s3cret") {
            assert!(text.ends_with("The user name begins or ends with a space or a line break"));
        }
        for text in advice("alice", "s3 cret") {
            assert!(!text.contains("space"));
        }
    }

    #[test]
    fn debug_hides_passwords() {
        let plain = SaslConfig::Plain {
            username: "alice".into(),
            password: Secret::new("s3cret"),
        };
        let scram = SaslConfig::Scram(ScramConfig::new(
            ScramHash::Sha256,
            "alice",
            Secret::new("s3cret"),
        ));
        assert!(!format!("{plain:?} {scram:?}").contains("s3cret"));
    }
}
