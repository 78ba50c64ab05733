"""KafkaProducer, on a fake core."""
