//! thalweg protocol.
