"""Real Kafka brokers: how they start, their storage and certificates, and a proxy."""
