"""Consumers on brokers: polling, positions, commits, and logs with damage or gaps."""
