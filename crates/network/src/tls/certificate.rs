//! Reads the parts of a certificate that the client orders chains by.

use super::der::{Der, Malformed, tag};

/// A certificate. Names are in DER.
pub(super) struct Certificate<'a> {
    pub(super) issuer: &'a [u8],
    pub(super) subject: &'a [u8],
}

impl<'a> Certificate<'a> {
    pub(super) fn read(der: &'a [u8]) -> Result<Self, Malformed> {
        let mut body = Der::new(der).sequence()?.sequence()?;
        body.optional(tag::context(0))?; // the version
        body.expect(tag::INTEGER)?; // the serial number
        body.sequence()?; // the signature algorithm
        let issuer = body.element()?;
        body.sequence()?; // the validity
        let subject = body.element()?;
        Ok(Self { issuer, subject })
    }
}
