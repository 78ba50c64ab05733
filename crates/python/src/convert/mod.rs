//! Conversions between Python objects and the types of the crates.
//!
//! ```text
//! options.rs    resolved options from Python. settings.rs: the crates' configurations from them
//! tokens.rs     tokens for OAUTHBEARER, from the provider of the application
//! passwords.rs  passwords, from the options or a function of the application
//! kerberos.rs   the options of GSSAPI, and whether there is a Kerberos library
//! tls.rs        certificates and keys, read from their files before a client starts
//! values.rs     dicts <-> requests and responses by name
//! types.rs      the classes of `thalweg.structs`
//! errors.rs     the only error map
//! sink.rs       drained records as objects. records.rs: `ConsumerRecord`
//! tables.rs     drained records as columns. capsules.rs: Arrow's C structs
//! ```

pub(crate) mod aws;
pub(crate) mod capsules;
pub(crate) mod errors;
pub(crate) mod kerberos;
pub(crate) mod options;
pub(crate) mod passwords;
pub(crate) mod records;
pub(crate) mod settings;
pub(crate) mod signing;
pub(crate) mod sink;
pub(crate) mod tables;
pub(crate) mod tls;
pub(crate) mod tokens;
pub(crate) mod types;
pub(crate) mod values;
