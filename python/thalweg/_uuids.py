"""UUIDs in Kafka's text form: URL-safe base64 without padding."""

import base64
import uuid

__all__ = ["random_base64", "to_base64", "to_uuid"]


def to_uuid(text: str) -> uuid.UUID:
    """Converts Kafka's text form to a UUID."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def to_base64(value: uuid.UUID) -> str:
    """Converts a UUID to Kafka's text form."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def random_base64() -> str:
    """Returns a new random UUID in Kafka's text form."""
    return to_base64(uuid.uuid4())
