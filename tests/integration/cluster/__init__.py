"""Real brokers that are killed or restarted while clients use them."""
