//! thalweg cluster.
