//! The subject of a certificate, as the text that Kafka uses as the name of a user.
//!
//! ```text
//! Certificate (DER) ─▶ tbsCertificate ─▶ subject ─▶ CN=alice,OU=shop,O=example
//! ```
//! The text is that of RFC 2253, as Java's `X500Principal.getName()` returns it. This module checks
//! no signature: rustls has done so before.

use std::fmt::Write as _;

/// Universal and context-specific tags of DER.
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
const VERSION: u8 = 0xa0;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;

/// The attributes that RFC 2253 names. Java shows all others as numbers.
const NAMES: [(&[u8], &str); 9] = [
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "STREET"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25],
        "DC",
    ),
    (
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1],
        "UID",
    ),
];

/// Returns the subject. `None`: this is not a certificate.
pub fn subject(der: &[u8]) -> Option<String> {
    let (certificate, _) = element(der, SEQUENCE)?;
    let (mut fields, _) = element(certificate, SEQUENCE)?;
    if fields.first() == Some(&VERSION) {
        fields = any(fields)?.2;
    }
    // Serial number, algorithm, issuer, validity.
    for _ in 0..4 {
        fields = any(fields)?.2;
    }
    let (mut names, _) = element(fields, SEQUENCE)?;
    let mut parts = Vec::new();
    while !names.is_empty() {
        let (set, rest) = element(names, SET)?;
        parts.push(relative_name(set)?);
        names = rest;
    }
    // The most specific part comes first.
    parts.reverse();
    Some(parts.join(","))
}

/// Attributes of one part, which are joined by `+`.
fn relative_name(mut set: &[u8]) -> Option<String> {
    let mut attributes = Vec::new();
    while !set.is_empty() {
        let (pair, rest) = element(set, SEQUENCE)?;
        let (oid, value) = element(pair, OBJECT_ID)?;
        let (tag, content, _) = any(value)?;
        let name = NAMES.iter().find(|(known, _)| *known == oid);
        let text = match tag {
            UTF8_STRING | PRINTABLE_STRING | IA5_STRING => str::from_utf8(content).ok(),
            _ => None,
        };
        attributes.push(match (name, text) {
            (Some((_, name)), Some(text)) => format!("{name}={}", escaped(text)),
            (Some((_, name)), None) => format!("{name}=#{}", hex(value)),
            (None, _) => format!("{}=#{}", dotted(oid)?, hex(value)),
        });
        set = rest;
    }
    Some(attributes.join("+"))
}

/// Returns tag, content, and what follows.
fn any(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = input.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        // A certificate has less than 16 MiB.
        let count = usize::from(first & 0x7f);
        if !(1..=3).contains(&count) {
            return None;
        }
        let (bytes, rest) = rest.split_at_checked(count)?;
        let length = bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        (length, rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// Returns the content of an element with this tag, and what follows.
fn element(input: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = any(input)?;
    (found == tag).then_some((content, rest))
}

fn escaped(text: &str) -> String {
    let last = text.chars().count().saturating_sub(1);
    let mut escaped = String::new();
    for (index, char) in text.chars().enumerate() {
        let at_end = char == ' ' && (index == 0 || index == last);
        if ",+\"\\<>;".contains(char) || at_end || (char == '#' && index == 0) {
            escaped.push('\\');
        }
        escaped.push(char);
    }
    escaped
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns an object ID as numbers with dots.
fn dotted(oid: &[u8]) -> Option<String> {
    let mut arcs: Vec<u64> = Vec::new();
    let mut arc: u64 = 0;
    for byte in oid {
        arc = arc.checked_mul(128)? + u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            arcs.push(arc);
            arc = 0;
        }
    }
    let first = *arcs.first()?;
    let top = (first / 40).min(2);
    let mut text = format!("{top}.{}", first - top * 40);
    for arc in &arcs[1..] {
        let _ = write!(text, ".{arc}");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use proptest::{prop_assert_eq, proptest};

    use super::*;

    fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = match content.len() {
            short @ ..128 => vec![short as u8],
            long => vec![0x82, (long >> 8) as u8, long as u8],
        };
        [vec![tag], length, content.to_vec()].concat()
    }

    fn attribute(oid: &[u8], tag: u8, text: &[u8]) -> Vec<u8> {
        tlv(SEQUENCE, &[tlv(OBJECT_ID, oid), tlv(tag, text)].concat())
    }

    fn certificate(names: &[Vec<u8>]) -> Vec<u8> {
        let any = tlv(0x02, &[1]);
        let fields = [
            tlv(VERSION, &any),
            any.clone(),
            tlv(SEQUENCE, &any),
            tlv(SEQUENCE, b""),
            tlv(SEQUENCE, &any),
            tlv(SEQUENCE, &names.concat()),
        ];
        let signed = tlv(SEQUENCE, &fields.concat());
        tlv(SEQUENCE, &[signed, any].concat())
    }

    #[test]
    fn the_subject_is_that_of_rfc_2253() {
        let der = certificate(&[
            tlv(SET, &attribute(&[0x55, 4, 6], PRINTABLE_STRING, b"FR")),
            tlv(
                SET,
                &attribute(&[0x55, 4, 10], UTF8_STRING, b" A, \"B\" + C\\ "),
            ),
            tlv(
                SET,
                &[
                    attribute(&[0x55, 4, 11], UTF8_STRING, b"#x"),
                    attribute(&[0x55, 4, 3], UTF8_STRING, "\u{e9}t\u{e9}".as_bytes()),
                ]
                .concat(),
            ),
            // emailAddress
            tlv(
                SET,
                &attribute(
                    &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1],
                    IA5_STRING,
                    b"a@b",
                ),
            ),
        ]);
        assert_eq!(
            subject(&der).as_deref(),
            Some(
                "1.2.840.113549.1.9.1=#1603614062,OU=\\#x+CN=\u{e9}t\u{e9},\
                 O=\\ A\\, \\\"B\\\" \\+ C\\\\\\ ,C=FR"
            )
        );
        assert_eq!(subject(&certificate(&[])).as_deref(), Some(""));
        let long = "x".repeat(300);
        let der = certificate(&[tlv(
            SET,
            &attribute(&[0x55, 4, 3], UTF8_STRING, long.as_bytes()),
        )]);
        assert_eq!(subject(&der), Some(format!("CN={long}")));
    }

    proptest! {
        #[test]
        fn what_is_cut_or_changed_never_panics(at in 0..60_usize, byte in 0..=255_u8) {
            let name = tlv(SET, &attribute(&[0x55, 4, 3], UTF8_STRING, b"alice"));
            let mut der = certificate(&[name]);
            prop_assert_eq!(subject(&der[..at.min(der.len() - 1)]), None);
            let at = at % der.len();
            der[at] = byte;
            let _ = subject(&der);
        }
    }
}
