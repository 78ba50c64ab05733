"""Reads sasl_oauthbearer_config for tokens that a cloud gives to its machines.

    azure_imds    'query=api-version=2025-04-07&resource=api://app'        ──> the query of the URL
    aws_iam       'region=eu-west-1,audience=https://kafka,tag_team=data'  ──> StsSettings

The forms are librdkafka's and confluent-kafka's. Errors quote no value.
"""

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from thalweg.auth.sts import StsSettings

__all__ = ["AZURE_URL", "azure_query", "sts_settings"]

AZURE_URL: Final = "http://169.254.169.254/metadata/identity/oauth2/token"
_TAG: Final = "tag_"
_TAGS_MAX: Final = 50
_KEYS: Final = ("region", "audience", "duration_seconds", "signing_algorithm", "sts_endpoint")
_ALGORITHMS: Final = ("ES384", "RS256")


def azure_query(config: str | None) -> str | None:
    """Returns the query for Azure's service, or None if there is none.

    Raises:
        ValueError: If the configuration has another form. The text ends a sentence.
    """
    if not config:
        return None
    query = config.strip().removeprefix("query=")
    if query == config.strip() or not re.fullmatch(r"[!-~]+", query) or "#" in query:
        raise ValueError("must be 'query=api-version=...&resource=...' for azure_imds")
    return query


def sts_settings(config: str | None, **identity: Any) -> "StsSettings":
    """Returns what to ask AWS for.

    Args:
        config: The option. A comma within a value has a backslash before it.
        identity: Where the AWS credentials come from.

    Raises:
        ValueError: If the configuration is not valid. The text ends a sentence.
    """
    from thalweg.auth.held import Held
    from thalweg.auth.sts import StsSettings

    given = identity.get("credentials")
    identity["credentials"] = None if given is None else Held(given)

    entries = _entries(config or "")
    tags = {name: value for name, value in entries.items() if name.startswith(_TAG)}
    for name in entries.keys() - tags.keys():
        if name not in _KEYS:
            raise ValueError(f"has an unknown key. The keys are {', '.join(_KEYS)} and tag_NAME")
    for name in ("region", "audience"):
        if not entries.get(name):
            raise ValueError(f"needs {name}= for aws_iam")
    duration = entries.get("duration_seconds", "300")
    if not (duration.isascii() and duration.isdigit() and 60 <= int(duration[:9]) <= 3600):
        raise ValueError("has a duration_seconds that is not from 60 to 3600")
    algorithm = entries.get("signing_algorithm", "ES384")
    if algorithm not in _ALGORITHMS:
        raise ValueError(f"has a signing_algorithm that is not {' or '.join(_ALGORITHMS)}")
    endpoint = entries.get("sts_endpoint")
    if endpoint is not None and not re.fullmatch(r"https?://[!-?A-~]+", endpoint):
        raise ValueError("has an sts_endpoint that is not https://host[:port]")
    if len(tags) > _TAGS_MAX:
        raise ValueError(f"has more than {_TAGS_MAX} tags")
    return StsSettings(
        region=entries["region"],
        audience=entries["audience"],
        duration_s=int(duration),
        algorithm=algorithm,
        endpoint=endpoint,
        tags=tuple((name.removeprefix(_TAG), value) for name, value in tags.items()),
        **identity,
    )


def _entries(config: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in re.split(r"(?<!\\),", config):
        name, equals, value = part.replace("\\,", ",").strip().partition("=")
        if not equals and name:
            raise ValueError("must be 'key=value,key=value'")
        if name:
            found[name.strip()] = value.strip()
    return found
