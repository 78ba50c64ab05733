"""What the clients of both APIs share: arguments, Python steps, transactions, exit. Private."""
