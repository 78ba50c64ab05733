"""KIP-848's protocol: members, groups, and both in virtual time."""
