//! Logins with AWS credentials: asks Python to sign each one, as [`tokens`](super::tokens) does.

use std::sync::Arc;

use pyo3::prelude::*;
use thalweg_network::sasl::{self, AwsLogins, AwsMskIamConfig, TokenError};

use crate::convert::options::Options;
use crate::convert::passwords::PasswordReply;
use crate::interpreter::foreign::Foreign;

/// Reads what signs the logins of `AWS_MSK_IAM`, if there is such a thing.
pub(crate) fn logins(options: &mut Options<'_>) -> PyResult<Option<AwsMskIamConfig>> {
    let source: Option<Py<PyAny>> = options.get("sasl_aws_credentials")?;
    Ok(source.map(|source| AwsMskIamConfig(Arc::new(PythonLogins(source)))))
}

/// A `thalweg.auth.aws.Logins`.
struct PythonLogins(Py<PyAny>);

impl AwsLogins for PythonLogins {
    fn request(&self, host: &str, reply: sasl::PasswordReply) {
        // Before the thread waits for the interpreter's lock. The last records may need a login.
        let Some(_foreign) = Foreign::begin_until_wait() else {
            let reason = "AWS cannot be asked for credentials, because the interpreter exits";
            return reply.send(Err(TokenError::new(reason, None)));
        };
        let reply = PasswordReply::new(reply);
        // After the end of the interpreter, the reply is dropped, which is an answer as well.
        Python::try_attach(|py| {
            let Ok(reply) = Bound::new(py, reply) else {
                return;
            };
            if let Err(error) = self.0.call_method1(py, "request", (&reply, host)) {
                let reason = format!("the login cannot be signed: {error}");
                reply.get().fail(&reason, error);
            }
        });
    }
}
