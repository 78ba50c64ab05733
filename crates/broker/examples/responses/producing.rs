//! Valid and invalid Produce requests.

use thalweg_protocol::Uuid;
use thalweg_records::{BatchBuilder, BatchHeader, Headers};

use crate::bodies::{batch, now_ms, plain, produce_to};
use crate::client::Client;
use crate::fetching::fetch_of;

pub(crate) fn ask(client: &mut Client) {
    let id = client.create("produce", 1, &[]);
    let mut corrupt = plain(&[5]);
    *corrupt.last_mut().expect("is not empty") ^= 1;
    let mut old = plain(&[5]);
    old[16] = 1;
    let mut odd = plain(&[5]);
    odd[16] = 9;
    let mut short = plain(&[5]);
    short.truncate(70);
    let mut offset = plain(&[5]);
    offset[7] = 3;
    let mut control = BatchHeader::default();
    control.attributes = control.attributes.with_control(true);
    let mut transactional = BatchHeader {
        producer_id: 5,
        producer_epoch: 0,
        base_sequence: 0,
        ..BatchHeader::default()
    };
    transactional.attributes = transactional.attributes.with_transactional(true);
    let mut counts = BatchBuilder::new(0);
    counts.append_fields(&thalweg_records::RecordFields {
        offset_delta: 3,
        timestamp_delta: 0,
        key: None,
        value: None,
        headers: Headers::NONE,
    });
    let large = {
        let mut builder = BatchBuilder::new(0);
        builder.append(5, None, Some(&vec![1; 1_100_000]), Headers::NONE);
        builder.finish()
    };
    let no_sequence = BatchHeader {
        producer_id: 5,
        producer_epoch: 0,
        ..BatchHeader::default()
    };
    let unknown_codec = {
        let mut header = BatchHeader::default();
        header.attributes.0 |= 6;
        let section = plain(&[5])[61..].to_vec();
        header.records_count = 1;
        [header.finish([&section[..]]).to_vec(), section].concat()
    };
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("good", plain(&[5, 6])),
        ("two batches", [plain(&[5]), plain(&[5])].concat()),
        ("trailing bytes", [plain(&[5]), vec![0; 20]].concat()),
        ("nothing", vec![]),
        ("corrupt", corrupt),
        ("old magic", old),
        ("odd magic", odd),
        ("short", short),
        ("base offset", offset),
        ("control", batch(control, &[5], None)),
        ("transactional", batch(transactional, &[5], None)),
        ("counts", counts.finish()),
        ("large", large),
        (
            "future",
            plain(&[now_ms() + 3_000_000, now_ms() + 4_000_000]),
        ),
        ("minus one", plain(&[-1])),
        ("no sequence", batch(no_sequence, &[5], None)),
        ("unknown codec", unknown_codec),
    ];
    for (what, records) in cases {
        let what = format!("produce {what}");
        if let Some(mut response) = client.quietly(&produce_to("produce", id, 0, &records), 12) {
            // Kafka's messages name the log, but ours do not.
            for partition in response
                .responses
                .iter_mut()
                .flat_map(|t| &mut t.partition_responses)
            {
                partition.error_message = partition.error_message.take().map(|_| "SOME".into());
                for error in &mut partition.record_errors {
                    error.batch_index_error_message = Some("SOME".into());
                }
            }
            client.show(&what, &response);
        } else {
            println!("{what}: closed\n");
        }
    }
    for version in [3, 5, 8, 9, 10, 11, 12, 13] {
        client.ask(
            "produce",
            &produce_to("produce", id, 0, &plain(&[7])),
            version,
        );
    }
    client.ask(
        "produce, partition",
        &produce_to("produce", id, 9, &plain(&[7])),
        12,
    );
    client.ask(
        "produce, partition",
        &produce_to("produce", id, -1, &plain(&[7])),
        12,
    );
    client.ask(
        "produce, topic",
        &produce_to("nope", id, 0, &plain(&[7])),
        12,
    );
    let unknown = Uuid::from_u64_pair(1, 2);
    client.ask(
        "produce, topic id",
        &produce_to("nope", unknown, 0, &plain(&[7])),
        13,
    );
    let mut acks = produce_to("produce", id, 0, &plain(&[7]));
    acks.acks = 2;
    client.ask("produce, acks 2", &acks, 12);
    let id = client.create("compacted", 1, &[("cleanup.policy", "compact")]);
    client.ask(
        "produce, keyless",
        &produce_to("compacted", id, 0, &plain(&[7, 8])),
        12,
    );
    let keyed = batch(BatchHeader::default(), &[7], Some(b"k"));
    client.ask(
        "produce, keyed",
        &produce_to("compacted", id, 0, &keyed),
        12,
    );
    let id = client.create("in-sync", 1, &[("min.insync.replicas", "2")]);
    client.ask(
        "produce, in sync",
        &produce_to("in-sync", id, 0, &plain(&[7])),
        12,
    );
    let id = client.create(
        "append-time",
        1,
        &[("message.timestamp.type", "LogAppendTime")],
    );
    let before = now_ms();
    if let Some(response) = client.quietly(&produce_to("append-time", id, 0, &plain(&[7])), 12) {
        let at = response.responses[0].partition_responses[0].log_append_time_ms;
        println!("append time: {}\n", (before..=now_ms()).contains(&at));
    }
    let id = client.create("recompress", 1, &[("compression.type", "gzip")]);
    client.ask(
        "produce, recompress",
        &produce_to("recompress", id, 0, &plain(&[7])),
        12,
    );
    let ask = fetch_of("recompress", id, 0, 0);
    if let Some(response) = client.quietly(&ask, 12) {
        let records = response.responses[0].partitions[0]
            .records
            .clone()
            .expect("has records");
        let codec = thalweg_records::batches(records)
            .next()
            .expect("one")
            .expect("good");
        println!("recompressed: {:?}\n", codec.compression());
    }
}
