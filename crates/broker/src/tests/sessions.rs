use thalweg_protocol::ErrorCode;
use thalweg_protocol::messages::fetch::ForgottenTopic;

use super::*;

struct Client {
    bench: Bench,
    id: Uuid,
    session_id: i32,
    epoch: i32,
}

impl Client {
    fn open(partitions: i32) -> Self {
        let mut bench = Bench::new(1);
        let id = bench.create("t", partitions, &[]);
        let mut client = Self {
            bench,
            id,
            session_id: 0,
            epoch: 0,
        };
        let all: Vec<(i32, i64)> = (0..partitions).map(|partition| (partition, 0)).collect();
        let response = client.ask(&all, &[]);
        assert_eq!(response.error_code, 0);
        assert_ne!(response.session_id, 0);
        assert_eq!(named(&response), (0..partitions).collect::<Vec<_>>());
        client.session_id = response.session_id;
        client
    }

    /// Sends the next request of the session.
    fn ask(&mut self, changed: &[(i32, i64)], forgotten: &[i32]) -> FetchResponse {
        let request = self.request(changed, forgotten);
        self.epoch += 1;
        self.bench.ask(&request, 15)
    }

    fn request(&self, changed: &[(i32, i64)], forgotten: &[i32]) -> FetchRequest {
        let mut request = fetch_request("", changed);
        request.topics[0].topic_id = self.id;
        request.topics.retain(|topic| !topic.partitions.is_empty());
        if !forgotten.is_empty() {
            request.forgotten_topics_data = vec![ForgottenTopic {
                topic_id: self.id,
                partitions: forgotten.to_vec(),
                ..ForgottenTopic::default()
            }];
        }
        request.session_id = self.session_id;
        request.session_epoch = self.epoch;
        request
    }

    fn code(&mut self, session_id: i32, epoch: i32) -> ErrorCode {
        let mut request = self.request(&[], &[]);
        request.session_id = session_id;
        request.session_epoch = epoch;
        ErrorCode(self.bench.ask(&request, 15).error_code)
    }
}

/// Returns the partitions in a response, in its order.
fn named(response: &FetchResponse) -> Vec<i32> {
    let partitions = response
        .responses
        .iter()
        .flat_map(|topic| &topic.partitions);
    partitions
        .map(|partition| partition.partition_index)
        .collect()
}

#[test]
fn only_partitions_with_news_are_named() {
    let mut client = Client::open(3);
    assert!(named(&client.ask(&[], &[])).is_empty());
    client.bench.produce("t", 1, batch(&[NOW_MS]));
    assert_eq!(named(&client.ask(&[], &[])), [1]);
    // The fetch offset has not moved, so the same records are returned again.
    assert_eq!(named(&client.ask(&[], &[])), [1]);
    assert!(named(&client.ask(&[(1, 1)], &[])).is_empty());
}

#[test]
fn partitions_that_had_records_are_read_last() {
    let mut client = Client::open(3);
    for partition in 0..3 {
        client.bench.produce("t", partition, batch(&[NOW_MS]));
    }
    let mut request = client.request(&[], &[]);
    request.max_bytes = 1;
    let mut order = Vec::new();
    for _ in 0..4 {
        client.epoch += 0;
        request.session_epoch += i32::from(!order.is_empty());
        let response = client.bench.ask(&request, 15);
        let with_records = response.responses[0].partitions.iter();
        order.extend(
            with_records
                .filter(|p| !base_offsets(p).is_empty())
                .map(|partition| partition.partition_index),
        );
    }
    assert_eq!(order, [0, 1, 2, 0]);
}

#[test]
fn an_error_is_told_again_until_it_is_over() {
    let mut client = Client::open(1);
    assert_eq!(
        codes(&client.ask(&[(0, 9)], &[])),
        [ErrorCode::OFFSET_OUT_OF_RANGE]
    );
    assert_eq!(
        codes(&client.ask(&[], &[])),
        [ErrorCode::OFFSET_OUT_OF_RANGE]
    );
    assert_eq!(codes(&client.ask(&[(0, 0)], &[])), [ErrorCode::NONE]);
    assert!(named(&client.ask(&[], &[])).is_empty());
}

#[test]
fn partitions_are_added_and_forgotten() {
    let mut client = Client::open(2);
    client
        .bench
        .core
        .topology
        .create_partitions("t", 3, None, false)
        .unwrap();
    assert_eq!(named(&client.ask(&[(2, 0)], &[0])), [2]);
    for partition in 0..3 {
        client.bench.produce("t", partition, batch(&[NOW_MS]));
    }
    assert_eq!(named(&client.ask(&[], &[])), [1, 2]);
    let last = client.ask(&[], &[1, 2]);
    assert_eq!((last.session_id, named(&last).len()), (0, 0));
    let epoch = client.epoch;
    let gone = client.code(client.session_id, epoch);
    assert_eq!(gone, ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
}

#[test]
fn wrong_ids_and_epochs_are_refused() {
    let mut client = Client::open(1);
    let id = client.session_id;
    assert_eq!(client.code(id, 5), ErrorCode::INVALID_FETCH_SESSION_EPOCH);
    assert_eq!(
        client.code(id ^ 1, 1),
        ErrorCode::FETCH_SESSION_ID_NOT_FOUND
    );
    let mut by_name = fetch_request("t", &[]);
    (by_name.session_id, by_name.session_epoch) = (id, 1);
    by_name.topics.clear();
    let response = client.bench.ask(&by_name, 12);
    assert_eq!(
        ErrorCode(response.error_code),
        ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR
    );
    assert_eq!(client.code(id, 1), ErrorCode::NONE);
    // A full request closes the session that it names.
    assert_eq!(client.code(id, -1), ErrorCode::NONE);
    assert_eq!(client.code(id, 2), ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
}

#[test]
fn a_stopped_node_forgets_its_sessions() {
    let mut client = Client::open(1);
    client.bench.core.stop_node(1, client.bench.now).unwrap();
    client.bench.core.start_node(1, client.bench.now).unwrap();
    let (id, epoch) = (client.session_id, client.epoch);
    assert_eq!(
        client.code(id, epoch),
        ErrorCode::FETCH_SESSION_ID_NOT_FOUND
    );
}

#[test]
fn without_free_slots_there_is_no_session() {
    let slots = ("max.incremental.fetch.session.cache.slots", "1");
    let mut bench = Bench::with_options(1, &[slots]);
    bench.create("t", 1, &[]);
    let mut request = fetch_request("t", &[(0, 0)]);
    request.session_epoch = 0;
    assert_ne!(bench.ask(&request, 12).session_id, 0);
    let response = bench.ask(&request, 12);
    assert_eq!((response.session_id, response.error_code), (0, 0));
    request.session_epoch = -1;
    assert_eq!(bench.ask(&request, 12).session_id, 0);
}
