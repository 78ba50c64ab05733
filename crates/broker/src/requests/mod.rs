//! The path of a request, except for its handler: from a frame to a response.
//!
//! ```text
//! api.rs       the table of the APIs: decodes, applies a fault, calls the handler, encodes
//! context.rs   what a handler gets besides the request
//! needs.rs     what a client must be allowed to do. authorization.rs: asks the ACLs
//! operations.rs   what is allowed without ACLs
//! subject.rs   the topics of a request, to match it with faults
//! response.rs  the result, and its bytes
//! wait.rs      a request whose response has to wait. waiters.rs: those that wait for a partition
//! ```

pub(crate) mod api;
pub(crate) mod authorization;
pub(crate) mod context;
pub(crate) mod needs;
pub(crate) mod operations;
pub(crate) mod response;
pub(crate) mod subject;
pub(crate) mod throttle;
pub(crate) mod wait;
pub(crate) mod waiters;
