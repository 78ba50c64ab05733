"""Benchmarks: figures to compare within one run, never tests that fail a build."""
