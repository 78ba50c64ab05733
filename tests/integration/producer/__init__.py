"""Producers on brokers: what they send, how they batch it, and what happens to it."""
