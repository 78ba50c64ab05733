"""Tests of the public API against brokers: the embedded one, Kafka 4.3 and Kafka 3.9."""
