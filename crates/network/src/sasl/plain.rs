//! PLAIN (RFC 4616). It sends user name and password in clear text, so use it only within TLS.

use super::{SaslError, Secret, Session};

pub(super) struct Plain {
    username: String,
    password: Secret,
    sent: bool,
}

impl Plain {
    pub(super) fn new(username: String, password: Secret) -> Self {
        Self {
            username,
            password,
            sent: false,
        }
    }
}

impl Session for Plain {
    fn step(&mut self, _received: &[u8]) -> Result<Option<Vec<u8>>, SaslError> {
        if self.sent {
            return Ok(None);
        }
        self.sent = true;
        let password = self.password.reveal();
        if self.username.contains('\0') || password.contains('\0') {
            let reason = "sasl_plain_username or sasl_plain_password contains a NUL character. \
                          Remove it";
            return Err(SaslError::ByClient(reason.to_owned()));
        }
        // No authorization id: the broker derives it from the user name.
        let message = [b"\0", self.username.as_bytes(), b"\0", password.as_bytes()].concat();
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sends_both_between_nuls() {
        let mut plain = Plain::new("alice".into(), Secret::new("s3cret"));
        assert_eq!(plain.step(b""), Ok(Some(b"\0alice\0s3cret".to_vec())));
        assert_eq!(plain.step(b""), Ok(None));
    }

    #[test]
    fn a_nul_is_refused_without_showing_the_secret() {
        let mut plain = Plain::new("alice".into(), Secret::new("s3\0cret"));
        let error = plain
            .step(b"")
            .expect_err("a NUL would end the password early");
        assert!(!format!("{error:?}").contains("cret"));
    }
}
