//! [`Users`]: the users of PLAIN, SCRAM and `AWS_MSK_IAM`.
//!
//! As in Kafka, `AlterUserScramCredentials` changes only the credentials of SCRAM, and they belong
//! to one mechanism each. Only the program that runs the broker changes the passwords of PLAIN.

use std::collections::BTreeMap;

use thalweg_security::aws;
use thalweg_security::plain::{Login, Passwords};
use thalweg_security::scram::{Credential, ScramHash};
use thalweg_security::{Salts, Secret};

use super::SaslMechanism;

/// Creating more than this is refused, because anyone who may connect may create users.
pub(crate) const CREDENTIALS_MAX: usize = 100_000;

#[derive(Debug)]
pub(crate) struct Users {
    passwords: Passwords,
    credentials: BTreeMap<String, BTreeMap<ScramHash, Credential>>,
    credentials_count: usize,
    /// The passwords themselves, with which clients sign. Only if the broker has `AWS_MSK_IAM`.
    secret_keys: BTreeMap<String, Secret>,
}

/// What a password becomes. The password itself is kept only for signatures.
pub(crate) struct Derived<'a> {
    password: &'a Secret,
    is_secret_key: bool,
    credentials: Vec<(ScramHash, Credential)>,
}

/// Derives the keys of a user for the mechanisms. This takes milliseconds, so it must not happen
/// while the broker is locked.
pub(crate) fn derive<'a>(
    user: &str,
    password: &'a Secret,
    mechanisms: &[SaslMechanism],
    salts: &Salts,
) -> Derived<'a> {
    let credentials = mechanisms.iter().filter_map(|mechanism| match mechanism {
        SaslMechanism::Scram(hash) => {
            Some((*hash, Credential::derive(*hash, user, password, salts)))
        }
        SaslMechanism::Plain | SaslMechanism::OAuthBearer | SaslMechanism::AwsMskIam => None,
    });
    Derived {
        password,
        is_secret_key: mechanisms.contains(&SaslMechanism::AwsMskIam),
        credentials: credentials.collect(),
    }
}

impl Users {
    pub(crate) fn new(salts: &Salts) -> Self {
        Self {
            passwords: Passwords::new(&salts.of("passwords", b"")),
            credentials: BTreeMap::new(),
            credentials_count: 0,
            secret_keys: BTreeMap::new(),
        }
    }

    /// Adds a user, or changes the password of one, for all mechanisms.
    pub(crate) fn set(&mut self, user: &str, derived: Derived<'_>) {
        self.passwords.set(user, derived.password);
        if derived.is_secret_key {
            let secret_key = derived.password.clone();
            self.secret_keys.insert(user.to_owned(), secret_key);
        }
        for (hash, credential) in derived.credentials {
            self.set_credential(user, hash, credential);
        }
    }

    /// Whether there is room for `count` more credentials.
    pub(crate) fn has_room_for(&self, count: usize) -> bool {
        self.credentials_count.saturating_add(count) <= CREDENTIALS_MAX
    }

    pub(crate) fn set_credential(&mut self, user: &str, hash: ScramHash, credential: Credential) {
        let of_user = self.credentials.entry(user.to_owned()).or_default();
        if of_user.insert(hash, credential).is_none() {
            self.credentials_count += 1;
        }
    }

    /// Removes a credential. Returns whether it existed.
    pub(crate) fn remove_credential(&mut self, user: &str, hash: ScramHash) -> bool {
        let Some(of_user) = self.credentials.get_mut(user) else {
            return false;
        };
        let existed = of_user.remove(&hash).is_some();
        self.credentials_count -= usize::from(existed);
        if of_user.is_empty() {
            self.credentials.remove(user);
        }
        existed
    }

    /// Removes a user from all mechanisms. Returns whether it existed.
    pub(crate) fn remove(&mut self, user: &str) -> bool {
        let of_user = self.credentials.remove(user).unwrap_or_default();
        self.credentials_count -= of_user.len();
        self.secret_keys.remove(user);
        self.passwords.remove(user) | !of_user.is_empty()
    }

    pub(crate) fn accepts(&self, login: &Login) -> bool {
        self.passwords.accepts(login)
    }

    /// Whether the user exists, and has signed this login. The duration reveals neither.
    pub(crate) fn have_signed(&self, login: &aws::Login, now_ms: i64) -> bool {
        let known = self.secret_keys.get(login.access_key());
        let nobody = Secret::new("");
        login.is_signed_with(known.unwrap_or(&nobody), now_ms) & known.is_some()
    }

    pub(crate) fn credential(&self, user: &str, hash: ScramHash) -> Option<&Credential> {
        self.credentials.get(user)?.get(&hash)
    }

    /// Returns the mechanisms and numbers of iterations of a user. `None`: it has no credential.
    pub(crate) fn described(&self, user: &str) -> Option<Vec<(ScramHash, u32)>> {
        let of_user = self.credentials.get(user)?.iter();
        Some(
            of_user
                .map(|(hash, credential)| (*hash, credential.iterations()))
                .collect(),
        )
    }

    /// Returns the names of all users with credentials.
    pub(crate) fn with_credentials(&self) -> impl Iterator<Item = &str> {
        self.credentials.keys().map(String::as_str)
    }
}
