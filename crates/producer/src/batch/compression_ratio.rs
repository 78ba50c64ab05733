//! Estimates how well a topic's batches compress. `batch_size` limits the compressed size, so an
//! open batch may hold more uncompressed bytes. This is Java's `CompressionRatioEstimator`, with
//! its constants.

use std::sync::atomic::{AtomicU32, Ordering};

use thalweg_records::Compression;

/// A ratio above the estimate raises the estimate by at least this much.
const DETERIORATE_STEP: f32 = 0.05;
/// A ratio below the estimate lowers it by at most this much: a batch that is too small costs less
/// than one that is too large.
const IMPROVING_STEP: f32 = 0.005;
/// Safety margin for the error of the estimate.
const SAFETY: f32 = 1.05;
/// However well records compress, a batch holds at most this many times its compressed size.
const RAW_FACTOR_MAX: usize = 16;

/// The estimate for one topic and codec. It starts at 1 (incompressible).
#[derive(Debug)]
pub(crate) struct CompressionRatio(AtomicU32);

impl Default for CompressionRatio {
    fn default() -> Self {
        Self(AtomicU32::new(1.0_f32.to_bits()))
    }
}

impl CompressionRatio {
    pub(crate) fn get(&self) -> f32 {
        f32::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Updates the estimate with the ratio of one batch. Only the sender calls this.
    pub(crate) fn observe(&self, observed: f32) {
        let estimate = self.get();
        let next = if observed > estimate {
            (estimate + DETERIORATE_STEP).max(observed)
        } else if observed < estimate {
            (estimate - IMPROVING_STEP).max(observed)
        } else {
            return;
        };
        self.0.store(next.to_bits(), Ordering::Relaxed);
    }

    /// Resets the estimate to the worst case, because a batch was too large for the broker.
    pub(crate) fn reset(&self, observed: f32) {
        self.0.store(observed.max(1.0).to_bits(), Ordering::Relaxed);
    }

    /// Returns how many uncompressed bytes of records a batch of at most `wire` bytes may hold.
    pub(crate) fn raw_limit(&self, codec: Compression, wire: usize) -> usize {
        if codec == Compression::None {
            return wire;
        }
        let raw = wire as f32 / (self.get() * SAFETY);
        (raw as usize).min(wire.saturating_mul(RAW_FACTOR_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn falls_slowly_and_rises_at_once() {
        let ratio = CompressionRatio::default();
        ratio.observe(0.3);
        assert!((ratio.get() - 0.995).abs() < 1e-6);
        for _ in 0..1000 {
            ratio.observe(0.3);
        }
        assert!((ratio.get() - 0.3).abs() < 1e-6);
        ratio.observe(0.31);
        assert!((ratio.get() - 0.35).abs() < 1e-6);
        ratio.observe(0.9);
        assert!((ratio.get() - 0.9).abs() < 1e-6);
        ratio.reset(0.4);
        assert!((ratio.get() - 1.0).abs() < 1e-6);
        ratio.reset(1.2);
        assert!((ratio.get() - 1.2).abs() < 1e-6);
    }

    #[test]
    fn raw_bytes_grow_with_the_ratio_and_have_a_cap() {
        let ratio = CompressionRatio::default();
        assert_eq!(ratio.raw_limit(Compression::None, 1000), 1000);
        assert_eq!(ratio.raw_limit(Compression::Lz4, 1050), 1000);
        for _ in 0..1000 {
            ratio.observe(0.0001);
        }
        assert_eq!(ratio.raw_limit(Compression::Lz4, 1000), 16_000);
    }
}
