"""Transactions on brokers, and programs that process each record exactly once."""
