"""Codecs are native in thalweg: all are there, and nothing here changes that."""

__all__ = ["has_gzip"]


def has_gzip() -> bool:
    """For the test that pretends that gzip is not there."""
    return True
