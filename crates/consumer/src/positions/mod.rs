//! How the I/O thread finds and confirms positions.
//!
//! `leaders` follows the metadata, `resolving` resets and validates positions, `list_offsets` and
//! `validation` speak the two APIs, and `absence` describes partitions that do not exist.

pub(crate) mod absence;
pub(crate) mod leaders;
pub(crate) mod list_offsets;
mod resolving;
mod validation;
