//! thalweg producer.
