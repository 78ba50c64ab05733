//! Reads the file or the text of an option, and finds out what it is from its contents.
//!
//! | begins with | is |
//! |---|---|
//! | `30` (DER) | a PKCS#12 store, if the structure fits |
//! | `FEEDFEED`, `CECECECE` | a Java key store, which the client refuses |
//! | anything else | PEM, perhaps with text before it |

use std::fmt;
use std::io::Read as _;

use super::{Pem, pkcs12, refuse};
use crate::error::ClientError;

/// The largest file. The certificates of a whole system have less than 1 MiB.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// An option with its file or text.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) option: &'static str,
    pub(super) pem: &'a Pem,
}

/// What an option contains.
pub(super) enum Content {
    Pem(Vec<u8>),
    /// A PKCS#12 store.
    Store(Vec<u8>),
}

impl Source<'_> {
    pub(super) fn read(&self) -> Result<Content, ClientError> {
        let bytes = self.bytes()?;
        if pkcs12::is_store(&bytes) {
            return Ok(Content::Store(bytes));
        }
        match bytes.get(..4) {
            Some([0xfe, 0xed, 0xfe, 0xed] | [0xce, 0xce, 0xce, 0xce]) => Err(self.refuse(
                &"is a Java key store (JKS or JCEKS), which only Java can read. Convert it with \
                  `keytool -importkeystore -srckeystore old.jks -destkeystore new.p12 \
                  -deststoretype PKCS12`",
            )),
            Some([0x30, second, ..]) if *second >= 0x80 => Err(self.refuse(
                &"is in DER, and is not a PKCS12 store. Convert it to PEM, for example with \
                  `openssl x509 -inform DER -in old.der -out new.pem`",
            )),
            _ => Ok(Content::Pem(bytes)),
        }
    }

    fn bytes(&self) -> Result<Vec<u8>, ClientError> {
        let path = match self.pem {
            Pem::Inline(text) => return Ok(text.clone().into_bytes()),
            Pem::File(path) => path,
        };
        let mut bytes = Vec::new();
        std::fs::File::open(path)
            .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
            .map_err(|error| self.refuse(&error))?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(self.refuse(&"is larger than 16 MiB, which no file of certificates is"));
        }
        Ok(bytes)
    }

    /// Makes the error for this option. It names the file if there is one.
    pub(super) fn refuse(&self, problem: &dyn fmt::Display) -> ClientError {
        match self.pem {
            Pem::Inline(_) => refuse(self.option, problem),
            Pem::File(path) if is_blob(&path.to_string_lossy()) => {
                let problem =
                    "is neither the path of a file nor PEM text, which has BEGIN and END lines";
                refuse(self.option, &problem)
            }
            Pem::File(path) => refuse(self.option, &format_args!("{}: {problem}", path.display())),
        }
    }
}

/// Whether this is probably a key or certificate without its BEGIN and END lines, and not a path.
/// It may be secret, so it must not be shown. `thalweg._config.formats.pem` has the same rule.
fn is_blob(text: &str) -> bool {
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=_-".contains(byte);
    let is_key = |run: &[u8]| {
        let count = |kind: fn(&u8) -> bool| run.iter().filter(|byte| kind(byte)).count();
        run.len() >= 40
            && count(u8::is_ascii_uppercase) >= 6
            && count(u8::is_ascii_lowercase) >= 6
            && count(u8::is_ascii_digit) >= 1
    };
    let mut runs = text.as_bytes().split(|byte| !is_base64(byte));
    text.contains(['\n', '\r']) || runs.any(is_key)
}
