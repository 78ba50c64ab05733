//! The security of the embedded broker: users, ACLs, certificates and sessions.

use std::collections::BTreeMap;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use thalweg_broker::{SaslMechanism, SecurityConfig, SecurityProtocol, TlsFiles};
use thalweg_security::Secret;
use thalweg_security::acl::{
    Acl, Operation, PatternType, Permission, ResourceType, canonical_host,
};
use thalweg_security::oauthbearer::jwks::Jwks;

use super::state::Shared;

/// The users, ACLs, certificates and sessions of an embedded broker.
#[pyclass(frozen, module = "thalweg._core")]
pub(crate) struct BrokerSecurity(pub(super) Arc<Shared>);

#[pymethods]
impl BrokerSecurity {
    /// Adds a user, or changes its password. Raises `KafkaConfigurationError` if the name or the
    /// password is not valid.
    fn set_user(&self, py: Python<'_>, user: &str, password: &str) -> PyResult<()> {
        let password = Secret::new(password);
        self.0.ask(py, |core| core.set_user(user, &password))
    }

    /// Removes a user. Returns whether it existed.
    fn remove_user(&self, py: Python<'_>, user: &str) -> PyResult<bool> {
        self.0.ask(py, |core| core.remove_user(user))
    }

    /// Replaces the keys that verify tokens. Raises `ValueError` if it is not a JSON Web Key Set.
    fn set_jwks(&self, py: Python<'_>, jwks: &str) -> PyResult<()> {
        let jwks = parsed(jwks)?;
        self.0.ask(py, |core| core.set_jwks(jwks))
    }

    /// Creates an ACL with Kafka's words in upper case. Raises `ValueError` for an unknown word.
    ///
    /// Raises `KafkaConfigurationError` without an authorizer.
    #[allow(clippy::too_many_arguments)]
    fn create_acl(
        &self,
        py: Python<'_>,
        resource_type: &str,
        pattern_type: &str,
        name: String,
        principal: String,
        host: String,
        operation: &str,
        permission: &str,
    ) -> PyResult<()> {
        let host = canonical_host(&host).ok_or_else(|| {
            let problem =
                format!("host must be an IP address, or '*' for every host, got {host:?}");
            PyValueError::new_err(problem)
        })?;
        let unknown = |word: &str| PyValueError::new_err(format!("unknown word {word:?}"));
        let acl = Acl {
            resource_type: ResourceType::from_name(resource_type)
                .ok_or_else(|| unknown(resource_type))?,
            pattern_type: PatternType::from_name(pattern_type)
                .ok_or_else(|| unknown(pattern_type))?,
            name,
            principal,
            host,
            operation: Operation::from_name(operation).ok_or_else(|| unknown(operation))?,
            permission: Permission::from_name(permission).ok_or_else(|| unknown(permission))?,
        };
        self.0.ask(py, |core| core.create_acl(acl))
    }

    /// Returns the certificate of the broker's own authority, or None if it has none.
    fn authority_pem(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.0.ask(py, |core| Ok(core.authority_pem()))
    }

    /// Returns a certificate and its key. Raises `KafkaConfigurationError` without an authority.
    fn client_certificate(&self, py: Python<'_>, name: &str) -> PyResult<(String, String)> {
        let (certificate, key) = self.0.ask(py, |core| core.client_certificate(name))?;
        Ok((certificate, key.reveal().to_owned()))
    }

    /// Refuses a client certificate from now on.
    ///
    /// Raises `KafkaConfigurationError` if the broker has not created it, or does not check
    /// certificates.
    fn revoke_certificate(&self, py: Python<'_>, certificate: &str) -> PyResult<()> {
        self.0.ask(py, |core| core.revoke_certificate(certificate))
    }

    /// Ends all SASL sessions. Raises `KafkaConfigurationError` without SASL.
    fn expire_sessions(&self, py: Python<'_>) -> PyResult<()> {
        self.0
            .ask(py, thalweg_broker::EmbeddedBroker::expire_sessions)
    }
}

/// Converts the arguments about security.
pub(super) fn config(
    protocol: &str,
    mechanisms: Option<Vec<String>>,
    users: Option<BTreeMap<String, String>>,
    tls: Option<(String, String, Option<String>)>,
    jwks: Option<&str>,
) -> PyResult<SecurityConfig> {
    let unknown = |what: &str, name: &str| {
        PyValueError::new_err(format!("the embedded broker has no {what} named {name:?}"))
    };
    let mut config = SecurityConfig {
        protocol: SecurityProtocol::from_name(protocol)
            .ok_or_else(|| unknown("security protocol", protocol))?,
        ..SecurityConfig::default()
    };
    if let Some(names) = mechanisms {
        let known = |name: &String| {
            SaslMechanism::from_name(name).ok_or_else(|| unknown("SASL mechanism", name))
        };
        config.mechanisms = names.iter().map(known).collect::<PyResult<_>>()?;
    }
    config.tls = tls.map(|(chain, key, client_authorities)| TlsFiles {
        chain,
        key: Secret::new(key),
        client_authorities,
    });
    config.jwks = jwks.map(parsed).transpose()?;
    let users = users.unwrap_or_default().into_iter();
    config.users = users
        .map(|(user, password)| (user, Secret::new(password)))
        .collect();
    Ok(config)
}

fn parsed(jwks: &str) -> PyResult<Jwks> {
    Jwks::parse(jwks).map_err(|words| PyValueError::new_err(format!("jwks {words}")))
}
