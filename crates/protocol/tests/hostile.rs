//! Arbitrary bytes: every decoder returns, and agrees with the other decoders.

mod support;

use bytes::Bytes;
use proptest::prelude::*;
use thalweg_protocol::dynamic::{self, MessageSchema};
use thalweg_protocol::fuzzing::{
    fuzz_decode_data, fuzz_decode_headers, fuzz_decode_request, fuzz_decode_response,
    recode_by_name, recode_typed,
};
use thalweg_protocol::{ApiKey, DecodeError, Reader, SplitMix64};

fn all(data: &[u8]) {
    fuzz_decode_request(data);
    fuzz_decode_response(data);
    fuzz_decode_data(data);
    fuzz_decode_headers(data);
}

/// Returns the bytes of a valid message with some of them corrupted. They get further into a
/// decoder than random bytes do.
fn spoilt(schema: &MessageSchema, version: i16, random: &mut SplitMix64) -> Vec<u8> {
    let value = support::message(schema, version, 80, random);
    let mut bytes = Vec::new();
    dynamic::encode_message(schema, version, &value, &mut bytes).expect("valid");
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len() as u64 + 1) as usize;
        match (random.below(4), bytes.get_mut(at)) {
            (0, _) => bytes.truncate(at),
            (1, _) => bytes.insert(at, random.next_u64() as u8),
            (2, Some(byte)) => *byte = [0, 1, 0x7f, 0x80, 0xff][random.below(5) as usize],
            (_, Some(byte)) => *byte ^= 1 << random.below(8),
            (_, None) => {}
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn no_decoder_panics_on_noise(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        for api in dynamic::schemas() {
            for version in api.versions() {
                let mut data = vec![api.key.0 as u8, version as u8];
                data.extend_from_slice(&body);
                fuzz_decode_request(&data);
                fuzz_decode_response(&data);
            }
        }
        for (which, schema) in dynamic::data_schemas().iter().enumerate() {
            for version in schema.versions.min..=schema.versions.max {
                fuzz_decode_data(&[&[which as u8, version as u8], body.as_slice()].concat());
            }
        }
        fuzz_decode_headers(&body);
    }

    #[test]
    fn no_decoder_panics_on_a_spoilt_message(seed: u64) {
        let mut random = SplitMix64::new(seed);
        for api in dynamic::schemas() {
            for version in api.versions() {
                for (schema, fuzz) in [
                    (&api.request, fuzz_decode_request as fn(&[u8])),
                    (&api.response, fuzz_decode_response),
                ] {
                    let mut data = vec![api.key.0 as u8, version as u8];
                    data.extend(spoilt(schema, version, &mut random));
                    fuzz(&data);
                }
            }
        }
    }
}

/// The fuzzer's starting points and the failures it found, kept in `tests/corpus`. Scenario 10.
#[test]
fn the_fuzz_targets_pass_over_the_corpus() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the corpus is committed") {
        let path = entry.expect("readable").path();
        all(&std::fs::read(&path).expect("readable"));
        count += 1;
    }
    assert!(count >= 20, "{count} files");
}

#[test]
fn a_message_cut_off_anywhere_is_an_error() {
    let mut random = SplitMix64::new(5);
    for api in dynamic::schemas() {
        for version in api.versions() {
            for (schema, response) in [(&api.request, false), (&api.response, true)] {
                let value = support::message(schema, version, 90, &mut random);
                let mut bytes = Vec::new();
                dynamic::encode_message(schema, version, &value, &mut bytes).expect("valid");
                for length in 0..bytes.len() {
                    let cut = Bytes::copy_from_slice(&bytes[..length]);
                    assert!(recode_by_name(schema, version, cut.clone()).is_err());
                    let typed = recode_typed(api.key, response, version, cut);
                    assert!(typed.is_none_or(|result| result.is_err()));
                }
            }
        }
    }
}

#[test]
fn bytes_after_a_message_are_an_error() {
    let mut input = Reader::new(Bytes::from_static(&[0, 3, 9]));
    assert_eq!(
        dynamic::decode_response_body(ApiKey::HEARTBEAT, 0, &mut input),
        Err(DecodeError::TrailingBytes {
            offset: 2,
            count: 1
        })
    );
}

fn reader(bytes: &'static [u8]) -> Reader {
    Reader::new(Bytes::from_static(bytes))
}

/// A length or count that exceeds the frame is an error and allocates no gigabytes. Scenario 10.
#[test]
fn lengths_are_checked_before_anything_is_made_of_them() {
    let truncated = |result: Result<Option<Vec<i32>>, DecodeError>| {
        assert!(
            matches!(result, Err(DecodeError::Truncated { .. })),
            "{result:?}"
        );
    };
    let ints = |bytes, compact| reader(bytes).nullable_array(compact, 4, Reader::i32);
    truncated(ints(&[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1], false));
    truncated(ints(&[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 1], true));
    // Two elements announced, but only seven bytes.
    truncated(ints(&[3, 0, 0, 0, 0, 0, 0, 0], true));
    assert_eq!(ints(&[0xff, 0xff, 0xff, 0xff], false), Ok(None));
    assert_eq!(
        ints(&[0xff, 0xff, 0xff, 0xfe], false),
        Err(DecodeError::NegativeLength {
            offset: 0,
            length: -2
        })
    );
    assert_eq!(
        reader(&[0x80, 0, 1]).string(false),
        Err(DecodeError::NegativeLength {
            offset: 0,
            length: -32768
        })
    );
    assert_eq!(
        reader(&[0]).string(true),
        Err(DecodeError::UnexpectedNull { offset: 0 })
    );
    assert_eq!(
        reader(&[3, 0xff, 0xfe]).string(true),
        Err(DecodeError::NotUtf8 { offset: 1 })
    );
    assert!(matches!(
        reader(&[9, 1]).bytes(true),
        Err(DecodeError::Truncated { .. })
    ));
}

#[test]
fn a_varint_has_at_most_32_bits() {
    assert_eq!(
        reader(&[0xff, 0xff, 0xff, 0xff, 0x0f]).uvarint(),
        Ok(u32::MAX)
    );
    assert_eq!(reader(&[0x80, 0x01]).uvarint(), Ok(128));
    for bytes in [&[0xff, 0xff, 0xff, 0xff, 0x1f], &[0x80_u8; 5]] {
        let result = Reader::new(Bytes::copy_from_slice(bytes)).uvarint();
        assert_eq!(result, Err(DecodeError::VarintTooLong { offset: 0 }));
    }
    assert!(matches!(
        reader(&[0x80]).uvarint(),
        Err(DecodeError::Truncated { .. })
    ));
}

#[test]
fn an_optional_struct_is_there_or_not() {
    assert_eq!(reader(&[0xff]).nullable_struct(Reader::i8), Ok(None));
    assert_eq!(reader(&[1, 5]).nullable_struct(Reader::i8), Ok(Some(5)));
    assert_eq!(
        reader(&[7, 5]).nullable_struct(Reader::i8),
        Err(DecodeError::BadStructMarker {
            offset: 0,
            marker: 7
        })
    );
}
