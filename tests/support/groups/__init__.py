"""Histories of consumer groups and checks of them, and random groups for assignors."""
