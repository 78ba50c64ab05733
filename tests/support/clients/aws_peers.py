"""What botocore and kafka-python sign, and what thalweg finds through botocore.

It runs in the environment of the other clients: case as JSON on stdin, result as JSON on stdout.
"""

from __future__ import annotations

import datetime
import json
import sys
from typing import Any


def botocore_url(case: dict[str, Any]) -> str:
    """Returns the URL that botocore signs, as aws-msk-iam-sasl-signer asks it to."""
    import botocore.auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    now = datetime.datetime.fromtimestamp(case["now"], datetime.UTC)
    botocore.auth.get_current_datetime = lambda *given: now.replace(tzinfo=None)
    keys = Credentials(case["access_key"], case["secret_key"], case["token"])
    url = f"https://{case['host']}/"
    request = AWSRequest("GET", url, params={"Action": "kafka-cluster:Connect"})
    signer = botocore.auth.SigV4QueryAuth(keys, "kafka-cluster", case["region"], expires=900)
    signer.add_auth(request)
    return str(request.url)


def kafka_python_message(case: dict[str, Any]) -> str:
    """Returns the message of kafka-python for AWS_MSK_IAM."""
    from kafka.net.sasl import msk

    class Clock:
        @staticmethod
        def now(zone: Any) -> datetime.datetime:
            return datetime.datetime.fromtimestamp(case["now"], zone)

    class Module:
        datetime, timezone = Clock, datetime.timezone

    msk.datetime = Module
    names = "host", "access_key", "secret_key", "region", "token"
    client = msk.AwsMskIamClient(**{name: case[name] for name in names})
    return str(client.first_message().decode())


def found(case: dict[str, Any]) -> dict[str, Any]:
    """Returns the credentials and the region that thalweg finds through botocore."""
    from thalweg.auth.aws import AwsError, Identity

    try:
        identity = Identity(**case["identity"])
        keys = identity.credentials(case.get("host"))
        again = identity.credentials(case.get("host"))
        assert keys == again
        region = identity.region(case.get("host"))
    except AwsError as error:
        return {"error": str(error)}
    return {"keys": [keys.access_key, keys.secret_key, keys.token], "region": region}


def roles_of_a_function(case: dict[str, Any]) -> list[str]:
    """Returns the outcomes of assuming a role with what a function returns, and at last raises."""
    from thalweg.auth.aws import Credentials, Identity, reason

    names = iter(case["names"])

    def given() -> Credentials:
        name = next(names)
        if name == "wrong":
            raise ValueError("hunter2")
        return Credentials(name, "hunter2")

    identity = Identity("eu-west-1", role_arn=case["role_arn"], credentials=given)
    outcomes = []
    for _ in case["names"]:
        try:
            outcomes.append(identity.credentials().access_key)
        except Exception as error:
            outcomes.append(reason(error))
    return outcomes


def token(case: dict[str, Any]) -> dict[str, Any]:
    """Returns the token that thalweg requests from STS."""
    from thalweg.auth.aws import Credentials
    from thalweg.auth.held import Held
    from thalweg.auth.oidc import OidcError, OidcTokens, Settings
    from thalweg.auth.sts import StsSettings

    keys = Credentials("AKIDOWN", "hunter2")
    tags = tuple(map(tuple, case.pop("tags")))
    settings = Settings("", sts=StsSettings(**case, tags=tags, credentials=Held(keys)))
    try:
        got = OidcTokens(settings, {}).token()
    except OidcError as error:
        return {"error": str(error)}
    return {"value": got.value, "expires_at": got.expires_at, "principal": got.principal}


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print(json.dumps({name: globals()[name](given[name]) for name in given}))
