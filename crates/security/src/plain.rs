//! PLAIN (RFC 4616), the broker's side.
//!
//! ```text
//!   authzid NUL user NUL password ─▶ parse ─▶ Login ─▶ Passwords::accepts
//! ```

use std::collections::BTreeMap;
use std::fmt;

use ring::hmac;

use crate::{Refusal, SEED_BYTES, Secret};

/// What a client has sent. The password is not checked yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    pub user: String,
    pub password: Secret,
}

/// Returns Kafka's refusal for an unknown user and for a wrong password.
pub fn wrong_password() -> Refusal {
    Refusal::new("Authentication failed: Invalid username or password")
}

/// Reads a client's message. The words of the refusals are Kafka's.
pub fn parse(message: &[u8]) -> Result<Login, Refusal> {
    let text = str::from_utf8(message).map_err(|_| {
        Refusal::new("Authentication failed: the SASL/PLAIN message is not valid UTF-8")
    })?;
    let tokens: Vec<&str> = text.splitn(4, '\0').collect();
    let &[authorization_id, user, password] = &tokens[..] else {
        let count = text.split('\0').count();
        return Err(Refusal::new(format!(
            "Invalid SASL/PLAIN response: expected 3 tokens, got {count}"
        )));
    };
    if user.is_empty() {
        return Err(Refusal::new(
            "Authentication failed: username not specified",
        ));
    }
    if password.is_empty() {
        return Err(Refusal::new(
            "Authentication failed: password not specified",
        ));
    }
    if !authorization_id.is_empty() && authorization_id != user {
        return Err(Refusal::new(
            "Authentication failed: Client requested an authorization id that is different from \
             username",
        ));
    }
    Ok(Login {
        user: user.to_owned(),
        password: Secret::new(password),
    })
}

/// The passwords of users. Only keyed hashes are kept, so that the passwords themselves are not in
/// memory.
pub struct Passwords {
    key: hmac::Key,
    tags: BTreeMap<String, hmac::Tag>,
    /// Compared for users that do not exist, so that they take the same time.
    nobody: hmac::Tag,
}

impl Passwords {
    /// The seed must come from the system's source of random bytes.
    pub fn new(seed: &[u8; SEED_BYTES]) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, seed);
        Self {
            nobody: hmac::sign(&key, seed),
            tags: BTreeMap::new(),
            key,
        }
    }

    /// Adds a user, or changes the password of one.
    pub fn set(&mut self, user: &str, password: &Secret) {
        let tag = hmac::sign(&self.key, password.reveal().as_bytes());
        self.tags.insert(user.to_owned(), tag);
    }

    /// Removes a user. Returns whether it existed.
    pub fn remove(&mut self, user: &str) -> bool {
        self.tags.remove(user).is_some()
    }

    /// Whether the user exists and has this password. The duration reveals neither.
    pub fn accepts(&self, login: &Login) -> bool {
        let known = self.tags.get(&login.user);
        let tag = known.unwrap_or(&self.nobody);
        let password = login.password.reveal().as_bytes();
        let is_equal = hmac::verify(&self.key, password, tag.as_ref()).is_ok();
        is_equal & known.is_some()
    }
}

impl fmt::Debug for Passwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passwords")
            .field("users", &self.tags.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passwords() -> Passwords {
        let mut passwords = Passwords::new(&[7; 32]);
        passwords.set("alice", &Secret::new("s3cret"));
        passwords
    }

    fn accepts(message: &[u8]) -> bool {
        passwords().accepts(&parse(message).expect("well formed"))
    }

    fn words(message: &[u8]) -> String {
        parse(message).expect_err("refused").words().to_owned()
    }

    #[test]
    fn only_the_users_password_is_accepted() {
        assert!(accepts(b"\0alice\0s3cret"));
        // aiokafka sends the user name as the authorization ID, too.
        assert!(accepts(b"alice\0alice\0s3cret"));
        for wrong in [
            "\0alice\0s3cre",
            "\0alice\0s3cret ",
            "\0bob\0s3cret",
            "\0Alice\0s3cret",
        ] {
            assert!(!accepts(wrong.as_bytes()), "{wrong:?}");
        }
    }

    #[test]
    fn a_user_without_a_password_does_not_exist() {
        let mut passwords = passwords();
        assert!(passwords.remove("alice"));
        assert!(!passwords.remove("alice"));
        let login = parse(b"\0alice\0s3cret").expect("well formed");
        assert!(!passwords.accepts(&login));
    }

    #[test]
    fn malformed_messages_are_refused_in_kafkas_words() {
        assert!(words(b"").ends_with("expected 3 tokens, got 1"));
        assert!(words(b"\0alice\0a\0b\0c").ends_with("expected 3 tokens, got 5"));
        assert!(words(b"\0\0s3cret").ends_with("username not specified"));
        assert!(words(b"\0alice\0").ends_with("password not specified"));
        assert!(words(b"bob\0alice\0s3cret").contains("different from username"));
        assert!(words(b"\0alice\0\xff").contains("UTF-8"));
    }

    #[test]
    fn debug_hides_passwords() {
        let login = parse(b"\0alice\0s3cret").expect("well formed");
        let shown = format!("{login:?} {:?}", passwords());
        assert!(
            shown.contains("alice") && !shown.contains("s3cret"),
            "{shown}"
        );
    }
}
