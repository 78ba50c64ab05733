//! What runs in a world: clients that write and read, and the checks at the end.

pub(crate) mod clients;
pub(crate) mod group_offset;
pub(crate) mod member;
pub(crate) mod one_reader;
pub(crate) mod sending;
pub(crate) mod sharing;
pub(crate) mod transactional;
pub(crate) mod writers;
