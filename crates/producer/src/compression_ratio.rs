//! How well a topic's batches compressed lately: `batch_size` bounds what goes over the wire, so an
//! open batch may hold that much more. Java's `CompressionRatioEstimator`, with its constants.

use std::sync::atomic::{AtomicU32, Ordering};

use thalweg_records::Compression;

/// A ratio above the estimate moves it up at least this much.
const DETERIORATE_STEP: f32 = 0.05;
/// One below moves it down by this much only: too small a batch costs less than one too large.
const IMPROVING_STEP: f32 = 0.005;
/// Room for what the estimate is off.
const SAFETY: f32 = 1.05;
/// However well records compress, a batch holds no more than this many times its wire size in
/// memory.
const RAW_FACTOR_MAX: usize = 16;

/// An estimate for one topic and codec; it starts at 1 (incompressible).
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

    /// A batch came out with this ratio. Only the sender calls this.
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

    /// A batch was too large for the broker: start again from the worst.
    pub(crate) fn reset(&self, observed: f32) {
        self.0.store(observed.max(1.0).to_bits(), Ordering::Relaxed);
    }

    /// Bytes of records that a batch of at most `wire` bytes may hold uncompressed.
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
