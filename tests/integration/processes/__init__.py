"""Processes that use clients: exit, fork, signals, leaks, and the command line."""
