//! Reads DER, the encoding of certificates and keys. It checks each length before it uses it.
//!
//! It copies nothing and does not recurse, so a file costs no more than its own size.

/// The bytes are not DER, or have another structure than expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

pub(super) mod tag {
    pub(in super::super) const BOOLEAN: u8 = 0x01;
    pub(in super::super) const INTEGER: u8 = 0x02;
    pub(in super::super) const BIT_STRING: u8 = 0x03;
    pub(in super::super) const OCTET_STRING: u8 = 0x04;
    pub(in super::super) const OID: u8 = 0x06;
    pub(in super::super) const SEQUENCE: u8 = 0x30;
    pub(in super::super) const SET: u8 = 0x31;

    /// Returns the tag of `[number]` with a structure in it.
    pub(in super::super) const fn context(number: u8) -> u8 {
        0xa0 | number
    }

    /// Returns the tag of `[number]` with a value in it.
    pub(in super::super) const fn context_value(number: u8) -> u8 {
        0x80 | number
    }
}

/// The elements that are left to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the tag and the contents of the next element.
    pub(super) fn any(&mut self) -> Result<(u8, &'a [u8]), Malformed> {
        let (tag, header, length) = header(self.0)?;
        let end = header.checked_add(length).ok_or(Malformed)?;
        let contents = self.0.get(header..end).ok_or(Malformed)?;
        self.0 = &self.0[end..];
        Ok((tag, contents))
    }

    /// Returns the next element with its tag and length.
    pub(super) fn element(&mut self) -> Result<&'a [u8], Malformed> {
        let before = self.0;
        self.any()?;
        Ok(&before[..before.len() - self.0.len()])
    }

    /// Returns the contents of the next element, which must have this tag.
    pub(super) fn expect(&mut self, tag: u8) -> Result<&'a [u8], Malformed> {
        match self.any()? {
            (found, contents) if found == tag => Ok(contents),
            _ => Err(Malformed),
        }
    }

    /// Returns the contents of the next element if it has this tag.
    pub(super) fn optional(&mut self, tag: u8) -> Result<Option<&'a [u8]>, Malformed> {
        if self.0.first() == Some(&tag) {
            self.expect(tag).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Enters the next element, which must have this tag.
    pub(super) fn enter(&mut self, tag: u8) -> Result<Self, Malformed> {
        self.expect(tag).map(Self)
    }

    pub(super) fn sequence(&mut self) -> Result<Self, Malformed> {
        self.enter(tag::SEQUENCE)
    }

    /// Reads a number that is not negative.
    pub(super) fn number(&mut self) -> Result<u64, Malformed> {
        let bytes = self.expect(tag::INTEGER)?;
        if bytes.is_empty() || bytes[0] & 0x80 != 0 {
            return Err(Malformed);
        }
        let digits = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
        if digits.len() > 8 {
            return Err(Malformed);
        }
        Ok(digits
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

/// Returns the tag, the length of the header and the length of the contents.
fn header(bytes: &[u8]) -> Result<(u8, usize, usize), Malformed> {
    let (tag, first) = match bytes {
        // A tag with more than one byte is not used in keys and certificates.
        [tag, first, ..] if tag & 0x1f != 0x1f => (*tag, *first),
        _ => return Err(Malformed),
    };
    if first < 0x80 {
        return Ok((tag, 2, first as usize));
    }
    let count = usize::from(first & 0x7f);
    if count == 0 || count > 4 {
        return Err(Malformed); // without a length (BER), or more than any file has
    }
    let digits = bytes.get(2..2 + count).ok_or(Malformed)?;
    let length = digits
        .iter()
        .fold(0, |length, byte| length << 8 | usize::from(*byte));
    Ok((tag, 2 + count, length))
}

/// Appends an element.
pub(super) fn push(out: &mut Vec<u8>, tag: u8, contents: &[u8]) {
    out.push(tag);
    let length = contents.len();
    if length < 0x80 {
        out.push(length as u8);
    } else {
        let digits = (length as u64).to_be_bytes();
        let digits = &digits[digits.iter().take_while(|byte| **byte == 0).count()..];
        out.push(0x80 | digits.len() as u8);
        out.extend_from_slice(digits);
    }
    out.extend_from_slice(contents);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_read_in_order() {
        let bytes = [0x30, 6, 0x02, 1, 5, 0x04, 1, 7, 0x05, 0];
        let mut der = Der::new(&bytes);
        let mut inner = der.sequence().expect("a sequence");
        assert_eq!(inner.number(), Ok(5));
        assert_eq!(inner.optional(tag::SET), Ok(None));
        assert_eq!(inner.element(), Ok(&[0x04, 1, 7][..]));
        assert!(inner.is_empty());
        assert_eq!(der.any(), Ok((0x05, &[][..])));
        assert_eq!(der.any(), Err(Malformed));
    }

    #[test]
    fn a_length_that_the_bytes_do_not_have_is_refused() {
        for bytes in [
            &[0x30][..],
            &[0x30, 1],
            &[0x30, 0x80, 0, 0],
            &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff, 1],
            &[0x30, 0x89, 1, 1, 1, 1, 1, 1, 1, 1, 1],
            &[0x3f, 0x81, 1, 0],
            &[0x30, 0x82, 1],
        ] {
            assert_eq!(Der::new(bytes).any(), Err(Malformed), "{bytes:?}");
        }
    }

    #[test]
    fn numbers_are_neither_negative_nor_larger_than_64_bits() {
        let number = |contents: &[u8]| {
            let mut bytes = Vec::new();
            push(&mut bytes, tag::INTEGER, contents);
            Der::new(&bytes).number()
        };
        assert_eq!(number(&[0, 0xff]), Ok(255));
        assert_eq!(number(&[0x7f, 0xff]), Ok(0x7fff));
        assert_eq!(number(&[0xff]), Err(Malformed));
        assert_eq!(number(&[]), Err(Malformed));
        assert_eq!(number(&[1; 9]), Err(Malformed));
    }

    #[test]
    fn what_is_written_is_read_again() {
        for length in [0, 1, 127, 128, 255, 256, 70_000] {
            let contents = vec![7; length];
            let mut bytes = Vec::new();
            push(&mut bytes, tag::OCTET_STRING, &contents);
            let read = Der::new(&bytes).expect(tag::OCTET_STRING);
            assert_eq!(read, Ok(&contents[..]));
        }
    }
}
