//! Checks that a produced batch belongs to the open transaction of its producer.

use thalweg_protocol::{ErrorCode, Str, Uuid};
use thalweg_records::BatchHeader;

use super::verify::Verification;
use super::{Now, ProducerIdAndEpoch};
use crate::Core;
use crate::storage::validate::Refusal;

impl Core {
    /// Checks a transactional batch before it is decoded, as Kafka does, so that problems of the
    /// transaction are reported first. Other batches pass.
    pub(crate) fn verify_batch(
        &mut self,
        batch: &[u8],
        transactional_id: Option<&Str>,
        (topic, index): (Uuid, i32),
        verification: Verification,
        now: Now,
    ) -> Result<(), Refusal> {
        // A batch with an unreadable header is refused for that soon after.
        let header = BatchHeader::parse(batch).ok();
        let Some(header) = header.filter(|header| header.attributes.is_transactional()) else {
            return Ok(());
        };
        let id = transactional_id
            .ok_or_else(|| plain(ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED))?;
        let producer = ProducerIdAndEpoch {
            id: header.producer_id,
            epoch: header.producer_epoch,
        };
        let Some(topic) = self.topology.topic_by_id(topic) else {
            return Ok(());
        };
        let Some(producers) = topic.partition(index).map(|partition| &partition.producers) else {
            return Ok(());
        };
        if producers.has_open_transaction(producer.id, producer.epoch) {
            return Ok(());
        }
        if producers.is_fenced(producer.id, producer.epoch) {
            return Err(plain(ErrorCode::INVALID_PRODUCER_EPOCH));
        }
        let is_known = producers.knows(producer.id);
        let partition = (topic.name.clone(), index);
        self.verify_transaction(id, producer, &partition, verification, now)
            .map_err(|code| refusal(code, verification))?;
        // Such clients start each transaction at sequence 0. If it is higher, earlier batches were
        // lost.
        if verification == Verification::Add && !is_known && header.base_sequence != 0 {
            let why = format!(
                "Invalid sequence number for new transaction of producer {}: {} (incoming seq. number), expected 0",
                header.producer_id, header.base_sequence
            );
            return Err(Refusal::new(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, why));
        }
        Ok(())
    }
}

fn refusal(code: ErrorCode, verification: Verification) -> Refusal {
    match code {
        ErrorCode::INVALID_TXN_STATE => {
            Refusal::new(code, "Partition was not added to the transaction")
        }
        // Older clients do not know that they have to wait for the previous transaction.
        ErrorCode::CONCURRENT_TRANSACTIONS if verification != Verification::Add => Refusal::new(
            ErrorCode::NOT_ENOUGH_REPLICAS,
            format!("The transaction could not be verified: {}", code.message()),
        ),
        other => plain(other),
    }
}

fn plain(code: ErrorCode) -> Refusal {
    Refusal::new(code, code.message())
}
