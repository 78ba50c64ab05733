"""KafkaConsumer, on a fake core, and its records."""
