"""Makes the token provider that asks an identity provider, from the options of a client."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from thalweg._config.oidc_rules import extensions_of

if TYPE_CHECKING:
    from thalweg.auth.oidc import OidcTokens

__all__ = ["oidc_tokens"]


def oidc_tokens(values: Mapping[str, Any]) -> "OidcTokens":
    """Returns the token provider.

    Args:
        values: All options of the client, which `OidcRules` has checked.
    """
    from thalweg.auth.oidc import OidcTokens, Settings

    settings = Settings(
        url=values["sasl_oauthbearer_token_endpoint_url"],
        client_id=values["sasl_oauthbearer_client_credentials_client_id"],
        client_secret=values["sasl_oauthbearer_client_credentials_client_secret"],
        scope=values["sasl_oauthbearer_scope"],
        header_urlencode=values["sasl_oauthbearer_header_urlencode"],
        sub_claim=values["sasl_oauthbearer_sub_claim_name"],
        ca_location=values["https_ca_location"],
        ca_pem=values["https_ca_pem"],
        connect_timeout_s=values["sasl_login_connect_timeout_ms"] / 1000,
        read_timeout_s=values["sasl_login_read_timeout_ms"] / 1000,
        retry_backoff_s=values["sasl_login_retry_backoff_ms"] / 1000,
        retry_max_s=values["sasl_login_retry_backoff_max_ms"] / 1000,
    )
    return OidcTokens(settings, extensions_of(values["sasl_oauthbearer_extensions"]))
