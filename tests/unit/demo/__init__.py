"""The demo without brokers and Spark."""
