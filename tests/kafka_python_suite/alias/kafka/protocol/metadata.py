"""kafka-python's class of a request, which thalweg does not have."""

__all__ = ["MetadataRequest"]


class MetadataRequest:
    """Tests only import it."""
