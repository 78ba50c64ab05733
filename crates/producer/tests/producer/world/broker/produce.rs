//! Responses to Produce requests: the batches that are written, and the script of faults.

use bytes::Bytes;
use thalweg_cluster::{Event, NodeId};
use thalweg_protocol::messages::produce::{
    PartitionProduceResponse, ProduceResponse, TopicProduceResponse,
};
use thalweg_protocol::{ApiKey, ErrorCode};
use thalweg_records::batches;

use crate::world::broker::Brokers;
use crate::world::broker::reaction::{Reaction, decide, decorate};
use crate::world::broker::request::Asked;

impl Brokers {
    pub(super) fn react(&mut self, asked: &Asked, reaction: &Reaction) {
        let conn = asked.conn;
        match reaction {
            Reaction::Silence => {}
            Reaction::LoseRequest => self.break_connection(conn),
            Reaction::LoseResponse => {
                self.produce(asked, |_, write| write());
                self.break_connection(conn);
            }
            Reaction::WrongCorrelationId => {
                self.produce(asked, |_, write| write());
                let bytes = (asked.correlation_id + 1).to_be_bytes();
                self.events.push_back(Event::Frame {
                    conn,
                    frame: Bytes::copy_from_slice(&bytes),
                });
            }
            Reaction::Garbage => {
                let mut bytes = asked.correlation_id.to_be_bytes().to_vec();
                bytes.extend_from_slice(&[0, 0x7f]);
                self.events.push_back(Event::Frame {
                    conn,
                    frame: Bytes::from(bytes),
                });
            }
            Reaction::Forget => {
                self.produce(asked, |_, write| write());
                self.reply(asked, &ProduceResponse::default());
            }
            reaction => {
                let response =
                    self.produce(asked, |partition, write| decide(reaction, partition, write));
                let response = decorate(response, reaction);
                self.reply(asked, &response);
            }
        }
    }

    fn reply(&mut self, asked: &Asked, response: &ProduceResponse) {
        if asked.request.acks != 0 && self.conns.contains_key(&asked.conn) {
            self.respond(
                asked.conn,
                ApiKey::PRODUCE,
                asked.version,
                asked.correlation_id,
                response,
            );
        }
    }

    /// Responds to a Produce request. `decide` returns each partition's response, and calls its second
    /// argument to write the batch.
    pub(super) fn produce(
        &mut self,
        asked: &Asked,
        decide: impl Fn(i32, &mut dyn FnMut() -> PartitionProduceResponse) -> PartitionProduceResponse,
    ) -> ProduceResponse {
        let mut response = ProduceResponse::default();
        for topic in &asked.request.topic_data {
            let name = self.topic_name(asked.version, &topic.name, topic.topic_id);
            let mut told = TopicProduceResponse {
                name: topic.name.clone(),
                topic_id: topic.topic_id,
                ..Default::default()
            };
            for partition in &topic.partition_data {
                let records = partition.records.clone().unwrap_or_default();
                let mut write =
                    || self.append(asked.node, name.as_deref(), partition.index, &records);
                let response = decide(partition.index, &mut write);
                told.partition_responses.push(PartitionProduceResponse {
                    index: partition.index,
                    ..response
                });
            }
            response.responses.push(told);
        }
        response
    }

    fn append(
        &mut self,
        node: NodeId,
        name: Option<&str>,
        partition: i32,
        records: &Bytes,
    ) -> PartitionProduceResponse {
        let refused = |code: ErrorCode| PartitionProduceResponse {
            error_code: code.0,
            base_offset: -1,
            ..Default::default()
        };
        let Some(name) = name else {
            return refused(ErrorCode::UNKNOWN_TOPIC_ID);
        };
        let leader = self
            .topics
            .get(name)
            .and_then(|t| t.leaders.get(partition as usize));
        match leader {
            None => return refused(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            Some(&(leader, _)) if leader != node => {
                return refused(ErrorCode::NOT_LEADER_OR_FOLLOWER);
            }
            Some(_) => {}
        }
        if records.len() > self.message_max_bytes {
            return refused(ErrorCode::MESSAGE_TOO_LARGE);
        }
        let mut found = batches(records.clone());
        let raw = found.next().expect("one batch").expect("a whole batch");
        assert!(
            found.next().is_none(),
            "Produce carries one batch a partition"
        );
        raw.validate_crc().expect("the checksum holds");
        let header = raw.header;
        let wants_known = self.wants_known_producers;
        if self.transactional {
            let place = (name.to_owned(), partition);
            if let Err(code) = self.coordinator.admits(&place, &header) {
                return refused(code);
            }
        }
        let log = self.logs.entry((name.to_owned(), partition)).or_default();
        let base_offset = match log.check(&header, wants_known) {
            Err(code) => return refused(code),
            Ok(Some(duplicate)) => duplicate,
            Ok(None) => {
                let batch = raw
                    .decode(&mut self.decompressor, 64 << 20)
                    .expect("a readable batch");
                log.push(&batch)
            }
        };
        PartitionProduceResponse {
            base_offset,
            log_start_offset: 0,
            ..Default::default()
        }
    }
}
