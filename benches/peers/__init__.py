"""Runs every client in turn against the same real broker, see benches/README.md."""
