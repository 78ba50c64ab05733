//! [`Authority`]: an authority for certificates that exists only in this process, for tests.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer,
    DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair,
    KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::pki_types::CertificateRevocationListDer;

use crate::BrokerError;

/// Signs the certificates of one broker and of its clients. Its key never leaves it.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    clients: Mutex<Clients>,
}

/// The certificates of clients.
#[derive(Default)]
struct Clients {
    /// The serial numbers, by the certificates as PEM texts.
    numbers: BTreeMap<String, u64>,
    revoked: Vec<u64>,
}

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
        Ok(Self {
            issuer,
            clients: Mutex::default(),
        })
    }

    /// Returns the certificate that clients must trust.
    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
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
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let number = clients.numbers.len() as u64 + 1;
        params.serial_number = Some(SerialNumber::from(number));
        let signed = self.sign(&params)?;
        clients.numbers.insert(signed.certificate.clone(), number);
        Ok(signed)
    }

    /// Revokes the certificate of a client. Returns the list of all revoked ones, or `None` if the
    /// authority has not signed the certificate.
    pub(crate) fn revoke(
        &self,
        certificate: &str,
    ) -> Option<Result<CertificateRevocationListDer<'static>, BrokerError>> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let number = *clients.numbers.get(certificate)?;
        if !clients.revoked.contains(&number) {
            clients.revoked.push(number);
        }
        Some(self.list(&clients.revoked))
    }

    /// The dates do not matter: the broker looks only for the certificate.
    fn list(&self, revoked: &[u64]) -> Result<CertificateRevocationListDer<'static>, BrokerError> {
        let since = date_time_ymd(2024, 1, 1);
        let entries = revoked.iter().map(|number| RevokedCertParams {
            serial_number: SerialNumber::from(*number),
            revocation_time: since,
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: since,
            next_update: date_time_ymd(4096, 1, 1),
            crl_number: SerialNumber::from(revoked.len() as u64),
            issuing_distribution_point: None,
            revoked_certs: entries.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&self.issuer);
        Ok(list.map_err(|error| failed(&error))?.der().clone())
    }

    fn sign(&self, params: &CertificateParams) -> Result<Signed, BrokerError> {
        let key = KeyPair::generate().map_err(|error| failed(&error))?;
        let certificate = params.signed_by(&key, &self.issuer);
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
