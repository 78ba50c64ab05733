"""The benchmarks measure what they say."""
