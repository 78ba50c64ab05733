"""Tokens for OAUTHBEARER from an identity provider (OpenID Connect, KIP-768).

    OidcTokens (one per client) ──> SharedTokens (one per settings) ──> grant ──> http ──> response

Clients of a process with equal settings share one token, and one request to the provider.
"""

from collections.abc import Mapping

from thalweg.auth.oidc.error import OidcError
from thalweg.auth.oidc.response import Kept
from thalweg.auth.oidc.settings import AssertionSettings, Settings
from thalweg.auth.oidc.sharing import shared
from thalweg.auth.token import Token

__all__ = ["AssertionSettings", "OidcError", "OidcTokens", "Settings"]


class OidcTokens:
    """A token provider that requests its tokens from an identity provider."""

    def __init__(self, settings: Settings, extensions: Mapping[str, str]) -> None:
        """Takes the settings of one client. It sends no request yet."""
        self._shared = shared(settings)
        self._extensions = extensions
        self._given: Kept | None = None

    def token(self) -> Token:
        """Returns a token that another client got in the meantime, or requests a new one.

        Raises:
            OidcError: If the identity provider supplies none.
        """
        self._given = kept = self._shared.get(self._given)
        return Token(kept.value, kept.expires_at(), kept.principal, self._extensions)
