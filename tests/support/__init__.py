"""Code that tests and benchmarks share: real brokers, other clients, sizes, waiting."""
