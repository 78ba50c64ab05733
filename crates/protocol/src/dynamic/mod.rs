//! The by-name codec.
mod schema;
pub use schema::*;
