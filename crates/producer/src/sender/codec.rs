//! Compresses closed batches on the codec threads, and splits batches that were too large
//! (`split.rs`).
//!
//! A compression job takes the batch's chunks, compresses them into its thread's own buffer
//! (reserved in `buffer_memory` from the start) and copies the result back into the same chunks.
//! Chunks that are then empty return to the pool. So the sender never waits for memory, and the
//! pool's limit holds.
//!
//! If a compressor panics, only its batch fails: the job returns the reason and the sender fails
//! the batch. The batch has no sequence yet, so its partition gets no gap.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use thalweg_cluster::Job;
use thalweg_records::{Compression, Compressor};

use crate::batch::chunk::Chunk;
use crate::batch::order::Order;
use crate::sender::split::{SplitBatch, SplitJob};

/// What a codec thread keeps between jobs.
#[derive(Debug, Default)]
struct Worker {
    compressor: Compressor,
    output: Vec<u8>,
}

thread_local! {
    static WORKER: RefCell<Worker> = RefCell::default();
}

/// A closed batch to compress.
#[derive(Debug)]
pub(crate) struct CompressJob {
    pub(crate) index: usize,
    pub(crate) order: Order,
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) codec: Compression,
    pub(crate) level: Option<i32>,
    /// How large an output buffer a thread may keep for the next job.
    pub(crate) output_bytes_kept: usize,
}

/// The result of compressing a batch.
#[derive(Debug)]
pub(crate) struct CompressedBatch {
    pub(crate) index: usize,
    pub(crate) order: Order,
    /// The compressed records, or why the batch cannot be sent.
    pub(crate) section: Result<Section, Arc<str>>,
}

/// The records of a batch: compressed, or unchanged if compression did not make them smaller.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) codec: Compression,
    pub(crate) raw_bytes: usize,
    /// The size after compression, whether the compressed form is used or not.
    pub(crate) compressed_bytes: usize,
}

/// A job of a sender for the codec threads.
#[derive(Debug)]
pub struct CodecJob(pub(crate) Work);

#[derive(Debug)]
pub(crate) enum Work {
    Compress(CompressJob),
    Split(SplitJob),
}

/// The result of a [`CodecJob`].
#[derive(Debug)]
pub struct CodecDone(pub(crate) Done);

#[derive(Debug)]
pub(crate) enum Done {
    Compressed(CompressedBatch),
    Split(SplitBatch),
}

impl Job for CodecJob {
    type Output = CodecDone;

    fn run(self) -> CodecDone {
        CodecDone(match self.0 {
            Work::Compress(job) => {
                let (codec, level) = (job.codec, job.level);
                Done::Compressed(job.run_with(|compressor, input, output| {
                    compressor.compress(codec, level, input, output).is_ok()
                }))
            }
            Work::Split(job) => Done::Split(split(job)),
        })
    }
}

impl CodecJob {
    /// Runs a job with a function instead of the codec. The function returns whether it compressed
    /// the input.
    pub fn run_with(
        self,
        compress: impl FnOnce(&mut Compressor, &[&[u8]], &mut Vec<u8>) -> bool,
    ) -> CodecDone {
        CodecDone(match self.0 {
            Work::Compress(job) => Done::Compressed(job.run_with(compress)),
            Work::Split(job) => Done::Split(split(job)),
        })
    }
}

/// Splits a batch. If that panics, only this batch fails.
fn split(job: SplitJob) -> SplitBatch {
    let (index, order) = (job.index, job.order);
    WORKER.with_borrow_mut(|worker| {
        let run = AssertUnwindSafe(|| job.run_with(&mut worker.compressor));
        catch_unwind(run).unwrap_or_else(|panic| {
            *worker = Worker::default();
            let pieces = Err(format!("splitting the batch panicked: {}", words(&*panic)));
            SplitBatch {
                index,
                order,
                pieces,
            }
        })
    })
}

impl CompressJob {
    /// Runs the job with a function instead of the codec. The function returns whether it
    /// compressed the input.
    fn run_with(
        self,
        compress: impl FnOnce(&mut Compressor, &[&[u8]], &mut Vec<u8>) -> bool,
    ) -> CompressedBatch {
        let (index, order, codec) = (self.index, self.order, self.codec);
        let section = WORKER.with_borrow_mut(|worker| {
            let run = AssertUnwindSafe(|| self.section(worker, compress));
            catch_unwind(run).map_err(|panic| {
                // After a panic the compressor's contexts may be in any state.
                *worker = Worker::default();
                let words = words(&*panic);
                Arc::from(format!(
                    "not sent, because the {codec} compressor panicked: {words}"
                ))
            })
        });
        CompressedBatch {
            index,
            order,
            section,
        }
    }

    fn section(
        mut self,
        worker: &mut Worker,
        compress: impl FnOnce(&mut Compressor, &[&[u8]], &mut Vec<u8>) -> bool,
    ) -> Section {
        let input: Vec<&[u8]> = self.chunks.iter().map(AsRef::as_ref).collect();
        let raw_bytes = input.iter().map(|chunk| chunk.len()).sum();
        worker.output.clear();
        let compressed = compress(&mut worker.compressor, &input, &mut worker.output);
        let compressed_bytes = worker.output.len();
        // The level was checked with the options, so an error is the codec's own. The records are
        // intact and can be sent uncompressed, as when they do not get smaller.
        let smaller = compressed && compressed_bytes < raw_bytes;
        if smaller {
            refill(&mut self.chunks, &worker.output);
        }
        if worker.output.capacity() > self.output_bytes_kept {
            worker.output = Vec::new();
        }
        Section {
            chunks: self.chunks,
            codec: if smaller {
                self.codec
            } else {
                Compression::None
            },
            raw_bytes,
            compressed_bytes: if compressed {
                compressed_bytes
            } else {
                raw_bytes
            },
        }
    }
}

/// Returns the message of a panic.
fn words(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}

/// Overwrites the chunks with fewer bytes than they held, and drops the chunks that stay empty.
fn refill(chunks: &mut Vec<Chunk>, bytes: &[u8]) {
    let mut rest = bytes;
    chunks.retain_mut(|chunk| {
        chunk.clear();
        rest = chunk.fill(rest);
        !chunk.as_ref().is_empty()
    });
    assert!(
        rest.is_empty(),
        "the compressed bytes fit into the chunks of the uncompressed ones"
    );
}
