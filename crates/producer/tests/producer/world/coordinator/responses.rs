//! The responses of the coordinator, by request.

use thalweg_protocol::messages::add_offsets_to_txn::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse,
};
use thalweg_protocol::messages::add_partitions_to_txn::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
};
use thalweg_protocol::messages::end_txn::{EndTxnRequest, EndTxnResponse};
use thalweg_protocol::messages::find_coordinator::{
    Coordinator as Found, FindCoordinatorRequest, FindCoordinatorResponse,
};
use thalweg_protocol::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use thalweg_protocol::messages::txn_offset_commit::{
    TxnOffsetCommitRequest, TxnOffsetCommitResponse, TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
};
use thalweg_protocol::{ApiKey, ErrorCode, Message, Reader, Str};

use crate::world::coordinator::{Coordinator, Encode, Txn, Values};

impl Coordinator {
    pub(super) fn act(
        &mut self,
        key: ApiKey,
        version: i16,
        reader: &mut Reader,
        refused: Option<ErrorCode>,
        values: &Values,
    ) -> Box<dyn Encode> {
        match key {
            ApiKey::FIND_COORDINATOR => {
                let request = decode::<FindCoordinatorRequest>(reader, version);
                Box::new(self.find(&request, refused))
            }
            ApiKey::INIT_PRODUCER_ID => {
                let request = decode::<InitProducerIdRequest>(reader, version);
                Box::new(self.init(&request, refused, values))
            }
            ApiKey::ADD_PARTITIONS_TO_TXN => {
                assert!(!self.v2() && version <= 3, "version {version}");
                let request = decode::<AddPartitionsToTxnRequest>(reader, version);
                Box::new(self.add_partitions(&request, refused))
            }
            ApiKey::ADD_OFFSETS_TO_TXN => {
                assert!(!self.v2());
                let request = decode::<AddOffsetsToTxnRequest>(reader, version);
                let code = refused.unwrap_or_else(|| {
                    let producer = (request.producer_id, request.producer_epoch);
                    self.open(producer, |coordinator| {
                        coordinator.groups.insert(request.group_id.to_string());
                    })
                });
                Box::new(AddOffsetsToTxnResponse {
                    error_code: code.0,
                    ..Default::default()
                })
            }
            ApiKey::TXN_OFFSET_COMMIT => {
                assert_eq!(version >= 5, self.v2(), "version {version}");
                let request = decode::<TxnOffsetCommitRequest>(reader, version);
                Box::new(self.commit_offsets(&request, refused))
            }
            ApiKey::END_TXN => {
                assert_eq!(version >= 5, self.v2(), "version {version}");
                let request = decode::<EndTxnRequest>(reader, version);
                Box::new(self.end_txn(&request, refused, values))
            }
            other => panic!("no coordinator is asked for {other}"),
        }
    }

    fn find(
        &self,
        request: &FindCoordinatorRequest,
        refused: Option<ErrorCode>,
    ) -> FindCoordinatorResponse {
        let key = &request.coordinator_keys[0];
        assert_eq!(i8::from(&**key == "txn"), request.key_type, "{key}");
        let found = Found {
            key: key.clone(),
            node_id: self.node,
            host: Str::from(format!("n{}", self.node)),
            port: 9092,
            error_code: refused.unwrap_or(ErrorCode::NONE).0,
            ..Found::default()
        };
        FindCoordinatorResponse {
            coordinators: vec![found],
            ..Default::default()
        }
    }

    fn init(
        &mut self,
        request: &InitProducerIdRequest,
        refused: Option<ErrorCode>,
        values: &Values,
    ) -> InitProducerIdResponse {
        self.inits
            .push((request.producer_id, request.producer_epoch));
        let named = (request.producer_id, request.producer_epoch);
        let fenced = named.0 >= 0 && self.producer != Some(named) && self.last != Some(named);
        let code = refused.or(fenced.then_some(ErrorCode::PRODUCER_FENCED));
        if let Some(code) = code {
            return InitProducerIdResponse {
                error_code: code.0,
                ..Default::default()
            };
        }
        if self.txn == Txn::Ongoing {
            assert!(
                named.0 < 0,
                "bug 3: another epoch in the middle of a transaction"
            );
            self.end(false, values);
        }
        // A repeated request gets the same response.
        if named.0 < 0 || self.last != Some(named) {
            self.last = (named.0 >= 0).then_some(named);
            self.producer = Some(self.next());
        }
        self.txn = Txn::Empty;
        let (producer_id, producer_epoch) = self.producer.expect("it was just set");
        InitProducerIdResponse {
            producer_id,
            producer_epoch,
            ..Default::default()
        }
    }

    fn add_partitions(
        &mut self,
        request: &AddPartitionsToTxnRequest,
        refused: Option<ErrorCode>,
    ) -> AddPartitionsToTxnResponse {
        let producer = (
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
        );
        let topics = &request.v3_and_below_topics;
        let code = refused.unwrap_or_else(|| {
            self.open(producer, |coordinator| {
                for topic in topics {
                    let places = topic
                        .partitions
                        .iter()
                        .map(|&p| (topic.name.to_string(), p));
                    coordinator.partitions.extend(places);
                }
            })
        });
        let results = topics.iter().map(|topic| AddPartitionsToTxnTopicResult {
            name: topic.name.clone(),
            results_by_partition: topic
                .partitions
                .iter()
                .map(|&partition| AddPartitionsToTxnPartitionResult {
                    partition_index: partition,
                    partition_error_code: code.0,
                })
                .collect(),
        });
        AddPartitionsToTxnResponse {
            results_by_topic_v3_and_below: results.collect(),
            ..Default::default()
        }
    }

    fn commit_offsets(
        &mut self,
        request: &TxnOffsetCommitRequest,
        refused: Option<ErrorCode>,
    ) -> TxnOffsetCommitResponse {
        let producer = (request.producer_id, request.producer_epoch);
        let group = request.group_id.to_string();
        let code = refused.unwrap_or_else(|| {
            assert!(
                self.v2() || self.groups.contains(&group),
                "{group} was not added"
            );
            self.open(producer, |coordinator| {
                for topic in &request.topics {
                    for partition in &topic.partitions {
                        let place = (topic.name.to_string(), partition.partition_index);
                        let offset = partition.committed_offset;
                        coordinator.pending_offsets.insert(place, offset);
                    }
                }
            })
        });
        let topics = request
            .topics
            .iter()
            .map(|topic| TxnOffsetCommitResponseTopic {
                name: topic.name.clone(),
                partitions: topic
                    .partitions
                    .iter()
                    .map(|partition| TxnOffsetCommitResponsePartition {
                        partition_index: partition.partition_index,
                        error_code: code.0,
                    })
                    .collect(),
            });
        TxnOffsetCommitResponse {
            topics: topics.collect(),
            ..Default::default()
        }
    }

    fn end_txn(
        &mut self,
        request: &EndTxnRequest,
        refused: Option<ErrorCode>,
        values: &Values,
    ) -> EndTxnResponse {
        self.ends.push(request.committed);
        let named = (request.producer_id, request.producer_epoch);
        let code = refused.unwrap_or_else(|| self.decide(named, request.committed, values));
        let told = self.producer.filter(|_| self.v2() && code.is_ok());
        let (producer_id, producer_epoch) = told.unwrap_or((-1, -1));
        EndTxnResponse {
            error_code: code.0,
            producer_id,
            producer_epoch,
            ..Default::default()
        }
    }
}

fn decode<M: Message>(reader: &mut Reader, version: i16) -> M {
    let request = M::decode(reader, version).expect("our own request");
    assert_eq!(reader.remaining(), 0);
    request
}
