//! Finds out in which version a request would be sent.

use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Instant;

use thalweg_protocol::{ApiKey, EncodeError};

use super::request::{Request, RequestTarget, Response, VersionChoice};
use super::ticket::Ticket;
use super::view::ClientView;
use crate::error::ClientError;
use crate::operation::Operation;

/// Waits until a version is chosen: see [`ClientView::negotiate`].
pub struct Negotiation {
    ticket: Ticket<Response>,
    chosen: Arc<OnceLock<i16>>,
}

impl ClientView {
    /// Returns the version in which a request of this API would be sent. It sends no request: the
    /// encoder gets the version once the broker is connected, and then refuses to encode.
    pub fn negotiate(
        &self,
        target: RequestTarget,
        api_key: ApiKey,
        version: VersionChoice,
    ) -> Negotiation {
        let chosen = Arc::new(OnceLock::new());
        let known = Arc::clone(&chosen);
        let mut request = Request::new(target, api_key, move |version| {
            let _ = known.set(version);
            Err(EncodeError::UnsupportedVersion {
                message: "negotiate",
                version,
            })
        });
        request.version = version;
        Negotiation {
            ticket: self.request(request),
            chosen,
        }
    }
}

impl Operation for Negotiation {
    type Output = i16;

    fn poll(&mut self, waker: &Waker) -> Option<Result<i16, ClientError>> {
        let outcome = self.ticket.poll(waker)?;
        Some(match self.chosen.get() {
            Some(version) => Ok(*version),
            None => outcome.map(|response| response.version),
        })
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}
