//! In place of `library/` on systems whose Kerberos library the client does not use: macOS packs
//! the data structures in another way, and Windows has another interface (SSPI).

use super::{GssapiConfig, Provider};

pub(super) fn load() -> Result<(), String> {
    Err(
        "sasl_mechanism GSSAPI works only on Linux and BSD so far. Use another mechanism here, \
         such as SCRAM-SHA-512"
            .to_owned(),
    )
}

pub(super) fn provider(_config: &GssapiConfig) -> Result<Box<dyn Provider>, String> {
    Err("there is no Kerberos library".to_owned())
}
