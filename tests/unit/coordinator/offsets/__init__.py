"""Committed offsets (on a fake core)."""
