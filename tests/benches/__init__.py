"""Tests that the benchmarks measure what they claim."""
