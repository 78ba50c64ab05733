//! What is appended is in the log: keys, values, headers and times, whatever they are.

use std::time::Duration;

use proptest::prelude::*;
use thalweg_producer::{ProducerConfig, Record};
use thalweg_records::{Compression, HeaderRef, Headers};

use crate::world::{TOPIC, World, config, offset};

const LATEST_MS: i64 = 1 << 41;

#[derive(Debug, Clone)]
struct Given {
    timestamp_ms: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

fn bytes(len_max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..=len_max)
}

fn header() -> impl Strategy<Value = (Vec<u8>, Option<Vec<u8>>)> {
    // Few names, so that they repeat within a record.
    let name = prop::sample::select(vec!["", "a", "b", "größe"]);
    let name = name.prop_map(|name| name.as_bytes().to_vec());
    (name, prop::option::of(bytes(40)))
}

fn given() -> impl Strategy<Value = Given> {
    let value = prop_oneof![
        8 => prop::option::of(bytes(300)),
        // A value of many chunks.
        1 => Just(Some(vec![3_u8; 40_000])),
    ];
    (
        -1..LATEST_MS,
        prop::option::of(bytes(40)),
        value,
        prop::collection::vec(header(), 0..5),
    )
        .prop_map(|(timestamp_ms, key, value, headers)| Given {
            timestamp_ms,
            key,
            value,
            headers,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn what_is_appended_is_what_is_in_the_log(
        records in prop::collection::vec(given(), 1..40),
        batch_size in prop::sample::select(vec![300_usize, 2_000, 16_384]),
        codec in prop::sample::select(Compression::ALL.to_vec()),
    ) {
        let config = ProducerConfig {
            batch_size,
            compression: codec,
            linger: Duration::from_millis(5),
            ..config()
        };
        let mut world = World::ready(config, 1, 1);
        let append = |one: &Given| {
            let headers: Vec<HeaderRef<'_>> = one
                .headers
                .iter()
                .map(|(key, value)| HeaderRef { key, value: value.as_deref() })
                .collect();
            world.append(&Record {
                timestamp_ms: one.timestamp_ms,
                key: one.key.as_deref(),
                value: one.value.as_deref(),
                headers: Headers::List(&headers),
                ..Record::default()
            })
        };
        let sent: Vec<_> = records.iter().map(append).collect();
        world.advance_ms(20);
        let stored = &world.brokers.log(TOPIC, 0).records;
        prop_assert_eq!(stored.len(), records.len());
        for (at, (one, found)) in records.iter().zip(stored).enumerate() {
            prop_assert_eq!(offset(&sent[at]), at as i64);
            prop_assert_eq!(found.offset, at as i64);
            prop_assert_eq!(found.timestamp, one.timestamp_ms);
            prop_assert_eq!(&found.key, &one.key);
            prop_assert_eq!(&found.value, &one.value);
            prop_assert_eq!(&found.headers, &one.headers, "in order, names more than once");
        }
    }
}
