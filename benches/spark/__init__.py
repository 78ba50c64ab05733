"""Compares the Spark source with Spark's own Kafka connector."""
