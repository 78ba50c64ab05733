//! thalweg network.
