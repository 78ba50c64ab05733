"""The classic protocol: members, groups, and both in virtual time."""
