//! Fetch sessions (KIP-227), and the errors for requests that violate them.

use thalweg_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchResponse};
use thalweg_protocol::{ErrorCode, Uuid};

use crate::broker::Broker;

/// A partition by name, and its part of a fetch request.
pub(super) type SessionPartition = ((String, i32), FetchPartition);

#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) epoch: i32,
    /// In the broker's order: partitions that were served move to the end.
    partitions: Vec<SessionPartition>,
}

impl Broker {
    pub(super) fn enter_session(
        &mut self,
        node: i32,
        version: i16,
        request: &FetchRequest,
    ) -> Result<(i32, Vec<SessionPartition>), ErrorCode> {
        let named = |topic: &str, id: Uuid| {
            if version < 13 {
                return Ok(topic.to_owned());
            }
            let found = self.topic_ids.iter().find(|(_, known)| **known == id);
            found
                .map(|(name, _)| name.clone())
                .ok_or(ErrorCode::UNKNOWN_TOPIC_ID)
        };
        let mut asked = Vec::new();
        for topic in &request.topics {
            let name = named(&topic.topic, topic.topic_id)?;
            for partition in &topic.partitions {
                asked.push(((name.clone(), partition.partition), partition.clone()));
            }
        }
        let mut forgotten = Vec::new();
        for topic in &request.forgotten_topics_data {
            // The ID of a deleted topic is gone, so such a topic is skipped here.
            if let Ok(name) = named(&topic.topic, topic.topic_id) {
                forgotten.extend(topic.partitions.iter().map(|p| (name.clone(), *p)));
            }
        }
        if request.session_epoch <= 0 {
            assert!(forgotten.is_empty(), "a full request forgets nothing");
            self.sessions.remove(&(node, request.session_id));
            if request.session_epoch < 0 || self.sessionless {
                return Ok((0, asked));
            }
            self.next_session += 1;
            let session = Session {
                epoch: 1,
                partitions: asked.clone(),
            };
            self.sessions.insert((node, self.next_session), session);
            return Ok((self.next_session, asked));
        }
        let session = self
            .sessions
            .get_mut(&(node, request.session_id))
            .ok_or(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)?;
        if session.epoch != request.session_epoch {
            return Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        }
        session.epoch += 1;
        for (key, partition) in asked {
            match session
                .partitions
                .iter_mut()
                .find(|(known, _)| *known == key)
            {
                Some((_, known)) => *known = partition,
                None => session.partitions.push((key, partition)),
            }
        }
        // Kafka's brokers also remove partitions after they have added others.
        session
            .partitions
            .retain(|(key, _)| !forgotten.contains(key));
        Ok((request.session_id, session.partitions.clone()))
    }

    /// Moves the partitions that were served to the end of the session's order.
    pub(super) fn served(&mut self, node: i32, session_id: i32, response: &FetchResponse) {
        let names = self.topic_ids.clone();
        let Some(session) = self.sessions.get_mut(&(node, session_id)) else {
            return;
        };
        for topic in &response.responses {
            for data in topic.partitions.iter().filter(|d| d.records.is_some()) {
                let at = session.partitions.iter().position(|((name, p), _)| {
                    *p == data.partition_index
                        && (**name == *topic.topic || names.get(name) == Some(&topic.topic_id))
                });
                if let Some(at) = at {
                    let served = session.partitions.remove(at);
                    session.partitions.push(served);
                }
            }
        }
    }
}
