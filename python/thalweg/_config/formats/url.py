"""Options for URLs. A URL may contain a password or a key."""

__all__ = ["may_be_secret"]


def may_be_secret(url: str) -> bool:
    """Whether a URL has a user or a query, so that it is not shown."""
    return "@" in url or "?" in url
