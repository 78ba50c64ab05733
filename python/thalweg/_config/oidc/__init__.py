"""Makes the token provider that asks an identity provider, from the options of a client."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from thalweg._config.oidc.metadata import AZURE_URL, azure_query, sts_settings
from thalweg._config.oidc.rules import extensions_of, has_assertion, is_jwt_bearer
from thalweg._config.secret import revealed

if TYPE_CHECKING:
    from thalweg.auth.oidc import OidcTokens

__all__ = ["oidc_tokens"]

_METADATA: Final = "sasl_oauthbearer_metadata_authentication_type"


def oidc_tokens(values: Mapping[str, Any]) -> "OidcTokens":
    """Returns the token provider.

    Args:
        values: All options of the client, which `OidcRules` has checked.
    """
    from thalweg.auth.oidc import AssertionSettings, OidcTokens, Settings
    from thalweg.auth.oidc.settings import hashable

    def claim(name: str) -> Any:
        return values[f"sasl_oauthbearer_assertion_{name}"]

    assertion = AssertionSettings(
        algorithm=claim("algorithm"),
        private_key=claim("private_key_file"),
        passphrase=hashable(claim("private_key_passphrase")),
        file=claim("file"),
        template_file=claim("template_file"),
        aud=claim("claim_aud"),
        iss=claim("claim_iss"),
        sub=claim("claim_sub"),
        exp_seconds=claim("claim_exp_seconds"),
        nbf_seconds=claim("claim_nbf_seconds"),
        jti_include=claim("claim_jti_include"),
    )
    kind, url = values[_METADATA], revealed(values["sasl_oauthbearer_token_endpoint_url"])
    config, sts = revealed(values["sasl_oauthbearer_config"]), None
    if kind == "azure_imds":
        url, query = url or AZURE_URL, azure_query(config)
        if query is not None:
            url = f"{url}{'&' if '?' in url else '?'}{query}"
    elif kind == "aws_iam":
        sts = sts_settings(
            config,
            profile=values["sasl_aws_profile"],
            role_arn=values["sasl_aws_role_arn"],
            credentials=values["sasl_aws_credentials"],
        )
    settings = Settings(
        url=url or "",
        azure=kind == "azure_imds",
        sts=sts,
        client_id=values["sasl_oauthbearer_client_credentials_client_id"],
        client_secret=hashable(values["sasl_oauthbearer_client_credentials_client_secret"]),
        scope=values["sasl_oauthbearer_scope"],
        header_urlencode=values["sasl_oauthbearer_header_urlencode"],
        sub_claim=values["sasl_oauthbearer_sub_claim_name"],
        jwt_bearer=is_jwt_bearer(values),
        assertion=assertion if has_assertion(values) else None,
        ca_location=values["https_ca_location"],
        ca_pem=values["https_ca_pem"],
        connect_timeout_s=values["sasl_login_connect_timeout_ms"] / 1000,
        read_timeout_s=values["sasl_login_read_timeout_ms"] / 1000,
        retry_backoff_s=values["sasl_login_retry_backoff_ms"] / 1000,
        retry_max_s=values["sasl_login_retry_backoff_max_ms"] / 1000,
    )
    return OidcTokens(settings, extensions_of(values["sasl_oauthbearer_extensions"]))
