"""UUIDs in Kafka's own spelling: url-safe base64 without padding."""

import base64
import uuid

__all__ = ["random_base64", "to_base64", "to_uuid"]


def to_uuid(text: str) -> uuid.UUID:
    """A UUID of Kafka's spelling."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def to_base64(value: uuid.UUID) -> str:
    """Kafka's spelling of a UUID."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def random_base64() -> str:
    """A new one, spelled so."""
    return to_base64(uuid.uuid4())
