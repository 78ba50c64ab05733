//! How records become batches: partitions, limits, memory, compression.

mod appending;
mod bulk;
mod compression;
mod contents;
mod hastening;
mod partitioning;
mod pool;
