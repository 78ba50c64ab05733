"""Bytes on the wire, held against other clients."""
