//! Columns from records and back.

mod sink;
mod source;
mod support;
