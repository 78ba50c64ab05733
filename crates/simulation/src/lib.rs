//! thalweg simulation.
