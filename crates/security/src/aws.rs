//! `AWS_MSK_IAM`, the broker's side: a login is a request that is signed as AWS wants it (Signature
//! Version 4).
//!
//! ```text
//!   JSON ─▶ Login::parse ─▶ access_key() ─▶ is_signed_with(the secret key of that user)
//! ```
//! A signature covers the host that the client has connected to. It is not compared with the
//! broker's own name, because a client may know the broker by several.

use ring::{digest, hmac};
use serde_json::{Map, Value};

use crate::{Refusal, Secret};

pub const MECHANISM: &str = "AWS_MSK_IAM";
const VERSION: &str = "2020_10_22";
const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const SERVICE: &str = "kafka-cluster";
const ACTION: &str = "kafka-cluster:Connect";
/// How much the clocks of a client and a broker may differ.
const SKEW_MS: i64 = 15 * 60 * 1000;
const EXPIRES_MAX_S: i64 = 15 * 60;

/// What a client has sent. The signature is not checked yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    host: String,
    access_key: String,
    /// `<day>/<region>/kafka-cluster/aws4_request`
    scope: String,
    date: String,
    expires_s: i64,
    session_token: Option<Secret>,
    signature: Secret,
}

/// The words for all logins that AWS does not allow.
pub fn access_denied(request_id: &str) -> Refusal {
    Refusal::new(format!("[{request_id}]: Access denied"))
}

/// The broker's message after a login.
pub fn accepted(request_id: &str) -> Vec<u8> {
    format!(r#"{{"version":"{VERSION}","request-id":"{request_id}"}}"#).into_bytes()
}

impl Login {
    /// Reads a client's message. `None`: it is not a login.
    pub fn parse(message: &[u8]) -> Option<Self> {
        let Ok(Value::Object(fields)) = serde_json::from_slice(message) else {
            return None;
        };
        let text = |name: &str| text(&fields, name);
        let is_known = text("version")? == VERSION
            && text("action")? == ACTION
            && text("x-amz-algorithm")? == ALGORITHM
            && text("x-amz-signedheaders")? == "host";
        if !is_known {
            return None;
        }
        let (access_key, scope) = text("x-amz-credential")?.split_once('/')?;
        let parts: Vec<&str> = scope.split('/').collect();
        let [day, region, SERVICE, "aws4_request"] = parts[..] else {
            return None;
        };
        let date = text("x-amz-date")?;
        if access_key.is_empty() || region.is_empty() || date.get(..8) != Some(day) {
            return None;
        }
        Some(Self {
            host: text("host")?.to_owned(),
            access_key: access_key.to_owned(),
            scope: scope.to_owned(),
            date: date.to_owned(),
            expires_s: text("x-amz-expires")?.parse().ok()?,
            session_token: text("x-amz-security-token").map(Secret::new),
            signature: Secret::new(text("x-amz-signature")?),
        })
    }

    /// Returns the ID of the access key, which is the name of the user.
    pub fn access_key(&self) -> &str {
        &self.access_key
    }

    /// Whether this secret key signed the login, and the login is valid now.
    pub fn is_signed_with(&self, secret_key: &Secret, now_ms: i64) -> bool {
        let Some(signed_ms) = unix_ms(&self.date) else {
            return false;
        };
        let is_valid_now = (now_ms - signed_ms).abs() <= SKEW_MS
            && (1..=EXPIRES_MAX_S).contains(&self.expires_s)
            && now_ms < signed_ms + self.expires_s * 1000;
        let Some(signature) = from_hex(self.signature.reveal()) else {
            return false;
        };
        let first = Secret::new(format!("AWS4{}", secret_key.reveal()));
        let mut key = hmac::Key::new(hmac::HMAC_SHA256, first.reveal().as_bytes());
        for part in self.scope.split('/') {
            key = hmac::Key::new(
                hmac::HMAC_SHA256,
                hmac::sign(&key, part.as_bytes()).as_ref(),
            );
        }
        hmac::verify(&key, self.text_to_sign().as_bytes(), &signature).is_ok() && is_valid_now
    }

    fn text_to_sign(&self) -> String {
        let request = format!(
            "GET\n/\n{}\nhost:{}\n\nhost\n{}",
            self.query(),
            self.host,
            sha256(b"")
        );
        let (date, scope) = (&self.date, &self.scope);
        format!(
            "{ALGORITHM}\n{date}\n{scope}\n{}",
            sha256(request.as_bytes())
        )
    }

    /// Returns the query in the order of its names.
    fn query(&self) -> String {
        let credential = format!("{}/{}", self.access_key, self.scope);
        let expires = self.expires_s.to_string();
        let token = self.session_token.as_ref().map(Secret::reveal);
        let fields = [
            ("Action", Some(ACTION)),
            ("X-Amz-Algorithm", Some(ALGORITHM)),
            ("X-Amz-Credential", Some(&*credential)),
            ("X-Amz-Date", Some(&*self.date)),
            ("X-Amz-Expires", Some(&*expires)),
            ("X-Amz-Security-Token", token),
            ("X-Amz-SignedHeaders", Some("host")),
        ];
        let pairs = fields.iter().filter_map(|(name, value)| {
            let value = percent_encoded((*value)?);
            Some(format!("{name}={value}"))
        });
        pairs.collect::<Vec<_>>().join("&")
    }
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    fields.get(name)?.as_str()
}

fn sha256(data: &[u8]) -> String {
    let mut text = String::new();
    for byte in digest::digest(&digest::SHA256, data).as_ref() {
        push_hex(&mut text, *byte, b"0123456789abcdef");
    }
    text
}

fn percent_encoded(value: &str) -> String {
    let mut encoded = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            push_hex(&mut encoded, byte, b"0123456789ABCDEF");
        }
    }
    encoded
}

fn push_hex(text: &mut String, byte: u8, digits: &[u8; 16]) {
    for digit in [byte >> 4, byte & 15] {
        text.push(char::from(digits[usize::from(digit)]));
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = text.as_bytes().chunks(2).map(|pair| match *pair {
        [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
        _ => None,
    });
    pairs.collect()
}

/// Returns a time such as `20250615T150640Z` in Unix milliseconds.
fn unix_ms(date: &str) -> Option<i64> {
    let date = date.strip_suffix('Z')?;
    let (day, time) = date.split_once('T')?;
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if day.len() != 8 || time.len() != 6 || !is_digits(day) || !is_digits(time) {
        return None;
    }
    let number = |text: &str| text.parse::<i64>().ok();
    let (year, month, day) = (number(&day[..4])?, number(&day[4..6])?, number(&day[6..])?);
    let (hour, minute, second) = (
        number(&time[..2])?,
        number(&time[2..4])?,
        number(&time[4..])?,
    );
    let is_time = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    is_time.then(|| {
        let seconds = days_since_1970(year, month, day) * 86_400;
        (seconds + hour * 3600 + minute * 60 + second) * 1000
    })
}

/// Counts from March, so that the leap day is the last day of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW_MS: i64 = 1_750_000_000_000;
    /// What botocore signs at that time with the secret key `s3cret/+`: `tests/interop/test_aws.py`
    /// compares our client with botocore.
    const SIGNED: &str = r#"{"version":"2020_10_22","host":"b-1.x.kafka.eu-west-1.amazonaws.com","user-agent":"x","action":"kafka-cluster:Connect","x-amz-algorithm":"AWS4-HMAC-SHA256","x-amz-credential":"AKIDEXAMPLE/20250615/eu-west-1/kafka-cluster/aws4_request","x-amz-date":"20250615T150640Z","x-amz-expires":"900","x-amz-signedheaders":"host","x-amz-security-token":"t/+=&%~*","x-amz-signature":"8b8699208876dfcc28f6e221d01d06b940a37b721341e14f812eb5c7177a1c46"}"#;

    fn login(message: &str) -> Option<Login> {
        Login::parse(message.as_bytes())
    }

    fn is_accepted(message: &str, secret_key: &str, now_ms: i64) -> bool {
        login(message).is_some_and(|login| login.is_signed_with(&Secret::new(secret_key), now_ms))
    }

    #[test]
    fn only_the_secret_key_of_the_user_signs() {
        assert_eq!(login(SIGNED).expect("a login").access_key(), "AKIDEXAMPLE");
        assert!(is_accepted(SIGNED, "s3cret/+", NOW_MS));
        assert!(!is_accepted(SIGNED, "s3cret/", NOW_MS));
        assert!(!is_accepted(SIGNED, "", NOW_MS));
    }

    #[test]
    fn a_login_is_valid_for_fifteen_minutes() {
        let minutes = |count: i64| NOW_MS + count * 60_000;
        assert!(is_accepted(SIGNED, "s3cret/+", minutes(14)));
        assert!(is_accepted(SIGNED, "s3cret/+", minutes(-15)));
        for wrong in [15, 16, -16, 60 * 24 * 365] {
            assert!(!is_accepted(SIGNED, "s3cret/+", minutes(wrong)), "{wrong}");
        }
    }

    #[test]
    fn whatever_is_changed_is_refused() {
        for (from, to) in [
            ("b-1.x", "b-2.x"),
            ("AKIDEXAMPLE", "AKIDOTHER"),
            ("eu-west-1/kafka", "eu-west-2/kafka"),
            ("20250615T150640Z", "20250615T150641Z"),
            ("20250615/", "20250616/"),
            (r#""900""#, r#""899""#),
            (r#""900""#, r#""90000""#),
            ("t/+=&%~*", "t/+=&%~"),
            ("kafka-cluster:Connect", "kafka-cluster:Read"),
            ("2020_10_22", "2021_10_22"),
            ("AWS4-HMAC-SHA256", "AWS4-HMAC-SHA1"),
            ("x-amz-signature", "x-amz-sign"),
        ] {
            let changed = SIGNED.replace(from, to);
            assert_ne!(changed, SIGNED, "{from}");
            assert!(!is_accepted(&changed, "s3cret/+", NOW_MS), "{from}");
        }
    }

    #[test]
    fn debug_hides_the_token_and_the_signature() {
        let shown = format!("{:?}", login(SIGNED));
        assert!(shown.contains("AKIDEXAMPLE"), "{shown}");
        assert!(!shown.contains("t/+=&%~*"), "{shown}");
        let signature = login(SIGNED).expect("a login").signature;
        assert!(!shown.contains(signature.reveal()), "{shown}");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(unix_ms("19700101T000000Z"), Some(0));
        assert_eq!(unix_ms("20250615T150640Z"), Some(NOW_MS));
        assert_eq!(unix_ms("20240229T235959Z"), Some(1_709_251_199_000));
        assert_eq!(unix_ms("20000301T000000Z"), Some(951_868_800_000));
        for wrong in [
            "",
            "20250615T150640",
            "20251315T150640Z",
            "2025é615T150640Z",
            "+0250615T150640Z",
        ] {
            assert_eq!(unix_ms(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_and_any_fields_are_read_or_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            date in ".{0,20}",
            signature in ".{0,10}",
            expires in ".{0,20}",
        ) {
            prop_assert_eq!(Login::parse(&bytes), None);
            let changed = SIGNED.replace("20250615T150640Z", &date.replace(['"', '\\'], ""));
            let mut login = login(SIGNED).expect("a login");
            (login.date, login.signature) = (date, Secret::new(signature));
            prop_assert!(!login.is_signed_with(&Secret::new("s3cret/+"), NOW_MS));
            let expires = expires.replace(['"', '\\'], "");
            let _ = Login::parse(changed.replace("900", &expires).as_bytes());
        }
    }
}
