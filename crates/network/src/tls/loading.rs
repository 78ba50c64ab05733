//! Loads certificates, keys and revocation lists from the sources of a [`TlsConfig`].
//!
//! It reads files and may derive keys for seconds, so it must not run on the I/O thread.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

use super::encryption::Problem;
use super::keys::{self, KeyError};
use super::pkcs12::{self, Store, StorePasswords};
use super::source::{Content, Source};
use super::{Identity, KeyPassword, Pem, TlsConfig, pem};
use crate::error::ClientError;
use crate::sasl::{PasswordSource, Secret};

/// The maximum number of files in a folder of authorities. Systems have a few hundred.
const FOLDER_FILES_MAX: usize = 10_000;

/// Gets a password that the application supplies. The error completes a sentence that begins with
/// the name of the option.
pub type Ask<'a> = &'a mut dyn FnMut(&PasswordSource) -> Result<Secret, String>;

pub(super) struct Loader<'a> {
    pub(super) config: &'a TlsConfig,
    pub(super) ask: Ask<'a>,
}

/// An option for a password, with its name.
type Password<'a> = (&'static str, Option<&'a KeyPassword>);

impl Loader<'_> {
    /// Returns the authorities of `ssl_cafile`.
    pub(super) fn authorities(
        &mut self,
        ca: &Pem,
    ) -> Result<Vec<CertificateDer<'static>>, ClientError> {
        let source = Source {
            option: "ssl_cafile",
            pem: ca,
        };
        if let Pem::File(path) = ca
            && path.is_dir()
        {
            return folder(source, path);
        }
        let bytes = match source.read()? {
            Content::Pem(text) => return pem::certificates(source, &text),
            Content::Store(bytes) => bytes,
        };
        let option = "ssl_truststore_password";
        let password = self.password((option, self.config.ca_password.as_ref()))?;
        let password = password.as_ref().map(Secret::reveal);
        let passwords = StorePasswords {
            store: password.unwrap_or_default(),
            key: password.unwrap_or_default(),
        };
        let store = pkcs12::open(&bytes, passwords);
        let store = store.map_err(|problem| unopened(source, option, password, problem))?;
        let found = store.authorities();
        if found.is_empty() {
            return Err(source.refuse(&"contains no certificate of an authority"));
        }
        Ok(found)
    }

    /// Returns the revocation lists of `ssl_crlfile`.
    pub(super) fn revocation_lists(
        crl: &Pem,
    ) -> Result<Vec<CertificateRevocationListDer<'static>>, ClientError> {
        let source = Source {
            option: "ssl_crlfile",
            pem: crl,
        };
        match source.read()? {
            Content::Pem(text) => pem::revocation_lists(source, &text),
            Content::Store(_) => {
                Err(source.refuse(&"is a PKCS12 store, which cannot contain revocation lists"))
            }
        }
    }

    /// Returns the client's own certificates and key.
    pub(super) fn identity(&mut self) -> Result<Option<Identity>, ClientError> {
        let config = self.config;
        let (cert, key) = match (&config.cert, &config.key) {
            (None, None) => return Ok(None),
            (None, Some(_)) => {
                return Err(ClientError::Configuration(
                    "ssl_keyfile is set without ssl_certfile: set both".into(),
                ));
            }
            (Some(cert), key) => (cert, key.as_ref()),
        };
        let cert = Source {
            option: "ssl_certfile",
            pem: cert,
        };
        let Some(key) = key.filter(|key| *key != cert.pem) else {
            // Read once, because it may be a pipe.
            return match cert.read()? {
                Content::Pem(text) => {
                    let chain = pem::certificates(cert, &text)?;
                    Ok(Some((chain, self.private_key(cert, &text)?)))
                }
                Content::Store(bytes) => self.stored(cert, &bytes).map(Some),
            };
        };
        let key = Source {
            option: "ssl_keyfile",
            pem: key,
        };
        let chain = cert.read().and_then(|content| match content {
            Content::Pem(text) => pem::certificates(cert, &text),
            Content::Store(bytes) => self.stored(cert, &bytes).map(|(chain, _)| chain),
        });
        let key = key.read().and_then(|content| match content {
            Content::Pem(text) => self.private_key(key, &text),
            Content::Store(bytes) => self.stored(key, &bytes).map(|(_, key)| key),
        });
        match (chain, key) {
            (Ok(chain), Ok(key)) => Ok(Some((chain, key))),
            (chain, key) => Err(super::all([chain.err(), key.err()].into_iter().flatten())),
        }
    }

    fn private_key(
        &mut self,
        source: Source<'_>,
        text: &[u8],
    ) -> Result<PrivateKeyDer<'static>, ClientError> {
        let config = self.config;
        let (option, given) = match (&config.password, &config.store_password) {
            // Java, too, uses the password of the store if there is none of the key.
            (None, Some(store)) => ("ssl_keystore_password", Some(store)),
            (key, _) => ("ssl_password", key.as_ref()),
        };
        let password = if keys::is_encrypted(text) {
            self.password((option, given))?
        } else {
            None
        };
        let password = password.as_ref().map(Secret::reveal);
        keys::private_key(text, password).map_err(|error| match error {
            KeyError::NoPassword => source.refuse(&format_args!("{error}: set ssl_password")),
            KeyError::WrongPassword => source.refuse(&format_args!(
                "the password in {option} does not decrypt the private key. Correct {option}"
            )),
            other => source.refuse(&other),
        })
    }

    /// Returns what is in a PKCS#12 store.
    fn stored(&mut self, source: Source<'_>, bytes: &[u8]) -> Result<Identity, ClientError> {
        let own = self.password(("ssl_keystore_password", self.config.store_password.as_ref()))?;
        let key = self.password(("ssl_password", self.config.password.as_ref()))?;
        let option = if own.is_some() {
            "ssl_keystore_password"
        } else {
            "ssl_password"
        };
        let store = own.as_ref().or(key.as_ref()).map(Secret::reveal);
        let key = key.as_ref().or(own.as_ref()).map(Secret::reveal);
        let passwords = StorePasswords {
            store: store.unwrap_or_default(),
            key: key.unwrap_or_default(),
        };
        pkcs12::open(bytes, passwords)
            .map_err(|problem| unopened(source, option, store, problem))
            .and_then(|store: Store| store.identity().map_err(|text| source.refuse(&text)))
    }

    fn password(&mut self, (option, given): Password<'_>) -> Result<Option<Secret>, ClientError> {
        match given {
            None => Ok(None),
            Some(KeyPassword::Fixed(secret)) => Ok(Some(secret.clone())),
            Some(KeyPassword::Asked(source)) => match (self.ask)(source) {
                Ok(secret) => Ok(Some(secret)),
                Err(problem) => Err(super::refuse(option, &problem)),
            },
        }
    }
}

/// Returns the certificates in the files of a folder.
///
/// If files have the names that OpenSSL asks for (`c_rehash`), only these count, as for OpenSSL.
/// Otherwise all files count, and those without certificates are skipped.
fn folder(source: Source<'_>, path: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let entries = std::fs::read_dir(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut files: Vec<PathBuf> = entries
        .map_err(|error| source.refuse(&error))?
        .into_iter()
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    if files.len() > FOLDER_FILES_MAX {
        let problem = format_args!("has more than {FOLDER_FILES_MAX} files");
        return Err(source.refuse(&problem));
    }
    if files.iter().any(|file| is_hash_name(file)) {
        files.retain(|file| is_hash_name(file));
    }
    files.sort();
    // Links to the same file have their hash as name.
    let mut found = BTreeSet::new();
    for file in files {
        let pem = Pem::File(file);
        let source = Source {
            option: source.option,
            pem: &pem,
        };
        if let Ok(Content::Pem(text)) = source.read() {
            let certificates = pem::certificates_if_any(source, &text)?;
            found.extend(certificates.iter().map(|each| each.to_vec()));
        }
    }
    if found.is_empty() {
        return Err(source.refuse(&"is a folder without PEM certificates (BEGIN CERTIFICATE)"));
    }
    Ok(found.into_iter().map(CertificateDer::from).collect())
}

/// Whether the name is a hash with a number, as in `5ed36f99.0`.
fn is_hash_name(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.split_once('.'))
        .is_some_and(|(hash, number)| {
            hash.len() == 8
                && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
                && !number.is_empty()
                && number.bytes().all(|byte| byte.is_ascii_digit())
        })
}

/// Makes the error for a store that cannot be opened.
fn unopened(
    source: Source<'_>,
    option: &str,
    password: Option<&str>,
    problem: Problem,
) -> ClientError {
    match (problem, password) {
        (Problem::WrongPassword, None) => source.refuse(&format_args!(
            "the PKCS12 store is encrypted, and there is no password for it: set {option}"
        )),
        (Problem::WrongPassword, Some(_)) => source.refuse(&format_args!(
            "the PKCS12 store has another password than that in {option}, or is damaged"
        )),
        (Problem::Malformed, _) => source.refuse(
            &"the PKCS12 store cannot be read. Write it again with `openssl pkcs12` or `keytool`",
        ),
        (Problem::TooMuchWork, _) => source.refuse(
            &"the PKCS12 store needs too much work to derive its keys from the password. Write \
              it again with fewer iterations",
        ),
        (Problem::Unsupported(what), _) => source.refuse(&format_args!(
            "the PKCS12 store uses {what}, which is not supported. Write it again with \
             `openssl pkcs12` or `keytool`"
        )),
    }
}
