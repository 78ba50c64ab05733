//! PLAIN (RFC 4616). It sends user name and password in clear text, so use it only within TLS.

use super::{Mechanism, Secret};

pub(super) struct Plain {
    username: String,
    password: Secret,
}

impl Plain {
    pub(super) fn new(username: String, password: Secret) -> Self {
        Self { username, password }
    }
}

impl Mechanism for Plain {
    fn name(&self) -> &'static str {
        "PLAIN"
    }

    fn first(&mut self) -> Result<Vec<u8>, String> {
        let password = self.password.reveal();
        if self.username.contains('\0') || password.contains('\0') {
            return Err("the user name or the password contains a NUL character".to_owned());
        }
        // No authorization id: the broker derives it from the user name.
        Ok([b"\0", self.username.as_bytes(), b"\0", password.as_bytes()].concat())
    }

    fn next(&mut self, _challenge: &[u8]) -> Result<Option<Vec<u8>>, String> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sends_both_between_nuls() {
        let mut plain = Plain::new("alice".into(), Secret::new("s3cret"));
        assert_eq!(plain.first(), Ok(b"\0alice\0s3cret".to_vec()));
        assert_eq!(plain.next(b""), Ok(None));
    }

    #[test]
    fn a_nul_is_refused_without_showing_the_secret() {
        let mut plain = Plain::new("alice".into(), Secret::new("s3\0cret"));
        let error = plain
            .first()
            .expect_err("a NUL would end the password early");
        assert!(!error.contains("cret"));
    }

    #[test]
    fn debug_hides_the_password() {
        let config = super::super::SaslConfig::Plain {
            username: "alice".into(),
            password: Secret::new("s3cret"),
        };
        assert!(!format!("{config:?}").contains("s3cret"));
    }
}
