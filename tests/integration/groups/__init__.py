"""Members of consumer groups on brokers, and the protocols that they speak."""
