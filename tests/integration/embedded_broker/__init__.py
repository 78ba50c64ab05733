"""The embedded broker itself: its nodes, its faults, and its groups."""
