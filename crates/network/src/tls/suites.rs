//! The TLS versions, cipher suites and key exchanges that the client offers.

use rustls::SupportedCipherSuite;
use rustls::SupportedProtocolVersion;
use rustls::crypto::ring::{cipher_suite as suite, kx_group as kx};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::version::{TLS12, TLS13};

use super::refuse;
use crate::error::ClientError;

/// The cipher suites, by their IANA names. `thalweg._config.tls_rules` has the same names.
const SUITES: [(&str, SupportedCipherSuite); 9] = [
    ("TLS_AES_256_GCM_SHA384", suite::TLS13_AES_256_GCM_SHA384),
    ("TLS_AES_128_GCM_SHA256", suite::TLS13_AES_128_GCM_SHA256),
    (
        "TLS_CHACHA20_POLY1305_SHA256",
        suite::TLS13_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

const CURVES: [(&str, &dyn SupportedKxGroup); 3] = [
    ("X25519", kx::X25519),
    ("P-256", kx::SECP256R1),
    ("P-384", kx::SECP384R1),
];

const VERSIONS: [(&str, &SupportedProtocolVersion); 2] = [("TLSv1.3", &TLS13), ("TLSv1.2", &TLS12)];

/// What the client offers, by name and in this order. Empty means all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offer {
    /// `ssl_ciphers`, by IANA name.
    pub ciphers: Vec<String>,
    /// `ssl_curves_list`.
    pub curves: Vec<String>,
    /// `ssl_enabled_protocols`.
    pub protocols: Vec<String>,
}

impl Offer {
    /// Returns the provider with the suites and key exchanges.
    pub(super) fn provider(&self) -> Result<CryptoProvider, ClientError> {
        let mut provider = rustls::crypto::ring::default_provider();
        if !self.ciphers.is_empty() {
            provider.cipher_suites = chosen("ssl_ciphers", &self.ciphers, &SUITES)?;
        }
        if !self.curves.is_empty() {
            provider.kx_groups = chosen("ssl_curves_list", &self.curves, &CURVES)?;
        }
        Ok(provider)
    }

    pub(super) fn versions(&self) -> Result<Vec<&'static SupportedProtocolVersion>, ClientError> {
        if self.protocols.is_empty() {
            return Ok(VERSIONS.iter().map(|(_, version)| *version).collect());
        }
        chosen("ssl_enabled_protocols", &self.protocols, &VERSIONS)
    }

    /// Describes what the client offers, for an error.
    pub(super) fn describe(&self) -> String {
        let listed = |given: &[String], all: &[&str]| {
            if given.is_empty() {
                all.join(", ")
            } else {
                given.join(", ")
            }
        };
        let suites: Vec<&str> = SUITES.iter().map(|(name, _)| *name).collect();
        let curves: Vec<&str> = CURVES.iter().map(|(name, _)| *name).collect();
        let versions: Vec<&str> = VERSIONS.iter().map(|(name, _)| *name).collect();
        format!(
            "the client offers the versions {} (ssl_enabled_protocols), the cipher suites {} \
             (ssl_ciphers) and the curves {} (ssl_curves_list)",
            listed(&self.protocols, &versions),
            listed(&self.ciphers, &suites),
            listed(&self.curves, &curves),
        )
    }
}

fn chosen<T: Copy>(
    option: &str,
    names: &[String],
    table: &[(&str, T)],
) -> Result<Vec<T>, ClientError> {
    let choose = |name: &String| {
        let known = table.iter().find(|(known, _)| known == name);
        known.map(|(_, value)| *value).ok_or_else(|| {
            let known: Vec<&str> = table.iter().map(|(known, _)| *known).collect();
            refuse(
                option,
                &format_args!("{name} is not one of {}", known.join(", ")),
            )
        })
    };
    names.iter().map(choose).collect()
}
