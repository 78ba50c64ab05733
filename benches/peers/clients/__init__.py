"""One program for each client: `python -m benches.peers.clients.NAME CASE`, a result as JSON."""
