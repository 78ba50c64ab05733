//! Reads the parts of a certificate that the client orders chains by, and that errors show.

use std::fmt::Write as _;
use std::net::IpAddr;

use rustls_pki_types::SignatureVerificationAlgorithm;

use super::der::{Der, Malformed, tag};

/// A longer name is cut.
const SHOWN_CHARS_MAX: usize = 200;
/// More names are only counted.
const SHOWN_NAMES_MAX: usize = 20;

mod oid {
    pub(super) const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 19];
    pub(super) const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 17];
    pub(super) const COMMON_NAME: &[u8] = &[0x55, 4, 3];
    /// The parts of a name, with their short names.
    pub(super) const PARTS: [(&[u8], &str); 8] = [
        (COMMON_NAME, "CN"),
        (&[0x55, 4, 6], "C"),
        (&[0x55, 4, 7], "L"),
        (&[0x55, 4, 8], "ST"),
        (&[0x55, 4, 10], "O"),
        (&[0x55, 4, 11], "OU"),
        (
            &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1],
            "emailAddress",
        ),
        (&[9, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC"),
    ];
}

/// A certificate. Names and the public key are in DER.
pub(super) struct Certificate<'a> {
    /// 1 or 3.
    pub(super) version: u64,
    pub(super) issuer: &'a [u8],
    pub(super) subject: &'a [u8],
    /// The texts of the two times.
    validity: (&'a [u8], &'a [u8]),
    pub(super) public_key: &'a [u8],
    extensions: Option<Der<'a>>,
}

impl<'a> Certificate<'a> {
    pub(super) fn read(der: &'a [u8]) -> Result<Self, Malformed> {
        let mut body = Der::new(der).sequence()?.sequence()?;
        let version = match body.optional(tag::context(0))? {
            Some(version) => Der::new(version).number()?.saturating_add(1),
            None => 1,
        };
        body.expect(tag::INTEGER)?; // the serial number
        body.sequence()?; // the signature algorithm
        let issuer = body.element()?;
        let mut validity = body.sequence()?;
        let validity = (validity.any()?.1, validity.any()?.1);
        let subject = body.element()?;
        let public_key = body.element()?;
        body.optional(tag::context_value(1))?;
        body.optional(tag::context_value(2))?;
        let extensions = match body.optional(tag::context(3))? {
            Some(extensions) => Some(Der::new(extensions).sequence()?),
            None => None,
        };
        Ok(Self {
            version,
            issuer,
            subject,
            validity,
            public_key,
            extensions,
        })
    }

    /// Returns the point of a public key, as a bit string. The client does not look at the algorithm.
    pub(super) fn ec_public_key(&self) -> Option<&'a [u8]> {
        let mut info = Der::new(self.public_key).sequence().ok()?;
        info.sequence().ok()?;
        info.element().ok()
    }

    /// Returns the start and the end of the certificate's validity, as `2026-11-27 18:00:00 UTC`.
    pub(super) fn validity(&self) -> (String, String) {
        (time(self.validity.0), time(self.validity.1))
    }

    /// Whether the certificate says that it belongs to an authority.
    pub(super) fn is_authority(&self) -> bool {
        let constraints = self.extension(oid::BASIC_CONSTRAINTS);
        let authority = constraints.and_then(|mut value| {
            let mut constraints = value.sequence().ok()?;
            constraints.optional(tag::BOOLEAN).ok()?
        });
        authority.is_some_and(|authority| authority != [0])
    }

    /// Whether the key of this certificate has signed a certificate, given in DER.
    pub(super) fn signed(
        &self,
        der: &[u8],
        algorithms: &[&dyn SignatureVerificationAlgorithm],
    ) -> bool {
        self.verify(der, algorithms).is_ok()
    }

    fn verify(
        &self,
        der: &[u8],
        algorithms: &[&dyn SignatureVerificationAlgorithm],
    ) -> Result<(), Malformed> {
        let mut key = Der::new(self.public_key).sequence()?;
        let (kind, key) = (key.expect(tag::SEQUENCE)?, bits(&mut key)?);
        let mut whole = Der::new(der).sequence()?;
        let (body, how) = (whole.element()?, whole.expect(tag::SEQUENCE)?);
        let signature = bits(&mut whole)?;
        let fits = |each: &&&dyn SignatureVerificationAlgorithm| {
            each.public_key_alg_id().as_ref() == kind && each.signature_alg_id().as_ref() == how
        };
        let is_right = algorithms
            .iter()
            .filter(fits)
            .any(|each| each.verify_signature(key, body, signature).is_ok());
        if is_right { Ok(()) } else { Err(Malformed) }
    }

    /// Returns the host names and addresses that the certificate is valid for.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let Some(Ok(mut list)) = self
            .extension(oid::SUBJECT_ALT_NAME)
            .map(|mut value| value.sequence())
        else {
            return names;
        };
        while let Ok((kind, value)) = list.any() {
            const DNS: u8 = tag::context_value(2);
            const IP: u8 = tag::context_value(7);
            match (kind, value.len()) {
                (DNS, _) => names.push(shown(value)),
                (IP, 4 | 16) => {
                    let v4 = <[u8; 4]>::try_from(value).map(IpAddr::from);
                    let v6 = <[u8; 16]>::try_from(value).map(IpAddr::from);
                    names.extend(v4.or(v6).map(|address| address.to_string()));
                }
                _ => {}
            }
        }
        let more = names.len().saturating_sub(SHOWN_NAMES_MAX);
        names.truncate(SHOWN_NAMES_MAX);
        if more > 0 {
            names.push(format!("{more} more"));
        }
        names
    }

    fn extension(&self, wanted: &[u8]) -> Option<Der<'a>> {
        let mut extensions = self.extensions?;
        while let Ok(mut extension) = extensions.sequence() {
            if extension.expect(tag::OID).ok()? == wanted {
                extension.optional(tag::BOOLEAN).ok()?; // whether it is critical
                return extension.expect(tag::OCTET_STRING).ok().map(Der::new);
            }
        }
        None
    }
}

/// Reads a bit string of whole bytes.
fn bits<'a>(der: &mut Der<'a>) -> Result<&'a [u8], Malformed> {
    match der.expect(tag::BIT_STRING)? {
        [0, bytes @ ..] => Ok(bytes),
        _ => Err(Malformed),
    }
}

/// Returns a name as `CN=localhost, O=Example`.
pub(super) fn distinguished_name(der: &[u8]) -> String {
    let mut text = String::new();
    let Ok(mut parts) = Der::new(der).sequence() else {
        return text;
    };
    while let Ok(mut set) = parts.enter(tag::SET) {
        while let Ok(mut part) = set.sequence() {
            let (Ok(kind), Ok((_, value))) = (part.expect(tag::OID), part.any()) else {
                continue;
            };
            let known = oid::PARTS.iter().find(|(oid, _)| *oid == kind);
            let separator = if text.is_empty() { "" } else { ", " };
            let kind = known.map_or("?", |(_, name)| *name);
            let _ = write!(text, "{separator}{kind}={}", shown(value));
        }
        if text.len() > SHOWN_CHARS_MAX {
            break;
        }
    }
    if text.is_empty() {
        "without a name".clone_into(&mut text);
    }
    text
}

/// Makes the text of a certificate fit for an error.
fn shown(text: &[u8]) -> String {
    let cut = &text[..text.len().min(SHOWN_CHARS_MAX)];
    crate::sasl::shown(&String::from_utf8_lossy(cut))
}

/// Converts `260102030405Z` or `20260102030405Z` to `2026-01-02 03:04:05 UTC`.
fn time(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let digits = text.trim_end_matches('Z');
    let century = match digits.len() {
        12 if digits < "50" => "20",
        12 => "19",
        _ => "",
    };
    let digits = format!("{century}{digits}");
    if digits.len() != 14 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return shown(text.as_bytes());
    }
    format!(
        "{}-{}-{} {}:{}:{} UTC",
        &digits[..4],
        &digits[4..6],
        &digits[6..8],
        &digits[8..10],
        &digits[10..12],
        &digits[12..],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_readable() {
        assert_eq!(time(b"260102030405Z"), "2026-01-02 03:04:05 UTC");
        assert_eq!(time(b"991231235959Z"), "1999-12-31 23:59:59 UTC");
        assert_eq!(time(b"20501231235959Z"), "2050-12-31 23:59:59 UTC");
        assert_eq!(time(b"now\n"), "now\\n");
    }

    #[test]
    fn a_name_cannot_forge_lines_of_a_log_and_is_cut() {
        use super::super::der::push;
        let value = [b"evil\nname".to_vec(), vec![b'x'; 5000]].concat();
        let mut part = Vec::new();
        push(&mut part, tag::OID, oid::COMMON_NAME);
        push(&mut part, 0x0c, &value);
        let (mut pair, mut set, mut name) = (Vec::new(), Vec::new(), Vec::new());
        push(&mut pair, tag::SEQUENCE, &part);
        push(&mut set, tag::SET, &pair.repeat(50));
        push(&mut name, tag::SEQUENCE, &set.repeat(3));
        let text = distinguished_name(&name);
        assert!(text.starts_with("CN=evil\\nnamexxx"), "{text}");
        assert!(text.len() < 60 * SHOWN_CHARS_MAX, "{}", text.len());
    }

    #[test]
    fn garbage_is_malformed() {
        for bytes in [&b""[..], b"\x30\x00", b"garbage", &[0x30, 0x82, 0xff, 0xff]] {
            assert!(Certificate::read(bytes).is_err());
        }
        assert_eq!(distinguished_name(b"garbage"), "");
    }
}
