//! In place of `library.rs` on systems whose Kerberos library this crate does not use: macOS has its
//! own variant of the data structures, and Windows another interface (SSPI).

use super::explain::Failure;
use super::{Context, GssapiConfig, Provider, Service};

pub(super) enum Never {}

pub(super) fn provider(_config: &GssapiConfig) -> Result<Never, String> {
    Err(
        "sasl_mechanism GSSAPI works only on Linux and BSD so far. Use another mechanism here, such \
         as SCRAM-SHA-512"
            .to_owned(),
    )
}

impl Provider for Never {
    fn begin(&self, _service: &Service) -> Result<Box<dyn Context>, Failure> {
        match *self {}
    }
}
