//! The log of a partition, which checks sequences like Kafka's `ProducerAppendInfo`.

use std::collections::{BTreeMap, VecDeque};

use thalweg_protocol::ErrorCode;
use thalweg_records::BatchHeader;

#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) offset: i64,
    pub(crate) timestamp: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

#[derive(Debug, Default)]
pub(super) struct Producer {
    epoch: i16,
    /// First and last sequence and base offset of the last five batches.
    pub(super) batches: VecDeque<(i32, i32, i64)>,
}

#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) records: Vec<Stored>,
    pub(crate) headers: Vec<BatchHeader>,
    pub(super) producers: BTreeMap<i64, Producer>,
}

impl Log {
    pub(crate) fn values(&self) -> Vec<String> {
        let text = |record: &Stored| {
            String::from_utf8_lossy(record.value.as_deref().unwrap_or_default()).into_owned()
        };
        self.records.iter().map(text).collect()
    }

    /// Forgets what a restart forgets: Kafka's snapshot has only the last batch of each producer.
    pub(super) fn restart(&mut self) {
        for producer in self.producers.values_mut() {
            producer.batches.drain(..producer.batches.len() - 1);
        }
    }

    /// Forgets all producers, as if they had expired or their records had been deleted.
    pub(crate) fn forget_producers(&mut self) {
        self.producers.clear();
    }

    /// Checks a batch's sequence. Returns the offset if the batch is a duplicate.
    pub(super) fn check(
        &mut self,
        header: &BatchHeader,
        wants_known: bool,
    ) -> Result<Option<i64>, ErrorCode> {
        if header.producer_id < 0 {
            return Ok(None);
        }
        let (first, last) = (header.base_sequence, header.last_sequence());
        let Some(known) = self.producers.get(&header.producer_id) else {
            let unknown = wants_known && first != 0;
            return if unknown {
                Err(ErrorCode::UNKNOWN_PRODUCER_ID)
            } else {
                Ok(None)
            };
        };
        if header.producer_epoch < known.epoch {
            return Err(ErrorCode::INVALID_PRODUCER_EPOCH);
        }
        if header.producer_epoch > known.epoch {
            return if first == 0 {
                Ok(None)
            } else {
                Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER)
            };
        }
        if let Some(same) = known.batches.iter().find(|b| b.0 == first && b.1 == last) {
            return Ok(Some(same.2));
        }
        let newest = known
            .batches
            .back()
            .expect("a known producer has written")
            .1;
        let next = if newest == i32::MAX { 0 } else { newest + 1 };
        if first == next {
            Ok(None)
        } else {
            Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER)
        }
    }

    pub(super) fn push(&mut self, batch: &thalweg_records::DecodedBatch) -> i64 {
        let base_offset = self.records.len() as i64;
        let header = batch.header;
        assert_eq!(header.last_offset_delta + 1, header.records_count);
        let mut max_timestamp = i64::MIN;
        for record in batch {
            let record = record.expect("a readable record");
            assert_eq!(record.offset, self.records.len() as i64 - base_offset);
            max_timestamp = max_timestamp.max(record.timestamp);
            self.records.push(Stored {
                offset: self.records.len() as i64,
                timestamp: record.timestamp,
                key: record.key.map(<[u8]>::to_vec),
                value: record.value.map(<[u8]>::to_vec),
                headers: record
                    .headers
                    .iter()
                    .map(|header| (header.key.to_vec(), header.value.map(<[u8]>::to_vec)))
                    .collect(),
            });
        }
        assert_eq!(max_timestamp, header.max_timestamp);
        self.headers.push(header);
        if header.producer_id >= 0 {
            let producer = self.producers.entry(header.producer_id).or_default();
            if producer.epoch != header.producer_epoch {
                *producer = Producer {
                    epoch: header.producer_epoch,
                    ..Producer::default()
                };
            }
            producer
                .batches
                .push_back((header.base_sequence, header.last_sequence(), base_offset));
            if producer.batches.len() > 5 {
                producer.batches.pop_front();
            }
        }
        base_offset
    }
}
