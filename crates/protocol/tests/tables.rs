//! The tables of errors, API keys and versions, and the small types.

use std::collections::{BTreeMap, HashMap};

use thalweg_protocol::versions::{
    TransactionVersion, client_versions, negotiate, negotiate_transactional,
};
use thalweg_protocol::{ApiKey, ErrorCode, Str, Uuid, dynamic};

#[test]
fn error_codes_follow_each_other_without_gaps() {
    let codes: Vec<i16> = ErrorCode::all().map(|code| code.0).collect();
    assert_eq!(codes[0], -1);
    assert!(codes.windows(2).all(|pair| pair[1] == pair[0] + 1));
    for code in ErrorCode::all() {
        assert_eq!(ErrorCode::from_name(code.name()), Some(code));
        assert!(!code.message().is_empty());
    }
}

#[test]
fn errors_know_their_families() {
    let families = |code: ErrorCode| {
        (
            code.is_retriable(),
            code.is_invalid_metadata(),
            code.needs_refresh(),
        )
    };
    assert_eq!(families(ErrorCode::NONE), (false, false, false));
    assert_eq!(
        families(ErrorCode::NOT_LEADER_OR_FOLLOWER),
        (true, true, true)
    );
    assert_eq!(families(ErrorCode::NOT_COORDINATOR), (true, false, true));
    assert_eq!(families(ErrorCode::REQUEST_TIMED_OUT), (true, false, false));
    assert_eq!(
        families(ErrorCode::MESSAGE_TOO_LARGE),
        (false, false, false)
    );
    assert!(ErrorCode::ILLEGAL_GENERATION.is_application_recoverable());
    assert!(ErrorCode::INVALID_TOPIC_EXCEPTION.is_invalid_configuration());
    assert_eq!(ErrorCode::NOT_LEADER_OR_FOLLOWER.0, 6);
    assert_eq!(
        ErrorCode::NOT_LEADER_OR_FOLLOWER.exception_name(),
        "NotLeaderOrFollowerException"
    );
}

#[test]
fn an_unknown_error_code_is_an_error_that_says_so() {
    for code in [i16::MIN, -2, 999, i16::MAX] {
        let code = ErrorCode(code);
        assert!(!code.is_known() && code.is_error() && !code.is_retriable());
        assert_eq!(code.name(), "UNKNOWN");
        assert_eq!(code.to_string(), format!("error code {}", code.0));
    }
}

#[test]
fn api_keys_have_names_and_versions() {
    assert_eq!(ApiKey::FETCH, ApiKey(1));
    assert_eq!(ApiKey::FETCH.name(), "Fetch");
    assert_eq!(ApiKey::from_name("Fetch"), Some(ApiKey::FETCH));
    assert_eq!(ApiKey::PRODUCE.valid_versions(), Some(3..=13));
    // Version 6 is not stable in Kafka 4.3.
    assert_eq!(ApiKey::INIT_PRODUCER_ID.valid_versions(), Some(0..=5));
    assert_eq!(ApiKey(4).valid_versions(), None);
    let keys: Vec<i16> = dynamic::schemas().iter().map(|api| api.key.0).collect();
    assert!(keys.is_sorted());
    for key in keys {
        assert_eq!(ApiKey::from_name(ApiKey(key).name()), Some(ApiKey(key)));
    }
}

#[test]
fn every_api_that_broker_and_admin_speak_is_in_the_table() {
    let keys = [
        0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 28,
        29, 30, 31, 32, 33, 34, 35, 36, 37, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 55, 57, 60, 61,
        65, 66, 68, 69, 71, 72, 74, 75, 76, 77, 78, 79, 88, 89, 90, 91, 92,
    ];
    for key in keys {
        assert!(ApiKey(key).valid_versions().is_some(), "API key {key}");
    }
}

#[test]
fn the_newest_common_version_is_used() {
    assert_eq!(negotiate(ApiKey::PRODUCE, 0, 20), Some(13));
    assert_eq!(negotiate(ApiKey::PRODUCE, 0, 7), Some(7));
    assert_eq!(negotiate(ApiKey::PRODUCE, 0, 2), None);
    assert_eq!(negotiate(ApiKey::PRODUCE, 14, 20), None);
    assert_eq!(negotiate(ApiKey(4), 0, 9), None);
    // Only brokers use versions 4 and 5, among themselves.
    assert_eq!(negotiate(ApiKey::ADD_PARTITIONS_TO_TXN, 0, 5), Some(3));
    assert_eq!(client_versions(ApiKey::ADD_PARTITIONS_TO_TXN), Some(0..=3));
}

#[test]
fn transactions_of_the_first_kind_cap_what_is_sent() {
    let newest = |key, version| negotiate_transactional(key, version, 0, 99);
    let (v1, v2) = (TransactionVersion::V1, TransactionVersion::V2);
    assert_eq!(newest(ApiKey::PRODUCE, v1), Some(11));
    assert_eq!(newest(ApiKey::PRODUCE, v2), Some(13));
    assert_eq!(newest(ApiKey::TXN_OFFSET_COMMIT, v1), Some(4));
    assert_eq!(newest(ApiKey::TXN_OFFSET_COMMIT, v2), Some(5));
    assert_eq!(newest(ApiKey::END_TXN, v1), Some(4));
    assert_eq!(newest(ApiKey::END_TXN, v2), Some(5));
    assert_eq!(newest(ApiKey::ADD_PARTITIONS_TO_TXN, v1), Some(3));
    assert_eq!(newest(ApiKey::ADD_PARTITIONS_TO_TXN, v2), None);
    assert_eq!(newest(ApiKey::ADD_OFFSETS_TO_TXN, v2), None);
    assert_eq!(newest(ApiKey::INIT_PRODUCER_ID, v1), Some(5));
}

#[test]
fn a_uuid_is_shown_as_kafka_shows_it() {
    // Uuid.ZERO_UUID, Uuid.ONE_UUID, and a random one from Kafka.
    assert_eq!(Uuid::ZERO.to_string(), "AAAAAAAAAAAAAAAAAAAAAA");
    assert_eq!(
        Uuid::from_u64_pair(0, 1).to_string(),
        "AAAAAAAAAAAAAAAAAAAAAQ"
    );
    let id = Uuid::from_u64_pair(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);
    assert_eq!(id.to_string(), "ASNFZ4mrze_-3LqYdlQyEA");
    for text in [
        "AAAAAAAAAAAAAAAAAAAAAA",
        "ASNFZ4mrze_-3LqYdlQyEA",
        "_____________________w",
    ] {
        assert_eq!(text.parse::<Uuid>().expect("valid").to_string(), text);
    }
    for text in [
        "",
        "AAAA",
        "AAAAAAAAAAAAAAAAAAAAA=",
        "AAAAAAAAAAAAAAAAAAAAAB",
        "水水水水水水水a",
    ] {
        assert!(text.parse::<Uuid>().is_err(), "{text}");
    }
}

#[test]
fn a_str_can_be_asked_for_as_str() {
    let by_hash = HashMap::from([(Str::from("topic"), 1)]);
    let by_order = BTreeMap::from([(Str::from("topic"), 1)]);
    assert_eq!(
        (by_hash.get("topic"), by_order.get("topic")),
        (Some(&1), Some(&1))
    );
    assert_eq!(Str::from_static("a"), "a");
    assert_eq!(Str::from("a").detached(), Str::from(String::from("a")));
    assert!(Str::from_utf8(bytes::Bytes::from_static(&[0xff])).is_err());
    assert_eq!(format!("{0} {0:?}", Str::from("ß")), "ß \"ß\"");
}
