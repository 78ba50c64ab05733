//! The sender: takes batches from the accumulator and sees each to its outcome.
