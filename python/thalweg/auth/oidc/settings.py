"""`Settings`: where and how a client gets its tokens."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from thalweg.auth.held import Held
from thalweg.auth.oidc.error import OidcError
from thalweg.auth.token import is_encodable

if TYPE_CHECKING:
    from thalweg.auth.sts import StsSettings

__all__ = ["AssertionSettings", "Hidden", "Settings", "supplied"]


class Hidden(Protocol):
    """A text that no repr shows: `thalweg.Secret`."""

    def reveal(self) -> str:
        """Returns the text."""
        ...


# A secret, or a function that supplies it. `hashable` wraps a function without a hash.
Supplied: TypeAlias = Hidden | Callable[[], Any] | Held


@dataclass(frozen=True, slots=True)
class AssertionSettings:
    """How a client makes its assertions.

    Attributes:
        algorithm: "RS256" or "ES256".
        private_key: The path of a PEM file, or its text.
        passphrase: The passphrase of the key, or None.
        file: The path of a file with the complete assertion. The client then ignores the other
            fields.
        template_file: The path of a JSON file with a header and a payload.
        aud: The audience, or None.
        iss: The issuer, or None.
        sub: The subject, or None.
        exp_seconds: How long an assertion is valid.
        nbf_seconds: How many seconds before its creation an assertion is already valid, because
            clocks may differ.
        jti_include: Whether each assertion has an ID.
    """

    algorithm: str = "RS256"
    private_key: "str | Hidden | None" = None
    passphrase: "Supplied | None" = None
    file: str | None = None
    template_file: str | None = None
    aud: str | None = None
    iss: str | None = None
    sub: str | None = None
    exp_seconds: int = 300
    nbf_seconds: int = 60
    jti_include: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that determines a token. Clients with equal settings share their tokens.

    Attributes:
        url: The token endpoint. Or file:/path, to read the token from a file.
        client_id: The ID of the client at the identity provider.
        client_secret: Its secret, or a function that returns it.
        scope: The scope to request, or None.
        header_urlencode: Whether the ID and the secret are URL-encoded in the header.
        sub_claim: The claim with the name of the user.
        jwt_bearer: Whether the assertion is the grant itself.
        assertion: How to make assertions. None: the client has a secret.
        azure: Whether the endpoint is that of an Azure machine, which needs no credentials.
        sts: What to ask AWS for, instead of an endpoint. None: nothing.
        ca_location: A file or folder with the authorities to trust. None: the system's.
        ca_pem: The text of such a file.
        connect_timeout_s: The limit on the setup of a connection.
        read_timeout_s: The limit on one exchange.
        retry_backoff_s: The first pause between two requests.
        retry_max_s: How long requests are repeated.
    """

    url: str
    client_id: str | None = None
    client_secret: "Supplied | None" = None
    scope: str | None = None
    header_urlencode: bool = False
    sub_claim: str = "sub"
    jwt_bearer: bool = False
    assertion: AssertionSettings | None = None
    azure: bool = False
    sts: "StsSettings | None" = None
    ca_location: str | None = None
    ca_pem: Hidden | None = None
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 10.0
    retry_backoff_s: float = 0.1
    retry_max_s: float = 10.0


def hashable(given: Any) -> Any:
    """Returns a secret or a function in a form that `Settings` can compare."""
    try:
        hash(given)
    except Exception:  # the application's own method
        return Held(given)
    return given


def supplied(given: Supplied | None, name: str) -> str:
    """Returns a secret, for which it may call a function of the application.

    Args:
        given: The secret or the function.
        name: The name of the option, for messages.

    Raises:
        OidcError: If the function raises, or does not return a str.
    """
    text: Any
    if isinstance(given, Held):
        given = given.value
    try:
        text = given() if callable(given) else given
    except Exception as error:
        # Without its text, which may contain the secret.
        raise OidcError(f"the function in {name} raised {type(error).__name__}") from error
    if hasattr(text, "reveal"):
        text = text.reveal()
    if not isinstance(text, str):
        raise OidcError(f"the function in {name} must return a str, not {type(text).__name__}")
    if not is_encodable(text):
        raise OidcError(f"{name} must be encodable as UTF-8")
    return text
