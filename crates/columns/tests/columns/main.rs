//! Tests of the columns: from records and back.

mod import;
mod sink;
mod source;
mod support;
