//! The result of a request: [`Outcome`], and the bytes of a [`Response`].

use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use thalweg_protocol::{ApiKey, Message, frame};

use crate::requests::wait::Wait;
use crate::storage::StoredBatch;

/// What the owner of the connection must do after a request.
#[derive(Debug)]
pub enum Outcome {
    Response(Response),
    /// Produce with acks=0: continue with the next request.
    Nothing,
    /// Call [`Core::poll_wait`](crate::Core::poll_wait) when woken and at the wait's deadline.
    Wait(Wait),
    /// Close the connection without a response.
    Close,
    /// Never write to this connection again, but keep it open.
    Mute,
}

/// A response frame, including its length, as pieces to be written one after the other.
#[derive(Debug)]
pub struct Response {
    pub pieces: Vec<Bytes>,
    /// What the pieces take that they do not share with the log.
    pub own_bytes: usize,
    /// The broker writes the response no earlier than this.
    pub not_before: Option<Instant>,
    /// Close the connection when the response is written.
    pub is_last: bool,
    /// Read nothing from the connection until then: the client has exceeded a quota (KIP-219).
    pub mute_until: Option<Instant>,
}

/// The request that a response is for, and what a fault does to the response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplyTo {
    pub(crate) key: ApiKey,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    pub(crate) delay: Option<Duration>,
    /// Close the connection instead of writing the response.
    pub(crate) then_close: bool,
}

/// What a handler returns.
pub(crate) enum Reply<M> {
    Message(M),
    /// Close the connection after this message, which is delayed: the client has failed to log in.
    Last(M),
    /// The body, already encoded.
    Body(Pieces),
    Nothing,
    Close,
    Wait(Wait),
}

impl ReplyTo {
    pub(crate) fn message<M: Message>(&self, message: &M, now: Instant) -> Outcome {
        // A response that cannot be encoded in its request's version is a bug of a handler. The
        // tests go through all versions. The client must not wait for it.
        match frame::encode_response(self.key, self.version, self.correlation_id, message) {
            Ok(frame) => {
                let own_bytes = frame.len();
                self.outcome(vec![frame.into()], own_bytes, now)
            }
            Err(error) => {
                debug_assert!(false, "{} v{}: {error}", self.key, self.version);
                Outcome::Close
            }
        }
    }

    /// The delay slows down a client that tries passwords. As in Kafka, it blocks nothing else.
    pub(crate) fn last<M: Message>(&self, message: &M, delay: Duration, now: Instant) -> Outcome {
        match self.message(message, now) {
            Outcome::Response(response) => Outcome::Response(Response {
                not_before: Some(response.not_before.unwrap_or(now).max(now + delay)),
                is_last: true,
                ..response
            }),
            other => other,
        }
    }

    pub(crate) fn body(&self, body: Pieces, now: Instant) -> Outcome {
        let own_bytes = body.len() - body.shared_bytes;
        let (length, mut pieces) = body.finish();
        let head = frame::response_head(self.key, self.version, self.correlation_id, length);
        // Cannot fail for Fetch: its responses are limited by `fetch.max.bytes` plus one batch.
        let Ok(head) = head else {
            return Outcome::Close;
        };
        pieces.insert(0, head.into());
        self.outcome(pieces, own_bytes, now)
    }

    fn outcome(&self, pieces: Vec<Bytes>, own_bytes: usize, now: Instant) -> Outcome {
        if self.then_close {
            return Outcome::Close;
        }
        let not_before = self.delay.map(|delay| now + delay);
        Outcome::Response(Response {
            pieces,
            own_bytes,
            not_before,
            is_last: false,
            mute_until: None,
        })
    }
}

/// Up to this size, copying costs less than writing one more piece.
const COPY_BYTES_MAX: usize = 4096;

/// Builds a body from bytes that are written here and shared bytes that are only referenced.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    done: Vec<Bytes>,
    done_bytes: usize,
    shared_bytes: usize,
    open: BytesMut,
}

impl Pieces {
    pub(crate) fn put_slice(&mut self, bytes: &[u8]) {
        self.open.put_slice(bytes);
    }

    /// Adds what follows a stored batch's prefix.
    pub(crate) fn put_rest_of(&mut self, batch: &StoredBatch) {
        if batch.len() <= COPY_BYTES_MAX {
            self.open.put_slice(batch.rest());
        } else {
            self.put_shared(batch.shared_rest());
        }
    }

    pub(crate) fn put_shared(&mut self, bytes: Bytes) {
        self.close_open();
        self.done_bytes += bytes.len();
        self.shared_bytes += bytes.len();
        self.done.push(bytes);
    }

    /// Returns the number of bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.done_bytes + self.open.len()
    }

    pub(crate) fn append(&mut self, other: Self) {
        let (_, pieces) = other.finish();
        for piece in pieces {
            self.put_slice(&piece);
        }
    }

    fn close_open(&mut self) {
        if !self.open.is_empty() {
            self.done_bytes += self.open.len();
            self.done.push(self.open.split().freeze());
        }
    }

    fn finish(mut self) -> (usize, Vec<Bytes>) {
        self.close_open();
        (self.done_bytes, self.done)
    }
}
