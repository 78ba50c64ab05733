"""What the suite's fixtures use to name topics."""

import re

__all__ = ["TOPIC_LEGAL_CHARS", "TOPIC_MAX_LENGTH", "ensure_valid_topic_name"]

TOPIC_MAX_LENGTH = 249
TOPIC_LEGAL_CHARS = re.compile("^[a-zA-Z0-9._-]+$")


def ensure_valid_topic_name(topic: str) -> None:
    """Raises ValueError for an invalid topic name."""
    if not TOPIC_LEGAL_CHARS.match(topic) or len(topic) > TOPIC_MAX_LENGTH:
        raise ValueError(topic)
