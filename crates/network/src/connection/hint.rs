//! Recognises bytes that no Kafka broker sends, and explains their probable cause.

use thalweg_cluster::ConnectionError;

pub(super) const TLS_PORT: &str = "the port speaks TLS: set security_protocol to SSL or SASL_SSL";

/// Checks a frame's length before anything is allocated for it.
pub(super) fn frame_length(prefix: [u8; 4], max: usize) -> Result<usize, ConnectionError> {
    let length = i32::from_be_bytes(prefix);
    match usize::try_from(length) {
        Ok(length) if length <= max => Ok(length),
        _ => Err(ConnectionError::Malformed(explain(prefix, length, max))),
    }
}

/// Whether the bytes start a TLS record instead of a length. If so, it is safe to give up at once.
pub(super) fn is_tls(prefix: [u8; 4]) -> bool {
    matches!(prefix, [0x14..=0x17, 0x03, ..])
}

fn explain(prefix: [u8; 4], length: i32, max: usize) -> String {
    match prefix {
        _ if is_tls(prefix) => TLS_PORT.to_owned(),
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
            "a response of {length} bytes is larger than receive_message_max_bytes ({max}). Check \
             that the port belongs to a Kafka broker, or raise this option"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(prefix: [u8; 4]) -> String {
        frame_length(prefix, 1000)
            .expect_err("a bad prefix")
            .to_string()
    }

    #[test]
    fn a_good_length_passes() {
        assert_eq!(frame_length([0, 0, 3, 232], 1000), Ok(1000));
        assert_eq!(frame_length([0; 4], 1000), Ok(0));
    }

    #[test]
    fn foreign_protocols_are_named() {
        assert!(reason(*b"HTTP").contains("HTTP server"));
        assert!(reason([0x15, 3, 3, 0]).contains("security_protocol"));
        assert!(reason([0xff; 4]).contains("negative"));
        assert!(reason([0, 0, 3, 233]).contains("receive_message_max_bytes"));
    }
}
