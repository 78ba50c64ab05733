//! The security of an [`EmbeddedBroker`]: users, ACLs, certificates and sessions.

use std::sync::Arc;

use ring::rand::SecureRandom as _;
use thalweg_security::acl::{ACLS_MAX, Acl};
use thalweg_security::oauthbearer::jwks::Jwks;
use thalweg_security::{SEED_BYTES, Secret};

use super::EmbeddedBroker;
use crate::options::ClientAuth;
use crate::security::users;
use crate::server::authority::Authority;
use crate::server::{Tls, lock};
use crate::{BrokerConfig, BrokerError, TlsFiles};

impl EmbeddedBroker {
    /// Adds a user of PLAIN and SCRAM, or changes the password of one.
    pub fn set_user(&self, user: &str, password: &Secret) -> Result<(), BrokerError> {
        self.check_open()?;
        check_user(user, password)?;
        let (mechanisms, salts) = lock(&self.core).security.for_deriving();
        // Without the lock, because this takes milliseconds.
        let derived = users::derive(user, password, &mechanisms, &salts);
        lock(&self.core).security.users.set(user, derived);
        Ok(())
    }

    /// Removes a user. Returns whether it existed. Its connections stay until their sessions end.
    pub fn remove_user(&self, user: &str) -> Result<bool, BrokerError> {
        self.check_open()?;
        Ok(lock(&self.core).security.users.remove(user))
    }

    /// Replaces the keys that verify tokens. Connections stay until their sessions end.
    pub fn set_jwks(&self, jwks: Jwks) -> Result<(), BrokerError> {
        self.check_open()?;
        lock(&self.core).security.jwks = Some(jwks);
        Ok(())
    }

    /// Creates an ACL. Fails without an authorizer.
    pub fn create_acl(&self, acl: Acl) -> Result<(), BrokerError> {
        self.check_open()?;
        let mut core = lock(&self.core);
        let Some(acls) = &mut core.acls else {
            let problem = "the broker has no authorizer: start it with authorizer=True";
            return Err(BrokerError::Config(problem.to_owned()));
        };
        if acls.create(acl) {
            return Ok(());
        }
        Err(BrokerError::Config(format!(
            "the broker keeps at most {ACLS_MAX} ACLs"
        )))
    }

    /// Returns the certificate of the authority that this broker has made, as PEM text.
    pub fn authority_pem(&self) -> Option<String> {
        self.authority.as_ref().map(Authority::pem)
    }

    /// Returns a certificate and its key for a client, as PEM texts. The user is `User:CN=name`.
    pub fn client_certificate(&self, name: &str) -> Result<(String, Secret), BrokerError> {
        let Some(authority) = &self.authority else {
            return Err(no_authority("client_certificate"));
        };
        let signed = authority.client(name)?;
        Ok((signed.certificate, Secret::new(signed.key)))
    }

    /// Refuses a client certificate from now on. Connections stay.
    pub fn revoke_certificate(&self, certificate: &str) -> Result<(), BrokerError> {
        self.check_open()?;
        let (Some(authority), Some(tls)) = (&self.authority, &self.tls) else {
            return Err(no_authority("revoke_certificate"));
        };
        let Some(list) = authority.revoke(certificate) else {
            let problem = "this broker has not made the certificate: use one of client_certificate";
            return Err(BrokerError::Config(problem.to_owned()));
        };
        tls.revoke(&list?)
    }

    /// Ends the sessions of all clients that have logged in. The next request of a connection
    /// closes it, unless the client logs in again.
    pub fn expire_sessions(&self) -> Result<(), BrokerError> {
        self.check_open()?;
        let mut core = lock(&self.core);
        if !core.security.protocol.has_sasl() {
            let problem = "expire_sessions: clients of this broker do not log in. Start it with \
                           security_protocol='SASL_PLAINTEXT' or 'SASL_SSL'";
            return Err(BrokerError::Config(problem.to_owned()));
        }
        core.expire_sessions();
        Ok(())
    }
}

fn no_authority(call: &str) -> BrokerError {
    BrokerError::Config(format!(
        "{call}: this broker has no authority of its own. Start it with security_protocol='SSL' \
         or 'SASL_SSL', and without ssl_certfile"
    ))
}

/// Returns what accepts connections with TLS, and the authority that the broker has made for it.
pub(super) fn tls_of(
    config: &BrokerConfig,
    advertised: &str,
    client_auth: ClientAuth,
) -> Result<(Option<Arc<Tls>>, Option<Authority>), BrokerError> {
    if !config.security.protocol.has_tls() {
        return Ok((None, None));
    }
    if let Some(files) = &config.security.tls {
        let tls = Tls::new(files.clone(), client_auth)?;
        return Ok((Some(Arc::new(tls)), None));
    }
    let authority = Authority::new()?;
    let mut hosts: Vec<String> = ["localhost", "127.0.0.1", "::1", &config.host, advertised]
        .map(|host| host.trim_matches(['[', ']']).to_owned())
        .into();
    hosts.sort_unstable();
    hosts.dedup();
    hosts.retain(|host| !host.is_empty());
    let signed = authority.broker(hosts)?;
    let files = TlsFiles {
        chain: signed.certificate,
        key: Secret::new(signed.key),
        client_authorities: Some(authority.pem()),
    };
    let tls = Tls::new(files, client_auth)?;
    Ok((Some(Arc::new(tls)), Some(authority)))
}

/// Refuses names and passwords with which no client could log in.
pub(super) fn check_user(user: &str, password: &Secret) -> Result<(), BrokerError> {
    let problem = if user.is_empty() {
        "the name of a user must not be empty".to_owned()
    } else if user.contains('\0') || password.reveal().contains('\0') {
        format!("the name or the password of user {user:?} contains a NUL character")
    } else if password.reveal().is_empty() {
        format!("the password of user {user:?} is empty")
    } else {
        return Ok(());
    };
    Err(BrokerError::Config(problem))
}

/// Returns bytes that an attacker cannot guess.
pub(super) fn random_bytes() -> Result<[u8; SEED_BYTES], BrokerError> {
    let mut bytes = [0; SEED_BYTES];
    let filled = ring::rand::SystemRandom::new().fill(&mut bytes);
    let problem = |_| BrokerError::Config("the system has no random bytes for nonces".to_owned());
    filled.map_err(problem).map(|()| bytes)
}
