//! thalweg records.
