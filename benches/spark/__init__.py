"""The Spark source beside Spark's own Kafka connector."""
