//! The messages of SCRAM (RFC 5802, section 7).
//!
//! Everything that a broker sends is bounded and checked before the client does any work for it.

use std::num::NonZeroU32;

use base64::prelude::{BASE64_STANDARD, Engine as _};

use crate::sasl::{SaslError, shown};

/// The limit on a message of a broker. It bounds the salt and the nonce too. Kafka's have about 150
/// bytes.
const MESSAGE_BYTES_MAX: usize = 4096;

/// RFC 7677, section 4. With fewer iterations, it would be cheap to guess the password from a proof.
const ITERATIONS_MIN: u32 = 4096;

/// The header of client-first: no channel binding, no authorization ID.
const GS2_HEADER: &str = "n,,";
/// `GS2_HEADER` in Base64.
const CHANNEL_BINDING: &str = "biws";

/// Attributes that RFC 5802 defines, so that no extension may have these names.
const RESERVED: [&str; 10] = ["a", "c", "e", "i", "m", "n", "p", "r", "s", "v"];

/// Returns client-first without its header.
pub(super) fn client_first_bare(
    username: &str,
    nonce: &str,
    tokenauth: bool,
) -> Result<String, SaslError> {
    if username.contains('\0') {
        return Err(refused(
            "sasl_plain_username contains a NUL character. Remove it",
        ));
    }
    // Equals signs first, because the escape of a comma contains one.
    let username = username.replace('=', "=3D").replace(',', "=2C");
    let extension = if tokenauth { ",tokenauth=true" } else { "" };
    Ok(format!("n={username},r={nonce}{extension}"))
}

pub(super) fn client_first(bare: &str) -> Vec<u8> {
    format!("{GS2_HEADER}{bare}").into_bytes()
}

pub(super) fn client_final_without_proof(nonce: &str) -> String {
    format!("c={CHANNEL_BINDING},r={nonce}")
}

pub(super) fn client_final(without_proof: &str, proof: &[u8]) -> Vec<u8> {
    format!("{without_proof},p={}", BASE64_STANDARD.encode(proof)).into_bytes()
}

/// A server-first message that passed all checks.
pub(super) struct ServerFirst<'a> {
    /// The complete message, which the signatures cover.
    pub(super) text: &'a str,
    /// The client's nonce, and what the broker added to it.
    pub(super) nonce: &'a str,
    pub(super) salt: Vec<u8>,
    pub(super) iterations: NonZeroU32,
}

impl<'a> ServerFirst<'a> {
    pub(super) fn parse(
        message: &'a [u8],
        client_nonce: &str,
        iterations_max: u32,
    ) -> Result<Self, SaslError> {
        let (text, attributes) = attributes(message)?;
        let &[
            ("r", nonce),
            ("s", salt),
            ("i", iterations),
            ref extensions @ ..,
        ] = &attributes[..]
        else {
            return Err(refused("the broker's first SCRAM message is malformed"));
        };
        check_extensions(extensions)?;
        let added = nonce.strip_prefix(client_nonce).unwrap_or_default();
        if added.is_empty() || !nonce.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(refused(
                "the broker's nonce does not extend the client's nonce. This may be a replay \
                 attack. Check that the address belongs to a broker that you trust",
            ));
        }
        let salt = decoded(salt, "salt")?;
        if salt.is_empty() {
            return Err(refused("the broker's salt is empty"));
        }
        Ok(Self {
            text,
            nonce,
            salt,
            iterations: iteration_count(iterations, iterations_max)?,
        })
    }
}

/// Returns the signature in server-final, or the error that the broker sent in its place.
pub(super) fn server_signature(message: &[u8]) -> Result<Vec<u8>, SaslError> {
    let (_, attributes) = attributes(message)?;
    let [("v", signature), extensions @ ..] = &attributes[..] else {
        return Err(refused("the broker's last SCRAM message is malformed"));
    };
    check_extensions(extensions)?;
    decoded(signature, "signature")
}

/// Names and values, in the order of the message.
type Attributes<'a> = Vec<(&'a str, &'a str)>;

/// Splits a message into its attributes. An error of the broker becomes ours.
fn attributes(message: &[u8]) -> Result<(&str, Attributes<'_>), SaslError> {
    if message.is_empty() {
        return Err(refused("the broker sent an empty SCRAM message"));
    }
    if message.len() > MESSAGE_BYTES_MAX {
        return Err(refused(&format!(
            "the broker sent a SCRAM message of {} bytes, which is more than {MESSAGE_BYTES_MAX}",
            message.len()
        )));
    }
    let malformed = || refused("the broker sent something that is not a SCRAM message");
    let text = str::from_utf8(message).map_err(|_| malformed())?;
    let attributes = text
        .split(',')
        .map(|attribute| attribute.split_once('=').filter(|(name, _)| is_name(name)))
        .collect::<Option<Vec<_>>>()
        .ok_or_else(malformed)?;
    let first = attributes[0];
    match first {
        ("e", reason) => Err(SaslError::ByBroker(shown(reason))),
        ("m", _) => Err(refused(
            "the broker requires an extension of SCRAM (m=) that this client does not have",
        )),
        _ => Ok((text, attributes)),
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Extensions have no meaning here, but they must not look like attributes that have one.
fn check_extensions(extensions: &[(&str, &str)]) -> Result<(), SaslError> {
    match extensions.iter().find(|(name, _)| RESERVED.contains(name)) {
        Some((name, _)) => Err(refused(&format!(
            "the broker's SCRAM message has the attribute {name}= where it is not allowed"
        ))),
        None => Ok(()),
    }
}

fn decoded(text: &str, what: &str) -> Result<Vec<u8>, SaslError> {
    let invalid = |_| refused(&format!("the broker's {what} is not valid Base64"));
    BASE64_STANDARD.decode(text).map_err(invalid)
}

/// Checks the number of iterations. The limit keeps a hostile broker from occupying a CPU.
fn iteration_count(text: &str, max: u32) -> Result<NonZeroU32, SaslError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(refused("the broker's number of iterations is not a number"));
    }
    // What does not fit is above every limit.
    let count = text.parse().unwrap_or(u32::MAX);
    if count > max {
        return Err(refused(&format!(
            "the broker requests {} iterations, more than sasl_scram_iterations_max ({max}). If you \
             trust the broker, raise this option",
            shown(text)
        )));
    }
    NonZeroU32::new(count)
        .filter(|count| count.get() >= ITERATIONS_MIN)
        .ok_or_else(|| {
            refused(&format!(
                "the broker requests {count} iterations, fewer than {ITERATIONS_MIN}: it is not a \
                 Kafka broker, or this is an attack"
            ))
        })
}

fn refused(reason: &str) -> SaslError {
    SaslError::ByClient(reason.to_owned())
}
