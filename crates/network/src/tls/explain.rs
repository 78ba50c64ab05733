//! Says why a handshake failed, and what to do. It shows names of certificates, but no secrets.

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};
use rustls_pki_types::{CertificateDer, UnixTime};

use super::certificate::{Certificate, distinguished_name};
use super::details::{Details, Shown};
use super::suites::Offer;

const NO_TLS: &str = "the port does not speak TLS. If it is a plaintext port, set \
                      security_protocol to PLAINTEXT or SASL_PLAINTEXT";

/// What a client was configured with, for errors.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    /// Where the trusted authorities come from, and how many there are.
    pub(super) authorities: String,
    pub(super) offer: Offer,
    /// The subject and the issuer of the client's certificate.
    pub(super) own: Option<(String, String)>,
    pub(super) from_context: bool,
}

impl Facts {
    /// Returns the text for an error of rustls, and whether another attempt cannot help.
    pub(crate) fn explain(&self, error: &Error, details: &Details) -> (String, bool) {
        let notes = details.notes();
        match error {
            // The first bytes are not those of a TLS record.
            Error::InvalidMessage(
                InvalidMessage::InvalidContentType
                | InvalidMessage::UnknownProtocolVersion
                | InvalidMessage::MessageTooLarge
                | InvalidMessage::InvalidEmptyPayload,
            ) => (NO_TLS.to_owned(), true),
            Error::InvalidMessage(message) => {
                (format!("the broker violates TLS: {message:?}"), true)
            }
            Error::InvalidCertificate(problem) => {
                let refused = notes.refused.as_ref();
                (self.certificate(problem, refused), true)
            }
            Error::AlertReceived(alert) => (self.alert(*alert, notes.client), true),
            Error::PeerIncompatible(what) => {
                let text = format!(
                    "the broker and the client have no TLS version, cipher suite or curve in \
                     common ({what:?}): {}",
                    self.offer.describe()
                );
                (text, true)
            }
            Error::PeerMisbehaved(what) => (
                format!(
                    "the broker violates TLS ({what:?}). Somebody between the client and the \
                     broker may change their messages"
                ),
                true,
            ),
            other => (other.to_string(), false),
        }
    }

    /// Returns a hint for a connection that the broker closed after it asked for a certificate.
    pub(crate) fn closed(&self, details: &Details) -> Option<String> {
        match details.notes().client {
            None | Some(Shown::Certificate) => None,
            shown => Some(self.shown(shown)),
        }
    }

    fn certificate(
        &self,
        problem: &CertificateError,
        refused: Option<&CertificateDer<'static>>,
    ) -> String {
        let Some((der, leaf)) =
            refused.and_then(|der| Certificate::read(der).ok().map(|leaf| (der, leaf)))
        else {
            return format!("the broker's certificate cannot be used: {problem}");
        };
        let who = describe(der, &leaf);
        match problem {
            CertificateError::UnknownIssuer => self.unknown_issuer(&leaf, &who),
            CertificateError::NotValidForName => wrong_name(&leaf, None, &who),
            CertificateError::NotValidForNameContext { expected, .. } => {
                wrong_name(&leaf, Some(&expected.to_str()), &who)
            }
            CertificateError::ExpiredContext { time, not_after } => {
                let end = date(*not_after);
                let whose = owner(&end, &leaf.validity().1);
                format!("{whose} expired on {end}, and {}: {who}", clock(*time))
            }
            CertificateError::NotValidYetContext { time, not_before } => {
                let begin = date(*not_before);
                let whose = owner(&begin, &leaf.validity().0);
                format!(
                    "{whose} is not valid before {begin}, and {}: {who}",
                    clock(*time)
                )
            }
            CertificateError::ExpiredRevocationListContext { time, next_update } => format!(
                "the revocation list in ssl_crlfile expired on {}, and {}. Get a new list of \
                 the authority {}",
                date(*next_update),
                clock(*time),
                distinguished_name(leaf.issuer)
            ),
            CertificateError::Revoked => {
                format!("the broker's certificate is revoked by a list in ssl_crlfile: {who}")
            }
            CertificateError::UnknownRevocationStatus => format!(
                "no list in ssl_crlfile says whether the broker's certificate is revoked. Add the \
                 list of its issuer: {who}"
            ),
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                format!(
                    "the broker's certificate is not for servers: its extendedKeyUsage lacks \
                     serverAuth. {who}"
                )
            }
            CertificateError::Other(_) if leaf.is_authority() => format!(
                "the broker uses the certificate of an authority as its own (basicConstraints \
                 CA:TRUE). Issue a certificate for the broker, and put that of the authority into \
                 ssl_cafile: {who}"
            ),
            CertificateError::Other(_) if leaf.version < 3 => format!(
                "the broker's certificate has the X.509 version {}, which contains no host names. \
                 Issue one of version 3, with a subjectAltName: {who}",
                leaf.version
            ),
            CertificateError::BadSignature => format!(
                "the broker's certificate ({who}) is not signed with the key of an authority that \
                 has the name of its issuer. If the authority was replaced, put its current \
                 certificate into {}",
                self.where_authorities_are()
            ),
            other => format!("the broker's certificate cannot be used: {other}. {who}"),
        }
    }

    fn unknown_issuer(&self, leaf: &Certificate<'_>, who: &str) -> String {
        let what = if leaf.issuer == leaf.subject {
            "this self-signed certificate"
        } else {
            "the certificate of its issuer"
        };
        format!(
            "the client does not trust the broker's certificate ({who}): its issuer is unknown. \
             The trusted authorities are {}. If this is your broker, add {what} to {}",
            self.authorities,
            self.where_authorities_are()
        )
    }

    fn where_authorities_are(&self) -> &'static str {
        if self.from_context {
            "ssl_context, with create_ssl_context(cafile=...), or load_verify_locations() of another \
             context"
        } else {
            "ssl_cafile"
        }
    }

    fn alert(&self, alert: AlertDescription, client: Option<Shown>) -> String {
        let refused = format!("the broker refused the connection with the TLS alert {alert:?}");
        match alert {
            AlertDescription::ProtocolVersion | AlertDescription::InsufficientSecurity => {
                format!("{refused}: {}", self.offer.describe())
            }
            AlertDescription::HandshakeFailure if client.is_none() => format!(
                "{refused}. It may support nothing that the client offers: {}",
                self.offer.describe()
            ),
            AlertDescription::CertificateRevoked | AlertDescription::CertificateExpired => {
                format!("{refused}. Get a new certificate for the client (ssl_certfile)")
            }
            AlertDescription::HandshakeFailure
            | AlertDescription::NoCertificate
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            | AlertDescription::CertificateRequired => format!("{refused}. {}", self.shown(client)),
            _ => refused,
        }
    }

    /// Says which certificate the client has sent.
    fn shown(&self, client: Option<Shown>) -> String {
        match (client, &self.own) {
            (None, _) => "The broker did not request a client certificate".to_owned(),
            (Some(Shown::Certificate), Some((subject, issuer))) => format!(
                "The client sent its certificate {subject}, issued by {issuer} (ssl_certfile). \
                 Check that the broker trusts this authority"
            ),
            (Some(Shown::OtherAuthorities(count)), Some((subject, issuer))) => format!(
                "The broker requests a certificate of one of {count} authorities. The client did \
                 not send its own, {subject}, because another authority issued it: {issuer}"
            ),
            _ if self.from_context => {
                "The broker requests a certificate. A certificate in ssl_context cannot be used: \
                 give ssl_certfile and ssl_keyfile in place of ssl_context, or make the context \
                 with thalweg.helpers.create_ssl_context()"
                    .to_owned()
            }
            _ => "The broker requests a certificate, and the client has none: set ssl_certfile \
                  and ssl_keyfile"
                .to_owned(),
        }
    }
}

/// Describes a certificate: `subject CN=a, issuer CN=b, SHA-256 0123...`.
fn describe(der: &CertificateDer<'_>, leaf: &Certificate<'_>) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, der);
    let fingerprint: Vec<String> = digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect();
    format!(
        "subject {}, issuer {}, SHA-256 {}",
        distinguished_name(leaf.subject),
        distinguished_name(leaf.issuer),
        fingerprint.join(":")
    )
}

fn wrong_name(leaf: &Certificate<'_>, wanted: Option<&str>, who: &str) -> String {
    let wanted = wanted.map_or_else(String::new, |name| format!(" {name:?}"));
    let names = leaf.names();
    let has = if names.is_empty() {
        "It has only a common name, which the client ignores. Issue a certificate with a \
         subjectAltName"
            .to_owned()
    } else {
        let names = names.join(", ");
        format!("Its names are {names}. Connect with a name that the certificate contains")
    };
    format!(
        "the broker's certificate ({who}) is not valid for the host name{wanted}. {has}. To accept \
         any name, set ssl_check_hostname=False"
    )
}

/// Says whose time this is: that of the broker's own certificate, or of another one in its chain.
fn owner(time: &str, leaf: &str) -> &'static str {
    if time == leaf {
        "the broker's certificate"
    } else {
        "a certificate in the broker's chain"
    }
}

fn clock(now: UnixTime) -> String {
    format!("this machine's clock says {}", date(now))
}

/// Returns a time as `2026-11-27 18:00:00 UTC`.
fn date(time: UnixTime) -> String {
    let seconds = time.as_secs();
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // The calendar repeats every 400 years, of 146,097 days. These years begin in March, so that
    // the leap day is their last one (the algorithm of Howard Hinnant).
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let shown = |seconds| date(UnixTime::since_unix_epoch(Duration::from_secs(seconds)));
        assert_eq!(shown(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(shown(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(shown(1_735_689_599), "2024-12-31 23:59:59 UTC");
        assert_eq!(shown(4_102_444_800), "2100-01-01 00:00:00 UTC");
    }
}
