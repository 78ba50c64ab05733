//! `AWS_MSK_IAM`: the mechanism of Amazon MSK, with AWS credentials (github.com/aws/aws-msk-iam-auth).
//!
//! ```text
//!   {"version":"2020_10_22","host":"b-1...","x-amz-signature":"..."} ─▶
//!                              ◀─ {"version":"2020_10_22","request-id":"..."}
//! ```
//! A signature is valid for one broker and for some minutes, so the client makes one for each
//! authentication. An [`AwsLogins`], which has the AWS credentials, makes the message.

use std::fmt;
use std::sync::Arc;

use tokio::sync::{Semaphore, oneshot};

use super::{PasswordReply, SaslError, Secret, Session, TokenError};

/// The version that both messages name.
const VERSION: &str = "2020_10_22";

/// Makes the messages that log in.
pub trait AwsLogins: Send + Sync {
    /// Starts to make the message for one broker. It may block for a moment, but it must not wait
    /// for AWS: it answers through `reply`, from any thread.
    fn request(&self, host: &str, reply: PasswordReply);
}

/// The options of `AWS_MSK_IAM`.
#[derive(Clone)]
pub struct AwsMskIamConfig(pub Arc<dyn AwsLogins>);

impl fmt::Debug for AwsMskIamConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AwsMskIamConfig")
    }
}

/// The number of calls at a time, however many connections log in. The others wait.
const CALLS_MAX: usize = 4;

/// Makes the messages of one client.
pub(crate) struct Logins {
    config: AwsMskIamConfig,
    calls: Semaphore,
}

impl Logins {
    pub(super) fn new(config: AwsMskIamConfig) -> Self {
        Self {
            config,
            calls: Semaphore::new(CALLS_MAX),
        }
    }
}

/// One exchange.
pub(super) struct AwsMskIam {
    message: Option<Secret>,
}

impl AwsMskIam {
    /// Waits for the message for a broker.
    pub(super) async fn start(logins: &Logins, host: &str) -> Result<Self, TokenError> {
        // An error would mean that the semaphore is closed, and it never is.
        let _call = logins.calls.acquire().await;
        let (reply, answer) = oneshot::channel();
        let (logins, host) = (Arc::clone(&logins.config.0), host.to_owned());
        // The call may have to wait for the interpreter's lock.
        tokio::task::spawn_blocking(move || logins.request(&host, PasswordReply::new(reply)));
        let dropped = |_| TokenError::new("nothing signed the login", None);
        let message = answer.await.map_err(dropped)??;
        Ok(Self {
            message: Some(message),
        })
    }
}

impl Session for AwsMskIam {
    fn step(&mut self, received: &[u8]) -> Result<Option<Vec<u8>>, SaslError> {
        if let Some(message) = self.message.take() {
            return Ok(Some(message.reveal().as_bytes().to_vec()));
        }
        match accepted(received) {
            Ok(()) => Ok(None),
            Err(problem) => Err(SaslError::ByClient(format!(
                "{problem}. Check that the address belongs to a broker of Amazon MSK"
            ))),
        }
    }
}

/// Checks the broker's response as Amazon's own client does.
fn accepted(received: &[u8]) -> Result<(), &'static str> {
    if received.is_empty() {
        return Err("the broker's response is empty");
    }
    let response: serde_json::Value =
        serde_json::from_slice(received).map_err(|_| "the broker's response is not JSON")?;
    if response.get("version").and_then(serde_json::Value::as_str) != Some(VERSION) {
        return Err("the broker's response does not have the version 2020_10_22");
    }
    if !response
        .get("request-id")
        .is_some_and(serde_json::Value::is_string)
    {
        return Err("the broker's response has no request-id");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Signs with "signed for" and the host.
    struct Signs;

    impl AwsLogins for Signs {
        fn request(&self, host: &str, reply: PasswordReply) {
            reply.send(Ok(Secret::new(format!("signed for {host}"))));
        }
    }

    /// Drops the reply.
    struct Drops;

    impl AwsLogins for Drops {
        fn request(&self, _host: &str, _reply: PasswordReply) {}
    }

    async fn session() -> AwsMskIam {
        let logins = Logins::new(AwsMskIamConfig(Arc::new(Signs)));
        AwsMskIam::start(&logins, "b-1").await.expect("a message")
    }

    #[tokio::test]
    async fn a_message_is_signed_for_its_broker() {
        let mut session = session().await;
        let sent = session.step(b"").expect("a step").expect("a message");
        assert_eq!(sent, b"signed for b-1");
        let response = br#"{"version":"2020_10_22","request-id":"1-2-3","more":[]}"#;
        assert_eq!(session.step(response), Ok(None));
    }

    #[tokio::test]
    async fn an_answer_that_is_no_confirmation_is_refused() {
        let cases: [(&[u8], &str); 7] = [
            (b"", "is empty"),
            (b"x", "is not JSON"),
            (b"{", "is not JSON"),
            (b"[]", "not have the version 2020_10_22"),
            (br#"{"version":"2020"}"#, "not have the version 2020_10_22"),
            (br#"{"version":"2020_10_22"}"#, "no request-id"),
            (
                br#"{"version":"2020_10_22","request-id":5}"#,
                "no request-id",
            ),
        ];
        for (response, words) in cases {
            let mut session = session().await;
            session.step(b"").expect("a message");
            match session.step(response) {
                Err(SaslError::ByClient(reason)) => assert!(reason.contains(words), "{reason}"),
                other => panic!("{other:?}"),
            }
        }
        let deep = vec![b'['; 100_000];
        assert_eq!(accepted(&deep), Err("the broker's response is not JSON"));
    }

    #[tokio::test]
    async fn a_dropped_reply_is_an_answer() {
        let logins = Logins::new(AwsMskIamConfig(Arc::new(Drops)));
        let error = AwsMskIam::start(&logins, "b-1")
            .await
            .err()
            .expect("no message");
        assert_eq!(error.reason, "nothing signed the login");
    }
}
