"""Bytes on the wire, compared with other clients."""
