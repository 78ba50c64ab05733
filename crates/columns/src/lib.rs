//! thalweg columns.
