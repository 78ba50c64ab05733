//! Fetch without its handler: targets, sessions, reading, waiting, and the response's bytes.
//!
//! ```text
//! FetchRequest -> targets (all in the request, or a session's) -> PendingFetch
//! PendingFetch::poll -> read each target -> enough, an error, or time over? -> encode
//!                                        \-> else wait at each partition for a change
//! ```

mod encode;
mod pending;
mod read;
mod session;
mod target;

pub(crate) use pending::{PendingFetch, Reader, Scope, error_body};
pub(crate) use session::{FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, Session, SessionCache};
pub(crate) use target::{TargetKey, TopicKey, forgotten, has_long_names, targets, uses_ids};
