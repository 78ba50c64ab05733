//! [`SecurityConfig`]: how clients must connect and who they may be.

use std::collections::BTreeMap;

use thalweg_security::aws;
use thalweg_security::oauthbearer::jwks::Jwks;
use thalweg_security::scram::ScramHash;
use thalweg_security::{SEED_BYTES, Secret};

/// Kafka's `security.protocol` of a listener.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SecurityProtocol {
    #[default]
    Plaintext,
    Ssl,
    SaslPlaintext,
    SaslSsl,
}

impl SecurityProtocol {
    pub const ALL: [Self; 4] = [
        Self::Plaintext,
        Self::Ssl,
        Self::SaslPlaintext,
        Self::SaslSsl,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "PLAINTEXT",
            Self::Ssl => "SSL",
            Self::SaslPlaintext => "SASL_PLAINTEXT",
            Self::SaslSsl => "SASL_SSL",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|protocol| protocol.name() == name)
    }

    /// Whether clients must log in with SASL.
    pub fn has_sasl(self) -> bool {
        matches!(self, Self::SaslPlaintext | Self::SaslSsl)
    }

    pub fn has_tls(self) -> bool {
        matches!(self, Self::Ssl | Self::SaslSsl)
    }
}

/// A mechanism of SASL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaslMechanism {
    Plain,
    Scram(ScramHash),
    /// With tokens without a signature, unless there are keys for signatures.
    OAuthBearer,
    /// With the name of a user as the ID of an access key, and its password as the secret key.
    AwsMskIam,
}

impl SaslMechanism {
    pub const ALL: [Self; 5] = [
        Self::Plain,
        Self::Scram(ScramHash::Sha256),
        Self::Scram(ScramHash::Sha512),
        Self::OAuthBearer,
        Self::AwsMskIam,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::Scram(hash) => hash.mechanism(),
            Self::OAuthBearer => "OAUTHBEARER",
            Self::AwsMskIam => aws::MECHANISM,
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|mechanism| mechanism.name() == name)
    }
}

/// The certificates of the listeners, as PEM texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of the broker, and those between it and the authority.
    pub chain: String,
    pub key: Secret,
    /// The authorities of clients. `None`: `ssl.client.auth` must be `none`.
    pub client_authorities: Option<String>,
}

/// The security of all listeners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecurityConfig {
    pub protocol: SecurityProtocol,
    /// The mechanisms that clients may use. Without SASL, they have no effect.
    pub mechanisms: Vec<SaslMechanism>,
    /// The users of PLAIN, SCRAM and `AWS_MSK_IAM`, with their passwords.
    pub users: BTreeMap<String, Secret>,
    /// `None` with TLS: an authority that the broker makes for itself signs its certificate.
    pub tls: Option<TlsFiles>,
    /// The keys of the tokens of OAUTHBEARER. `None`: tokens have no signature.
    pub jwks: Option<Jwks>,
    /// All nonces and salts follow from it, so it must be secret. The default is for tests only.
    pub seed: [u8; SEED_BYTES],
}

impl Default for SecurityConfig {
    fn default() -> Self {
        Self {
            protocol: SecurityProtocol::default(),
            // Without OAUTHBEARER, with which everybody could log in as any user.
            mechanisms: SaslMechanism::ALL[..3].to_vec(),
            users: BTreeMap::new(),
            tls: None,
            jwks: None,
            seed: [0; SEED_BYTES],
        }
    }
}
