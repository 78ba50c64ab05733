//! Verifiers of the broker's certificate, around that of rustls.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

use super::details;

/// How much of the broker's certificate the client verifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checks {
    All,
    /// `ssl_check_hostname=False`: the chain as usual, but another host name is accepted.
    AnyHostname,
    /// `ssl_verify=False`: only that the broker has the key of its certificate.
    Nothing,
}

/// A certificate that is good only as a broker's own, and a verifier that trusts no other.
#[derive(Debug)]
pub(super) struct Pinned {
    pub(super) certificate: CertificateDer<'static>,
    pub(super) verifier: Arc<WebPkiServerVerifier>,
}

/// Verifies the certificate, and notes one that it refuses for the error.
#[derive(Debug)]
pub(super) struct Verifier {
    /// `None` if `ssl_cafile` has only pinned certificates.
    pub(super) authorities: Option<Arc<WebPkiServerVerifier>>,
    pub(super) pinned: Vec<Pinned>,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
    pub(super) checks: Checks,
}

impl Verifier {
    /// Returns the verifier for a broker that sends this certificate as its own.
    fn of(&self, end_entity: &CertificateDer<'_>) -> Option<&WebPkiServerVerifier> {
        let mut pinned = self.pinned.iter();
        let own = pinned.find(|each| each.certificate == *end_entity);
        let own = own.map(|each| &each.verifier);
        own.or(self.authorities.as_ref()).map(AsRef::as_ref)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.checks == Checks::Nothing {
            return Ok(ServerCertVerified::assertion());
        }
        let verdict = self.of(end_entity).map_or_else(
            || Err(CertificateError::UnknownIssuer.into()),
            |verifier| {
                verifier.verify_server_cert(
                    end_entity,
                    intermediates,
                    server_name,
                    ocsp_response,
                    now,
                )
            },
        );
        match verdict {
            // The name is checked last, so everything else was accepted.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.checks == Checks::AnyHostname => Ok(ServerCertVerified::assertion()),
            Err(error) => {
                details::note_refused(end_entity);
                Err(error)
            }
            accepted => accepted,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
