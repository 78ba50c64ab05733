//! thalweg consumer.
