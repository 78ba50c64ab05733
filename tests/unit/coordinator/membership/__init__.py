"""A member in its driver (on a fake core)."""
