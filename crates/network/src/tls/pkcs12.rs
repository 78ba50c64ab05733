//! Reads PKCS#12 stores (RFC 7292): those of keytool, old and new, and of OpenSSL 1 and 3.
//!
//! ```text
//! PFX ── AuthenticatedSafe ── SafeContents, perhaps encrypted ── bags: keys, certificates
//!  └──── MAC over all of it
//! ```
//! The crates that read such stores depend on unfinished versions of others, and pull in three
//! times as many crates. Limits on the work and the depth are easier to see here, too.

use std::collections::BTreeSet;

use ring::{digest, hmac};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::certificate::Certificate;
use super::der::{Der, tag};
use super::encryption::{Problem, Work, decrypt};
use super::keys;
use super::pkcs12_kdf::{Purpose, derive};

/// Bags may contain bags. No known tool makes such stores, but the format allows them.
const DEPTH_MAX: usize = 4;

mod oid {
    pub(super) const DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 1];
    pub(super) const ENCRYPTED_DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 6];
    /// The kinds of bags have this prefix and one more byte.
    pub(super) const BAG: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 12, 10, 1];
    pub(super) const X509: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 22, 1];
    pub(super) const LOCAL_KEY_ID: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 21];
    /// Java's mark of an authority.
    pub(super) const TRUSTED: &[u8] = &[
        0x60, 0x86, 0x48, 1, 0x86, 0xf9, 0x66, 0xad, 0xca, 0x7b, 1, 1,
    ];
    pub(super) const SHA1: &[u8] = &[0x2b, 14, 3, 2, 26];
    pub(super) const SHA256: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1];
    pub(super) const SHA384: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 2];
    pub(super) const SHA512: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 3];
}

/// What a store contains.
#[derive(Default)]
pub(super) struct Store {
    keys: Vec<(PrivateKeyDer<'static>, Option<Vec<u8>>)>,
    certificates: Vec<Stored>,
}

struct Stored {
    der: CertificateDer<'static>,
    /// Equal to that of the key which the certificate belongs to.
    key_id: Option<Vec<u8>>,
    trusted: bool,
}

/// The passwords of a store, and of the keys in it.
#[derive(Clone, Copy)]
pub(super) struct StorePasswords<'a> {
    pub(super) store: &'a str,
    pub(super) key: &'a str,
}

/// Whether this is a PKCS#12 store, and not another structure in DER.
pub(super) fn is_store(bytes: &[u8]) -> bool {
    Der::new(bytes).sequence().and_then(|mut pfx| pfx.number()) == Ok(3)
}

/// Reads a store. An empty password is that of a store that has none.
pub(super) fn open(bytes: &[u8], passwords: StorePasswords<'_>) -> Result<Store, Problem> {
    let mut work = Work::new();
    let mut pfx = Der::new(bytes).sequence()?;
    if pfx.number()? != 3 {
        return Err(Problem::Malformed);
    }
    let mut safe = pfx.sequence()?;
    if safe.expect(tag::OID)? != oid::DATA {
        return Err(Problem::Unsupported("a signature in place of a password"));
    }
    let contents = safe.enter(tag::context(0))?.expect(tag::OCTET_STRING)?;
    if !pfx.is_empty() {
        check(pfx.sequence()?, contents, passwords.store, &mut work)?;
    }
    let mut store = Store::default();
    let mut parts = Der::new(contents).sequence()?;
    while !parts.is_empty() {
        store.part(parts.sequence()?, passwords, &mut work)?;
    }
    Ok(store)
}

/// Checks the MAC: `SEQUENCE { SEQUENCE { algorithm, digest }, salt, iterations DEFAULT 1 }`.
fn check(
    mut mac: Der<'_>,
    contents: &[u8],
    password: &str,
    work: &mut Work,
) -> Result<(), Problem> {
    let mut info = mac.sequence()?;
    let algorithm = info.sequence()?.expect(tag::OID)?;
    let expected = info.expect(tag::OCTET_STRING)?;
    let salt = mac.expect(tag::OCTET_STRING)?;
    let iterations = if mac.is_empty() { 1 } else { mac.number()? };
    let (hash, hmac): (&'static digest::Algorithm, _) = match algorithm {
        oid::SHA1 => (
            &digest::SHA1_FOR_LEGACY_USE_ONLY,
            hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        ),
        oid::SHA256 => (&digest::SHA256, hmac::HMAC_SHA256),
        oid::SHA384 => (&digest::SHA384, hmac::HMAC_SHA384),
        oid::SHA512 => (&digest::SHA512, hmac::HMAC_SHA512),
        _ => {
            return Err(Problem::Unsupported(
                "a MAC other than HMAC with SHA-1 or SHA-2",
            ));
        }
    };
    let length = hash.output_len();
    let key = derive(hash, password, salt, Purpose::Mac, iterations, length, work)?;
    hmac::verify(&hmac::Key::new(hmac, &key), contents, expected)
        .map_err(|_| Problem::WrongPassword)
}

impl Store {
    /// Reads a part, `SEQUENCE { type, [0] contents }`.
    fn part(
        &mut self,
        mut part: Der<'_>,
        passwords: StorePasswords<'_>,
        work: &mut Work,
    ) -> Result<(), Problem> {
        let kind = part.expect(tag::OID)?;
        let mut contents = part.enter(tag::context(0))?;
        match kind {
            oid::DATA => {
                let bags = Der::new(contents.expect(tag::OCTET_STRING)?).sequence()?;
                self.bags(bags, passwords, work, 0)
            }
            oid::ENCRYPTED_DATA => {
                let mut data = contents.sequence()?;
                data.number()?; // the version
                let mut encrypted = data.sequence()?;
                encrypted.expect(tag::OID)?;
                let algorithm = encrypted.sequence()?;
                let Some(bytes) = encrypted.optional(tag::context_value(0))? else {
                    return Err(Problem::Malformed);
                };
                let plain = decrypt(algorithm, bytes, passwords.store, work)?;
                let bags = Der::new(&plain).sequence();
                let bags = bags.map_err(|_| Problem::WrongPassword)?;
                self.bags(bags, passwords, work, 0)
            }
            _ => Err(Problem::Unsupported("a certificate in place of a password")),
        }
    }

    /// Reads bags, each `SEQUENCE { kind, [0] value, SET attributes OPTIONAL }`.
    fn bags(
        &mut self,
        mut bags: Der<'_>,
        passwords: StorePasswords<'_>,
        work: &mut Work,
        depth: usize,
    ) -> Result<(), Problem> {
        while !bags.is_empty() {
            let mut bag = bags.sequence()?;
            let kind = bag.expect(tag::OID)?;
            let mut value = bag.enter(tag::context(0))?;
            let attributes = Attributes::read(bag)?;
            match kind.strip_prefix(oid::BAG) {
                Some([1]) => {
                    let key = value.element()?.to_vec();
                    self.key(key, attributes);
                }
                Some([2]) => {
                    let key = keys::decrypted(value.element()?, passwords.key, work)?;
                    self.key(key, attributes);
                }
                Some([3]) => self.certificate(value, attributes)?,
                Some([6]) if depth < DEPTH_MAX => {
                    self.bags(value.sequence()?, passwords, work, depth + 1)?;
                }
                Some([6]) => return Err(Problem::Malformed),
                _ => {} // revocation lists and secret keys
            }
        }
        Ok(())
    }

    fn key(&mut self, der: Vec<u8>, attributes: Attributes) {
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(der));
        self.keys.push((key, attributes.key_id));
    }

    fn certificate(&mut self, mut value: Der<'_>, attributes: Attributes) -> Result<(), Problem> {
        let mut bag = value.sequence()?;
        if bag.expect(tag::OID)? != oid::X509 {
            return Ok(());
        }
        let der = bag.enter(tag::context(0))?.expect(tag::OCTET_STRING)?;
        self.certificates.push(Stored {
            der: CertificateDer::from(der.to_vec()),
            key_id: attributes.key_id,
            trusted: attributes.trusted,
        });
        Ok(())
    }

    /// Returns the key with its certificate and the chain, or what is wrong.
    pub(super) fn identity(self) -> Result<super::Identity, &'static str> {
        let mut keys = self.keys.into_iter();
        let Some((key, key_id)) = keys.next() else {
            return Err("contains no private key");
        };
        if keys.next().is_some() {
            return Err("contains several private keys. Export the one to use into its own file");
        }
        let mut certificates = self.certificates;
        let by_id = |each: &Stored| key_id.is_some() && each.key_id == key_id;
        let place = certificates.iter().position(by_id);
        // OpenSSL and Java set the ID. Others put the certificate of the key first.
        if certificates.is_empty() {
            return Err("contains no certificate of the private key");
        }
        let leaf = certificates.remove(place.unwrap_or(0)).der;
        let others = certificates.into_iter().map(|each| each.der).collect();
        Ok((chain(leaf, others), key))
    }

    /// Returns the certificates to trust.
    pub(super) fn authorities(self) -> Vec<CertificateDer<'static>> {
        // The certificate of a key in the store is somebody's own, not an authority's.
        let own: BTreeSet<_> = self.keys.into_iter().filter_map(|(_, id)| id).collect();
        let java = self.certificates.iter().any(|each| each.trusted);
        let is_own = |each: &Stored| each.key_id.as_ref().is_some_and(|id| own.contains(id));
        self.certificates
            .into_iter()
            .filter(|each| if java { each.trusted } else { !is_own(each) })
            .map(|each| each.der)
            .collect()
    }
}

/// Orders the chain: each certificate is followed by that of its issuer.
fn chain(
    leaf: CertificateDer<'static>,
    mut others: Vec<CertificateDer<'static>>,
) -> Vec<CertificateDer<'static>> {
    let mut chain = vec![leaf];
    loop {
        let last = Certificate::read(&chain[chain.len() - 1]);
        let Some(issuer) = last.ok().filter(|last| last.issuer != last.subject) else {
            return chain;
        };
        let is_issuer = |each: &CertificateDer<'_>| {
            Certificate::read(each).is_ok_and(|each| each.subject == issuer.issuer)
        };
        // Each is taken once, so a circle ends.
        match others.iter().position(is_issuer) {
            Some(place) => {
                let next = others.remove(place);
                chain.push(next);
            }
            None => return chain,
        }
    }
}

#[derive(Default)]
struct Attributes {
    key_id: Option<Vec<u8>>,
    trusted: bool,
}

impl Attributes {
    /// Reads what is left of a bag: nothing, or `SET OF SEQUENCE { type, SET values }`.
    fn read(mut bag: Der<'_>) -> Result<Self, Problem> {
        let mut found = Self::default();
        if bag.is_empty() {
            return Ok(found);
        }
        let mut attributes = bag.enter(tag::SET)?;
        while !attributes.is_empty() {
            let mut attribute = attributes.sequence()?;
            let kind = attribute.expect(tag::OID)?;
            let mut values = attribute.enter(tag::SET)?;
            if kind == oid::LOCAL_KEY_ID {
                found.key_id = values.optional(tag::OCTET_STRING)?.map(<[u8]>::to_vec);
            } else if kind == oid::TRUSTED {
                found.trusted = true;
            }
        }
        Ok(found)
    }
}
