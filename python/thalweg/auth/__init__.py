"""Tokens for the SASL mechanism OAUTHBEARER.

    KafkaProducer(
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=lambda config: Token(fetch(), expires_at=time.time() + 3600),
    )

See docs/configuration.md for what a provider may be and what it may return.
"""

from thalweg.auth.provider import AbstractTokenProvider
from thalweg.auth.token import Token

__all__ = ["AbstractTokenProvider", "Token"]
