//! Recognises bytes that no Kafka broker sends, and explains their probable cause.

use thalweg_cluster::ConnectionError;
use thalweg_protocol::BadLength;

use crate::config::SecurityProtocol;

pub(super) const TLS_PORT: &str = "the port speaks TLS: set security_protocol to SSL or SASL_SSL";

/// Whether the bytes start a TLS record instead of a length. If so, it is safe to give up at once.
pub(super) fn is_tls(prefix: [u8; 4]) -> bool {
    matches!(prefix, [0x14..=0x17, 0x03, ..])
}

/// Explains a length that no response of a Kafka broker has.
pub(super) fn explain(bad: BadLength) -> String {
    let length = i32::from_be_bytes(bad.prefix);
    match bad.prefix {
        prefix if is_tls(prefix) => TLS_PORT.to_owned(),
        [b'H', b'T', b'T', b'P'] => {
            "the port belongs to an HTTP server, not to a Kafka broker".to_owned()
        }
        [b'S', b'S', b'H', b'-'] => {
            "the port belongs to an SSH server, not to a Kafka broker".to_owned()
        }
        _ if length < 0 => {
            format!(
                "a response has a negative length ({length}). Check that the port belongs to a \
                 Kafka broker"
            )
        }
        _ => format!(
            "a response of {length} bytes is larger than receive_message_max_bytes ({}). Check \
             that the port belongs to a Kafka broker, or raise this option",
            bad.frame_bytes_max
        ),
    }
}

/// Returns the error for a broker that responds to `ApiVersions` and closes at the next request, as
/// a listener that waits for SASL does.
pub(super) fn closed_early(tls: bool, sasl: bool) -> ConnectionError {
    if sasl {
        return ConnectionError::ClosedByPeer;
    }
    let (ours, other) = if tls {
        (SecurityProtocol::Ssl, SecurityProtocol::SaslSsl)
    } else {
        (SecurityProtocol::Plaintext, SecurityProtocol::SaslPlaintext)
    };
    ConnectionError::Io(format!(
        "the broker closed the connection without responding to a request. Does this listener \
         require SASL? security_protocol is {}. If so, set it to {}",
        ours.name(),
        other.name()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(prefix: [u8; 4]) -> String {
        explain(BadLength {
            prefix,
            frame_bytes_max: 1000,
        })
    }

    #[test]
    fn foreign_protocols_are_named() {
        assert!(reason(*b"HTTP").contains("HTTP server"));
        assert!(reason([0x15, 3, 3, 0]).contains("security_protocol"));
        assert!(reason([0xff; 4]).contains("negative"));
        assert!(reason([0, 0, 3, 233]).contains("receive_message_max_bytes"));
    }

    #[test]
    fn only_a_client_without_sasl_is_asked_about_sasl() {
        let hint = |tls, sasl| closed_early(tls, sasl).to_string();
        assert!(hint(false, false).contains("is PLAINTEXT. If so, set it to SASL_PLAINTEXT"));
        assert!(hint(true, false).contains("is SSL. If so, set it to SASL_SSL"));
        assert!(!hint(true, true).contains("SASL") && !hint(false, true).contains("SASL"));
    }
}
