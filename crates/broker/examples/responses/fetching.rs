//! Fetch, with and without sessions.

use std::time::Duration;

use bytes::Bytes;
use thalweg_protocol::Uuid;
use thalweg_protocol::messages::fetch;

use crate::bodies::{plain, produce_to};
use crate::client::Client;

pub(crate) fn fetch_of(
    name: &str,
    id: Uuid,
    partition: i32,
    fetch_offset: i64,
) -> fetch::FetchRequest {
    fetch::FetchRequest {
        max_wait_ms: 300,
        min_bytes: 1,
        max_bytes: 1 << 20,
        topics: vec![fetch::FetchTopic {
            topic: name.into(),
            topic_id: id,
            partitions: vec![fetch::FetchPartition {
                partition,
                fetch_offset,
                partition_max_bytes: 1 << 20,
                ..Default::default()
            }],
        }],
        ..Default::default()
    }
}

pub(crate) fn ask(client: &mut Client) {
    let id = client.create("fetch", 2, &[]);
    for _ in 0..3 {
        client.quietly(&produce_to("fetch", id, 0, &plain(&[5, 6, 7])), 12);
    }
    let mut ask = |what: &str, request: &fetch::FetchRequest, version| {
        show_fetch(client, what, request, version)
    };
    for version in 4..=18 {
        ask("fetch", &fetch_of("fetch", id, 0, 4), version);
    }
    ask("fetch, end", &fetch_of("fetch", id, 0, 9), 17);
    ask("fetch, beyond", &fetch_of("fetch", id, 0, 10), 17);
    ask("fetch, negative", &fetch_of("fetch", id, 0, -1), 17);
    ask("fetch, partition", &fetch_of("fetch", id, 9, 0), 17);
    ask("fetch, topic", &fetch_of("nope", id, 0, 0), 12);
    ask(
        "fetch, topic id",
        &fetch_of("", Uuid::from_u64_pair(1, 2), 0, 0),
        17,
    );
    ask("fetch, zero id", &fetch_of("", Uuid::ZERO, 0, 0), 17);
    let with = |change: &dyn Fn(&mut fetch::FetchRequest)| {
        let mut request = fetch_of("fetch", id, 0, 0);
        change(&mut request);
        request
    };
    let set = |change: &dyn Fn(&mut fetch::FetchPartition)| {
        with(&|request| change(&mut request.topics[0].partitions[0]))
    };
    ask(
        "fetch, committed",
        &with(&|request| request.isolation_level = 1),
        17,
    );
    ask(
        "fetch, one byte",
        &with(&|request| request.max_bytes = 1),
        17,
    );
    ask(
        "fetch, partition byte",
        &set(&|partition| partition.partition_max_bytes = 1),
        17,
    );
    ask(
        "fetch, two",
        &set(&|partition| partition.partition_max_bytes = 200),
        17,
    );
    ask(
        "fetch, epoch 0",
        &set(&|partition| partition.current_leader_epoch = 0),
        17,
    );
    ask(
        "fetch, epoch 7",
        &set(&|partition| partition.current_leader_epoch = 7),
        17,
    );
    ask(
        "fetch, fetched 0",
        &set(&|partition| partition.last_fetched_epoch = 0),
        17,
    );
    ask(
        "fetch, fetched 3",
        &set(&|partition| partition.last_fetched_epoch = 3),
        17,
    );
    let diverged = |partition: &mut fetch::FetchPartition| {
        partition.last_fetched_epoch = 0;
        partition.fetch_offset = 12;
    };
    ask("fetch, diverged", &set(&diverged), 17);
    // Sessions.
    let session = |session_id, session_epoch, change: &dyn Fn(&mut fetch::FetchRequest)| {
        let mut request = fetch_of("fetch", id, 0, 9);
        let mut other = request.topics[0].partitions[0].clone();
        other.partition = 1;
        other.fetch_offset = 0;
        request.topics[0].partitions.push(other);
        request.session_id = session_id;
        request.session_epoch = session_epoch;
        change(&mut request);
        request
    };
    let Some(opened) = ask("session, open", &session(0, 0, &|_| {}), 17) else {
        return;
    };
    let empty = |request: &mut fetch::FetchRequest| request.topics.clear();
    ask(
        "session, nothing new",
        &session(opened.session_id, 1, &empty),
        17,
    );
    client.quietly(&produce_to("fetch", id, 1, &plain(&[5])), 12);
    let mut ask = |what: &str, request: &fetch::FetchRequest, version| {
        show_fetch(client, what, request, version)
    };
    ask("session, news", &session(opened.session_id, 2, &empty), 17);
    ask(
        "session, same news",
        &session(opened.session_id, 3, &empty),
        17,
    );
    ask(
        "session, moved on",
        &session(opened.session_id, 4, &|request| {
            request.topics[0].partitions.remove(0);
            request.topics[0].partitions[0].fetch_offset = 1;
        }),
        17,
    );
    ask(
        "session, old epoch",
        &session(opened.session_id, 4, &empty),
        17,
    );
    ask(
        "session, unknown",
        &session(opened.session_id ^ 1, 1, &empty),
        17,
    );
    ask(
        "session, by name",
        &session(opened.session_id, 5, &empty),
        12,
    );
    ask(
        "session, out of range",
        &session(opened.session_id, 5, &|request| {
            request.topics[0].partitions.remove(0);
            request.topics[0].partitions[0].fetch_offset = 70;
        }),
        17,
    );
    ask(
        "session, still out of range",
        &session(opened.session_id, 6, &empty),
        17,
    );
    let forget = |partitions: &[i32]| {
        let partitions = partitions.to_vec();
        move |request: &mut fetch::FetchRequest| {
            request.topics.clear();
            request.forgotten_topics_data = vec![fetch::ForgottenTopic {
                topic: "fetch".into(),
                topic_id: id,
                partitions: partitions.clone(),
            }];
        }
    };
    ask(
        "session, forgotten",
        &session(opened.session_id, 7, &forget(&[1])),
        17,
    );
    ask(
        "session, empty",
        &session(opened.session_id, 8, &forget(&[0])),
        17,
    );
    ask("session, gone", &session(opened.session_id, 9, &empty), 17);
    ask("session, final", &session(0, -1, &|_| {}), 17);
}

pub(crate) fn show_fetch(
    client: &mut Client,
    what: &str,
    request: &fetch::FetchRequest,
    version: i16,
) -> Option<fetch::FetchResponse> {
    let started = std::time::Instant::now();
    let mut response = client.quietly(request, version)?;
    let waited = started.elapsed() > Duration::from_millis(250);
    let original = response.clone();
    response.session_id = i32::from(response.session_id != 0);
    for partition in response
        .responses
        .iter_mut()
        .flat_map(|topic| &mut topic.partitions)
    {
        // Kafka truncates the last batch at the limit. We leave it out.
        let batches = partition.records.take().map(|records| {
            let offsets: Vec<i64> = thalweg_records::batches(records)
                .map(|batch| batch.expect("is good").base_offset())
                .collect();
            format!("{offsets:?}")
        });
        partition.records = batches.map(Bytes::from);
    }
    client.show(&format!("{what} v{version}, waited {waited}"), &response);
    Some(original)
}
