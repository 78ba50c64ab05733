//! Kafka's wire protocol.
//!
//! ```text
//! schema/*.schema --xtask generate--> generated/table.rs ----> dynamic: any API by name
//!                                 \-> generated/messages/* --> messages: typed, for Rust code
//! frame bytes <-> frame (headers) <-> messages | dynamic <-> Reader / put (primitive types)
//!     '- frame_cutter: cuts them out of a stream
//! ```
//!
//! Decoding never panics, and never allocates memory by a count that the remaining bytes cannot
//! hold. Strings and byte fields are slices that share the frame. This crate knows nothing of
//! sockets, of the contents of record batches (for it they are bytes), or of when to send what.

#![forbid(unsafe_code)]

mod api_key;
pub mod dynamic;
mod error;
mod error_code;
pub mod frame;
mod frame_cutter;
pub mod fuzzing;
// xtask generates this module, so it is not formatted, and may contain unused variables.
#[rustfmt::skip]
#[allow(unused, clippy::all, clippy::pedantic, clippy::use_self)]
mod generated;
mod message;
pub mod planted;
pub mod produce;
mod put;
mod reader;
pub mod rights;
mod split_mix;
mod text;
mod typed;
mod uuid;
pub mod versions;

pub use api_key::ApiKey;
pub use error::{DecodeError, EncodeError};
pub use error_code::ErrorCode;
pub use frame_cutter::{BadLength, FrameCutter, FrameLimits, frame_length};
pub use generated::messages;
pub use message::{Message, Request};
pub use reader::Reader;
pub use split_mix::SplitMix64;
pub use text::Str;
pub use uuid::Uuid;
