"""AWS logins compared with botocore and kafka-python, and credentials that botocore finds.

No broker of Amazon's runs here. What they check is the signature, and these sign the same.
"""

from __future__ import annotations

import base64
import functools
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.support.identity import Handler, IdentityProvider, jwt
from tests.support.paths import PEERS_PYTHON, ROOT, made
from thalweg.auth import aws
from thalweg.auth.aws import Credentials, Identity, MskTokenProvider

CASES = [
    ("b-1.x.kafka.eu-west-1.amazonaws.com", "eu-west-1", "AKIDEXAMPLE", "secret", None),
    ("boot-x.kafka-serverless.us-east-1.amazonaws.com", "us-east-1", "ASIA1", "a/+=b", "t/+=&%~*"),
    ("kafka.private.example", "ap-southeast-2", "A" * 20, "s" * 40, "x" * 1500),
]
ROLE = "arn:aws:iam::123456789012:role/kafka"


def ask(environment: dict[str, str] | None = None, **cases: Any) -> dict[str, Any]:
    """Runs aws_peers.py in the environment of the other clients."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    nothing = {"AWS_CONFIG_FILE": "/none", "AWS_SHARED_CREDENTIALS_FILE": "/none"}
    done = subprocess.run(
        [made(PEERS_PYTHON, "peers"), ROOT / "tests/support/clients/aws_peers.py"],
        input=json.dumps(cases),
        env={
            **kept,
            **nothing,
            "PYTHONPATH": str(ROOT / "python"),
            "AWS_EC2_METADATA_DISABLED": "true",
            **(environment or {}),
        },
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> float:
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.25)
    return time.time()


@pytest.mark.parametrize("host, region, access_key, secret_key, token", CASES)
def test_the_same_bytes_are_signed(
    now: float, host: str, region: str, access_key: str, secret_key: str, token: str | None
) -> None:
    keys = Credentials(access_key, secret_key, token)
    case = {
        "now": now,
        "host": host,
        "region": region,
        "access_key": access_key,
        "secret_key": secret_key,
        "token": token,
    }
    signed = ask(botocore_url={**case, "host": f"kafka.{region}.amazonaws.com"})["botocore_url"]
    made_here = MskTokenProvider(region, credentials=keys).token()
    url = base64.urlsafe_b64decode(made_here.value + "=" * (-len(made_here.value) % 4)).decode()
    assert url == f"{signed}&User-Agent={aws._USER_AGENT.replace('/', '%2F')}"

    result = ask(botocore_url=case, kafka_python_message=case)
    ours = json.loads(aws.message(Identity(region, credentials=keys), host))
    theirs = json.loads(result["kafka_python_message"])
    assert {**theirs, "user-agent": ours["user-agent"]} == ours
    query = {name.lower(): each for name, each in parse_qsl(urlsplit(result["botocore_url"]).query)}
    assert query.items() <= ours.items()


def find(environment: dict[str, str], host: str | None = None, **identity: Any) -> Any:
    return ask(environment, found={"identity": identity, "host": host})["found"]


def test_credentials_of_the_environment() -> None:
    environment = {
        "AWS_ACCESS_KEY_ID": "AKIDENV",
        "AWS_SECRET_ACCESS_KEY": "hunter2",
        "AWS_SESSION_TOKEN": "hunter3",
        "AWS_REGION": "eu-west-1",
    }
    assert find(environment) == {"keys": ["AKIDENV", "hunter2", "hunter3"], "region": "eu-west-1"}


def test_credentials_and_region_of_a_profile(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "[profile dev]\nregion = ap-south-1\n"
        "aws_access_key_id = AKIDDEV\naws_secret_access_key = hunter2\n"
    )
    environment = {"AWS_CONFIG_FILE": str(config)}
    expected = {"keys": ["AKIDDEV", "hunter2", None], "region": "ap-south-1"}
    assert find(environment, profile="dev") == expected
    result = find(environment, profile="prod")
    assert "no credentials: ProfileNotFound: The config profile (prod)" in result["error"]


def test_no_credentials_and_no_region_are_named() -> None:
    assert "AWS: no credentials: botocore found none" in find({})["error"]
    keys = {"AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "hunter2"}
    assert "AWS: the region is not known" in find(keys)["error"]


@pytest.fixture
def sts() -> Iterator[IdentityProvider]:
    with IdentityProvider() as started:
        yield started


def assumed(handler: Handler, life_s: int = 3600) -> None:
    """Responds to AssumeRole."""
    expiration = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + life_s))
    body = f"""<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
        <AssumeRoleResult><Credentials><AccessKeyId>ASIAROLE</AccessKeyId>
        <SecretAccessKey>hunter4</SecretAccessKey><SessionToken>hunter5</SessionToken>
        <Expiration>{expiration}</Expiration></Credentials></AssumeRoleResult>
        </AssumeRoleResponse>"""
    handler.send(200, body.encode(), {"Content-Type": "text/xml"})


def test_a_role_is_assumed_once(sts: IdentityProvider) -> None:
    sts.respond(assumed)
    environment = {
        "AWS_ACCESS_KEY_ID": "AKIDENV",
        "AWS_SECRET_ACCESS_KEY": "hunter2",
        "AWS_ENDPOINT_URL_STS": sts.token_url.removesuffix("/token"),
    }
    result = find(environment, host="b-1.x.kafka.eu-west-1.amazonaws.com", role_arn=ROLE)
    assert result == {"keys": ["ASIAROLE", "hunter4", "hunter5"], "region": "eu-west-1"}
    (request,) = sts.requests
    assert request.form["Action"] == "AssumeRole"
    assert request.form["RoleArn"] == ROLE
    assert "Credential=AKIDENV/" in request.headers["authorization"]


def test_a_role_is_assumed_with_the_current_credentials_of_the_application(
    sts: IdentityProvider,
) -> None:
    soon = functools.partial(assumed, life_s=30)  # so that botocore assumes it each time
    sts.respond(soon, soon)
    environment = {"AWS_ENDPOINT_URL_STS": sts.token_url.removesuffix("/token")}
    case = {"names": ["AKIDONE", "AKIDTWO", "wrong"], "role_arn": ROLE}
    *good, bad = ask(environment, roles_of_a_function=case)["roles_of_a_function"]
    assert good == ["ASIAROLE", "ASIAROLE"]
    used = [request.headers["authorization"] for request in sts.requests]
    assert "Credential=AKIDONE/" in used[0]
    assert "Credential=AKIDTWO/" in used[1]
    assert bad == "AWS: no credentials: sasl_aws_credentials raised ValueError"


def test_a_role_that_must_not_be_assumed_is_named(sts: IdentityProvider) -> None:
    body = b"""<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error>
        <Type>Sender</Type><Code>AccessDenied</Code><Message>not you</Message></Error>
        </ErrorResponse>"""
    sts.respond(lambda handler: handler.send(403, body, {"Content-Type": "text/xml"}))
    environment = {
        "AWS_ACCESS_KEY_ID": "AKIDENV",
        "AWS_SECRET_ACCESS_KEY": "hunter2",
        "AWS_REGION": "eu-west-1",
        "AWS_ENDPOINT_URL_STS": sts.token_url.removesuffix("/token"),
    }
    result = find(environment, role_arn=ROLE)
    assert "AWS: no credentials: ClientError" in result["error"]
    assert "AccessDenied" in result["error"]
    assert "hunter2" not in result["error"]


def web_identity(handler: Handler) -> None:
    """Responds to GetWebIdentityToken."""
    expiration = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 600))
    body = f"""<GetWebIdentityTokenResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
        <GetWebIdentityTokenResult><WebIdentityToken>{jwt(sub="arn:role")}</WebIdentityToken>
        <Expiration>{expiration}</Expiration></GetWebIdentityTokenResult>
        </GetWebIdentityTokenResponse>"""
    handler.send(200, body.encode(), {"Content-Type": "text/xml"})


def test_sts_signs_a_token(sts: IdentityProvider) -> None:
    sts.respond(web_identity)
    case = {
        "region": "eu-west-1",
        "audience": "https://kafka",
        "duration_s": 600,
        "endpoint": sts.token_url.removesuffix("/token"),
        "tags": [["team", "data"]],
    }
    result = ask(token=case)["token"]
    assert result["principal"] == "arn:role"
    assert result["expires_at"] == pytest.approx(time.time() + 600, abs=120)
    form = sts.requests[0].form
    assert form["Action"] == "GetWebIdentityToken"
    assert (form["Audience.member.1"], form["DurationSeconds"]) == ("https://kafka", "600")
    assert form["SigningAlgorithm"] == "ES384"
    assert (form["Tags.member.1.Key"], form["Tags.member.1.Value"]) == ("team", "data")


def test_a_refusal_of_sts_is_named(sts: IdentityProvider) -> None:
    body = b"""<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error>
        <Code>OutboundWebIdentityFederationDisabled</Code><Message>not here</Message></Error>
        </ErrorResponse>"""
    sts.respond(lambda handler: handler.send(403, body, {"Content-Type": "text/xml"}))
    endpoint = sts.token_url.removesuffix("/token")
    case = {"region": "eu-west-1", "audience": "a", "endpoint": endpoint, "tags": []}
    result = ask(token=case)["token"]
    assert result["error"].startswith("OIDC: AWS: STS supplies no token: ")
    assert "not here" in result["error"]
    assert "hunter2" not in result["error"]
