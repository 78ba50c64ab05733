"""Options, on a fake core."""
