//! CRC-32C, the checksum of v2 batches, over bytes in several chunks.
//!
//! This uses crc-fast because it is faster on an AVX-512 machine (one core of an EPYC). It computes
//! 1 KiB in 21 ns (48 GB/s) and 16 to 128 KiB at 60 GB/s. The crate crc32c takes 37 ns (28 GB/s)
//! and stays at 25 to 29 GB/s. For 100 bytes both take about 10 ns.

use crc_fast::{CrcAlgorithm, Digest};

/// An incremental CRC-32C.
#[derive(Debug, Clone)]
pub struct Crc32c(Digest);

impl Crc32c {
    pub fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    #[inline]
    pub fn finish(&self) -> u32 {
        self.0.finalize() as u32
    }
}

impl Default for Crc32c {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the CRC-32C of the concatenated chunks.
pub fn crc32c<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut crc = Crc32c::new();
    for chunk in chunks {
        crc.update(chunk);
    }
    crc.finish()
}

/// An incremental CRC-32 (IEEE), the checksum of gzip.
pub(crate) struct Crc32(Digest);

impl Crc32 {
    pub(crate) fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32IsoHdlc))
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(&self) -> u32 {
        self.0.finalize() as u32
    }
}

/// Returns the CRC-32 (IEEE), the checksum of v0 and v1 messages and of gzip.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iso_hdlc(bytes)
}
