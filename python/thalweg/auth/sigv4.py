"""Signs requests as AWS wants it (Signature Version 4), for logins at Amazon MSK.

    presigned("b-1.x.kafka.eu-west-1.amazonaws.com", "eu-west-1", credentials, now, action)
        ──> {"Action": ..., "X-Amz-Algorithm": ..., ..., "X-Amz-Signature": ...}

Only one kind of request is signed: GET / with a query, for the service kafka-cluster. The signature
covers the host and the query.
"""

import hashlib
import hmac
import time
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

__all__ = ["EXPIRES_S", "Credentials", "presigned"]

EXPIRES_S: Final = 900
_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_SERVICE: Final = "kafka-cluster"


@dataclass(frozen=True, slots=True)
class Credentials:
    """AWS credentials. The repr of this object hides them.

    Attributes:
        access_key: The ID of the access key.
        secret_key: The secret access key.
        token: The session token of temporary credentials, or None.
    """

    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


def presigned(host: str, region: str, credentials: Credentials, now: float) -> dict[str, str]:
    """Returns the query of a signed request to connect, in the order in which AWS's tools write it.

    Args:
        host: The host that the request names.
        region: The AWS region.
        credentials: Who signs.
        now: The time, in seconds since the epoch.
    """
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    scope = f"{stamp[:8]}/{region}/{_SERVICE}/aws4_request"
    query = {
        "Action": f"{_SERVICE}:Connect",
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{credentials.access_key}/{scope}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(EXPIRES_S),
        "X-Amz-SignedHeaders": "host",
    }
    if credentials.token:
        query["X-Amz-Security-Token"] = credentials.token
    nothing = hashlib.sha256(b"").hexdigest()
    request = f"GET\n/\n{_encoded(query)}\nhost:{host}\n\nhost\n{nothing}"
    digest = hashlib.sha256(request.encode()).hexdigest()
    text = f"{_ALGORITHM}\n{stamp}\n{scope}\n{digest}"
    key = f"AWS4{credentials.secret_key}".encode()
    for part in scope.split("/"):
        key = _hmac(key, part)
    return query | {"X-Amz-Signature": _hmac(key, text).hex()}


def _encoded(query: dict[str, str]) -> str:
    return "&".join(
        f"{quote(name, safe='-._~')}={quote(query[name], safe='-._~')}" for name in sorted(query)
    )


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
