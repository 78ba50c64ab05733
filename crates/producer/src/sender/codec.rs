//! Compression of closed batches, on the threads that the network keeps for such work; splitting one
//! that was too large (`split.rs`) is a job of these threads as well.
//!
//! A compression takes a batch's chunks along, compresses them into its thread's own buffer (set aside in
//! `buffer_memory` at the start) and copies the result back into the same chunks; those that are
//! free then return to the pool. So the sender never waits for memory, and the pool's cap holds.

use std::cell::RefCell;

use thalweg_cluster::Job;
use thalweg_records::{Compression, Compressor};

use crate::chunk::Chunk;
use crate::sender::batch::Order;
use crate::split::{SplitBatch, SplitJob};

/// What a codec thread keeps between jobs.
#[derive(Debug, Default)]
struct Worker {
    compressor: Compressor,
    output: Vec<u8>,
}

thread_local! {
    static WORKER: RefCell<Worker> = RefCell::default();
}

/// One closed batch to be compressed.
#[derive(Debug)]
pub(crate) struct CompressJob {
    pub(crate) slot: usize,
    pub(crate) order: Order,
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) codec: Compression,
    pub(crate) level: Option<i32>,
    /// What a thread may keep of its output buffer from one job to the next.
    pub(crate) output_bytes_kept: usize,
}

/// A batch's records, compressed or (where that did not make them smaller) as they were.
#[derive(Debug)]
pub(crate) struct CompressedBatch {
    pub(crate) slot: usize,
    pub(crate) order: Order,
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) codec: Compression,
    pub(crate) raw_bytes: usize,
    /// What the codec made of it, used or not.
    pub(crate) compressed_bytes: usize,
}

/// Work of a sender for the codec threads.
#[derive(Debug)]
pub struct CodecJob(pub(crate) Work);

#[derive(Debug)]
pub(crate) enum Work {
    Compress(CompressJob),
    Split(SplitJob),
}

/// What a codec thread made of a [`CodecJob`].
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
        WORKER.with_borrow_mut(|worker| {
            CodecDone(match self.0 {
                Work::Compress(job) => Done::Compressed(job.run_with(worker)),
                Work::Split(job) => Done::Split(job.run_with(&mut worker.compressor)),
            })
        })
    }
}

impl CompressJob {
    fn run_with(mut self, worker: &mut Worker) -> CompressedBatch {
        let input: Vec<&[u8]> = self.chunks.iter().map(AsRef::as_ref).collect();
        let raw_bytes = input.iter().map(|chunk| chunk.len()).sum();
        worker.output.clear();
        let result = worker
            .compressor
            .compress(self.codec, self.level, &input, &mut worker.output);
        let compressed_bytes = worker.output.len();
        // The level was checked with the options, so an error is a codec's own: the records are
        // whole and can go out as they are, as they do if they do not get smaller.
        let smaller = result.is_ok() && compressed_bytes < raw_bytes;
        if smaller {
            refill(&mut self.chunks, &worker.output);
        }
        if worker.output.capacity() > self.output_bytes_kept {
            worker.output = Vec::new();
        }
        CompressedBatch {
            slot: self.slot,
            order: self.order,
            chunks: self.chunks,
            codec: if smaller {
                self.codec
            } else {
                Compression::None
            },
            raw_bytes,
            compressed_bytes: if result.is_ok() {
                compressed_bytes
            } else {
                raw_bytes
            },
        }
    }
}

/// Writes fewer bytes than before over the chunks' content, and gives back those left empty.
fn refill(chunks: &mut Vec<Chunk>, bytes: &[u8]) {
    let mut rest = bytes;
    chunks.retain_mut(|chunk| {
        chunk.clear();
        rest = chunk.fill(rest);
        !chunk.as_ref().is_empty()
    });
    assert!(rest.is_empty(), "fewer bytes than the chunks held before");
}
