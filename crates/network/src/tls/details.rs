//! What a handshake has seen, for the error if it fails.
//!
//! rustls asks the verifier and the resolver during a poll of the handshake, in the same task. They
//! belong to all connections, because sessions can only be resumed with the same ones. So they leave
//! their notes in a task-local value.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls_pki_types::CertificateDer;

tokio::task_local! {
    static HANDSHAKE: Details;
}

/// What the client did when the broker requested a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    HasNone,
    Certificate,
    /// The broker named this number of authorities, none of which issued the client's certificate.
    OtherAuthorities(usize),
}

#[derive(Debug, Default)]
pub(super) struct Notes {
    /// The broker's certificate, if the client refused it.
    pub(super) refused: Option<CertificateDer<'static>>,
    /// `None`: the broker did not request a certificate.
    pub(super) client: Option<Shown>,
}

/// The notes of one connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Details(Arc<Mutex<Notes>>);

impl Details {
    /// Runs a handshake whose verifier and resolver leave their notes here.
    pub(crate) async fn of<T>(&self, handshake: impl Future<Output = T>) -> T {
        HANDSHAKE.scope(self.clone(), handshake).await
    }

    pub(super) fn notes(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn note_client(shown: Shown) {
    let _ = HANDSHAKE.try_with(|details| details.notes().client = Some(shown));
}

pub(super) fn note_refused(certificate: &CertificateDer<'_>) {
    let _ = HANDSHAKE.try_with(|details| {
        details.notes().refused = Some(certificate.clone().into_owned());
    });
}
