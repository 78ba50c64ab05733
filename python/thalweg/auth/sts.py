"""Tokens for OAUTHBEARER from AWS: STS signs a JSON Web Token for the machine's AWS identity.

    StsSettings ──> botocore: sts.get_web_identity_token(...) ──> (token, seconds)

confluent-kafka calls this `aws_iam`. The broker must trust the account's issuer at AWS.
"""

import time
from dataclasses import dataclass

from thalweg.auth.aws import AwsError, Identity
from thalweg.auth.held import Held

__all__ = ["StsSettings", "web_identity"]


@dataclass(frozen=True, slots=True)
class StsSettings:
    """What to ask AWS for.

    Attributes:
        region: The AWS region.
        audience: For whom the token is.
        duration_s: How long it lives.
        algorithm: "ES384" or "RS256".
        endpoint: Another URL of STS, or None.
        tags: Names and values of further claims.
        profile: A profile of AWS's configuration files, or None.
        role_arn: A role to assume, or None.
        credentials: The application's own credentials, or None. See `thalweg.auth.aws.Identity`.
    """

    region: str
    audience: str
    duration_s: int = 300
    algorithm: str = "ES384"
    endpoint: str | None = None
    tags: tuple[tuple[str, str], ...] = ()
    profile: str | None = None
    role_arn: str | None = None
    credentials: Held | None = None


def web_identity(settings: StsSettings, timeout_s: float) -> tuple[str, float]:
    """Returns a token and how many seconds it lives.

    Raises:
        AwsError: If AWS supplies none.
    """
    held = settings.credentials
    given = None if held is None else held.value
    identity = Identity(settings.region, settings.profile, settings.role_arn, given)
    keys = identity.credentials()
    try:
        from botocore.config import Config
        from botocore.session import Session

        limits = Config(
            connect_timeout=timeout_s,
            read_timeout=timeout_s,
            retries={"mode": "standard", "total_max_attempts": 3},
        )
        client = Session().create_client(
            "sts",
            region_name=settings.region,
            endpoint_url=settings.endpoint,
            aws_access_key_id=keys.access_key,
            aws_secret_access_key=keys.secret_key,
            aws_session_token=keys.token,
            config=limits,
        )
        if not hasattr(client, "get_web_identity_token"):
            failure = "this botocore is too old. Install botocore 1.41.5 or later"
        else:
            response = client.get_web_identity_token(
                Audience=[settings.audience],
                DurationSeconds=settings.duration_s,
                SigningAlgorithm=settings.algorithm,
                Tags=[{"Key": name, "Value": value} for name, value in settings.tags],
            )
            expires_at = response["Expiration"].timestamp()
            return str(response["WebIdentityToken"]), expires_at - time.time()
    except Exception as error:
        failure = f"{type(error).__name__}: {str(error)[:500]}"
    raise AwsError(f"AWS: STS supplies no token: {failure}")
