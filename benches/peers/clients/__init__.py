"""A program for each client: `python -m benches.peers.clients.NAME CASE` prints JSON."""
