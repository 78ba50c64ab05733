"""`Settings`: where and how a client gets its tokens."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Hidden", "Settings"]


class Hidden(Protocol):
    """A text that no repr shows: `thalweg.Secret`."""

    def reveal(self) -> str:
        """Returns the text."""
        ...


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that determines a token. Clients with equal settings share their tokens.

    Attributes:
        url: The token endpoint.
        client_id: The ID of the client at the identity provider.
        client_secret: Its secret, or a function that returns it.
        scope: The scope to request, or None.
        header_urlencode: Whether the ID and the secret are URL-encoded in the header.
        sub_claim: The claim with the name of the user.
        ca_location: A file or folder with the authorities to trust. None: the system's.
        ca_pem: The text of such a file.
        connect_timeout_s: The limit on the setup of a connection.
        read_timeout_s: The limit on one exchange.
        retry_backoff_s: The first pause between two requests.
        retry_max_s: How long requests are repeated.
    """

    url: str
    client_id: str | None = None
    client_secret: Hidden | Callable[[], Any] | None = None
    scope: str | None = None
    header_urlencode: bool = False
    sub_claim: str = "sub"
    ca_location: str | None = None
    ca_pem: Hidden | None = None
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 10.0
    retry_backoff_s: float = 0.1
    retry_max_s: float = 10.0
