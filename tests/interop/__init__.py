"""Other clients and thalweg, through the same brokers."""
