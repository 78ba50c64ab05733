//! thalweg broker.
