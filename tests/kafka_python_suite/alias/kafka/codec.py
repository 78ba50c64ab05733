"""Codecs are native in thalweg: all are available, and nothing here changes that."""

__all__ = ["has_gzip"]


def has_gzip() -> bool:
    """Exists for the test that pretends that gzip is missing."""
    return True
