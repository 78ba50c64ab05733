//! [`Authority`]: an authority for certificates that exists only in this process, for tests.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};

use crate::BrokerError;

/// Signs the certificates of one broker and of its clients. Its key never leaves it.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, as PEM texts.
pub(crate) struct Signed {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Result<Self, BrokerError> {
        let mut params = params(Vec::new(), "thalweg embedded broker authority")?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().map_err(|error| failed(&error))?;
        let issuer = CertifiedIssuer::self_signed(params, key).map_err(|error| failed(&error))?;
        Ok(Self(issuer))
    }

    /// Returns the certificate that clients must trust.
    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Signs a certificate for a broker with these names and addresses.
    pub(crate) fn broker(&self, hosts: Vec<String>) -> Result<Signed, BrokerError> {
        let common_name = hosts.first().cloned().unwrap_or_default();
        let mut params = params(hosts, &common_name)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(&params)
    }

    /// Signs a certificate for a client with this common name.
    pub(crate) fn client(&self, name: &str) -> Result<Signed, BrokerError> {
        let mut params = params(Vec::new(), name)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Result<Signed, BrokerError> {
        let key = KeyPair::generate().map_err(|error| failed(&error))?;
        let certificate = params.signed_by(&key, &self.0);
        Ok(Signed {
            certificate: certificate.map_err(|error| failed(&error))?.pem(),
            key: key.serialize_pem(),
        })
    }
}

fn params(hosts: Vec<String>, common_name: &str) -> Result<CertificateParams, BrokerError> {
    let mut params = CertificateParams::new(hosts).map_err(|error| failed(&error))?;
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    Ok(params)
}

fn failed(error: &rcgen::Error) -> BrokerError {
    BrokerError::Config(format!("cannot make a certificate: {error}"))
}
