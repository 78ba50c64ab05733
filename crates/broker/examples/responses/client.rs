//! One connection: sends requests, and prints the responses with ids and times replaced by words.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::Bytes;
use thalweg_protocol::messages::{alter_client_quotas, create_topics, describe_client_quotas};
use thalweg_protocol::{Message, Reader, Request, Str, Uuid, frame};

use crate::bodies::topic;

pub(crate) struct Client {
    address: String,
    stream: TcpStream,
    correlation_id: i32,
    pub(crate) words: BTreeMap<String, String>,
    changes: u32,
}

impl Client {
    pub(crate) fn new(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("connects");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("is a timeout");
        let port = address.rsplit(':').next().unwrap_or_default().to_owned();
        let words = BTreeMap::from([(format!("port: {port}"), "port: PORT".to_owned())]);
        Self {
            address: address.to_owned(),
            stream,
            correlation_id: 0,
            words,
            changes: 0,
        }
    }

    pub(crate) fn send<R: Request>(&mut self, request: &R, version: i16) -> Option<Bytes> {
        self.correlation_id += 1;
        let frame =
            frame::encode_request(request, version, self.correlation_id, Some("responses")).ok()?;
        self.stream.write_all(&frame).ok()?;
        let mut length = [0; 4];
        if self.stream.read_exact(&mut length).is_err() {
            *self = Self {
                words: std::mem::take(&mut self.words),
                changes: self.changes,
                ..Self::new(&self.address)
            };
            return None;
        }
        let mut body = vec![0; i32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut body).ok()?;
        Some(body.into())
    }

    pub(crate) fn quietly<R: Request>(&mut self, request: &R, version: i16) -> Option<R::Response> {
        let mut reader = Reader::new(self.send(request, version)?);
        frame::decode_response_header(&mut reader, R::KEY, version).expect("has a header");
        Some(R::Response::decode(&mut reader, version).expect("is a response"))
    }

    /// Sends a request and prints its response.
    pub(crate) fn ask<R: Request>(
        &mut self,
        what: &str,
        request: &R,
        version: i16,
    ) -> Option<R::Response> {
        let response = self.quietly(request, version);
        match &response {
            Some(response) => self.show(&format!("{what} v{version}"), response),
            None => println!("{what} v{version}: closed\n"),
        }
        response
    }

    /// Sends the request in every version that can encode it.
    pub(crate) fn ask_all<R: Request>(&mut self, what: &str, request: &R) {
        for version in R::KEY.valid_versions().expect("is known") {
            if request.encode(&mut Vec::new(), version).is_ok() {
                self.ask(what, request, version);
            }
        }
    }

    pub(crate) fn show(&self, what: &str, value: &impl Debug) {
        let mut text = format!("{value:#?}");
        for (old, new) in &self.words {
            text = text.replace(old, new);
        }
        println!("{what}: {text}\n");
    }

    pub(crate) fn create(&mut self, name: &str, partitions: i32, configs: &[(&str, &str)]) -> Uuid {
        let request = create_topics::CreateTopicsRequest {
            topics: vec![topic(name, partitions, 1, configs)],
            timeout_ms: 10_000,
            validate_only: false,
        };
        let response = self.quietly(&request, 7).expect("responds");
        let id = response.topics[0].topic_id;
        self.words.insert(id.to_string(), format!("ID-{name}"));
        self.settle();
        id
    }

    /// Waits until the broker has applied all earlier changes of topics and configs. A real broker
    /// may acknowledge a change earlier, as soon as its controller has stored it.
    pub(crate) fn settle(&mut self) {
        // A broker applies one change after the other, and shows a change before it has applied all
        // of it. So the first quota may show too early. When the second one shows, the broker has
        // applied everything before the first.
        for _ in 0..2 {
            self.change_quota();
        }
    }

    /// Changes the quota of a user that nothing else uses, and waits until the broker shows it.
    fn change_quota(&mut self) {
        self.changes += 1;
        let wanted = f64::from(self.changes);
        let (kind, user) = (Str::from("user"), Some(Str::from("nobody")));
        let entry = alter_client_quotas::EntryData {
            entity: vec![alter_client_quotas::EntityData {
                entity_type: kind.clone(),
                entity_name: user.clone(),
            }],
            ops: vec![alter_client_quotas::OpData {
                key: "producer_byte_rate".into(),
                value: wanted,
                remove: false,
            }],
        };
        let change = alter_client_quotas::AlterClientQuotasRequest {
            entries: vec![entry],
            validate_only: false,
        };
        let response = self.quietly(&change, 1).expect("responds");
        assert_eq!(response.entries[0].error_code, 0, "{response:?}");
        let describe = describe_client_quotas::DescribeClientQuotasRequest {
            components: vec![describe_client_quotas::ComponentData {
                entity_type: kind,
                match_type: 0,
                match_: user,
            }],
            strict: true,
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let response = self.quietly(&describe, 1).expect("responds");
            let entries = response.entries.iter().flatten();
            let mut values = entries.flat_map(|entry| &entry.values);
            if values.any(|each| (each.value - wanted).abs() < 0.5) {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "the broker did not show the changed quota within 60 s"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
