//! thalweg python.
