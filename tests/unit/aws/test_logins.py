"""Logins at Amazon MSK: what they contain, which region and which credentials they use."""

from __future__ import annotations

import base64
import calendar
import json
import os
import queue
import threading
import time
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from thalweg.auth.aws import AwsError, Credentials, Identity, Logins, MskTokenProvider, message
from thalweg.auth.sigv4 import presigned

HOST = "b-1.demo.abc123.c2.kafka.eu-west-1.amazonaws.com"
KEYS = Credentials("AKIDEXAMPLE", "hunter2/+secret", "hunter3=token")


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)


class Reply:
    """Keeps the answer, as the core does."""

    def __init__(self) -> None:
        self.answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def password(self, value: str) -> None:
        self.answers.put(value)

    def failed(self, reason: str, error: BaseException) -> None:
        self.answers.put((reason, error))


def answer(identity: Identity, host: str = HOST) -> Any:
    reply = Reply()
    Logins(identity).request(reply, host)
    return reply.answers.get(timeout=60)


def test_a_login_has_the_fields_of_amazons_library():
    began = time.time()
    sent = json.loads(answer(Identity(credentials=KEYS)))
    now = time.time()
    stamp = time.strptime(sent["x-amz-date"], "%Y%m%dT%H%M%SZ")
    day = sent["x-amz-date"][:8]
    assert sent["x-amz-credential"] == f"AKIDEXAMPLE/{day}/eu-west-1/kafka-cluster/aws4_request"
    assert began - 1 <= calendar.timegm(stamp) <= now, "in whole seconds"
    assert len(bytes.fromhex(sent["x-amz-signature"])) == 32
    assert sent["user-agent"].startswith("thalweg/")
    fixed = {
        "version": "2020_10_22",
        "host": HOST,
        "action": "kafka-cluster:Connect",
        "x-amz-algorithm": "AWS4-HMAC-SHA256",
        "x-amz-expires": "900",
        "x-amz-signedheaders": "host",
        "x-amz-security-token": KEYS.token,
    }
    assert fixed.items() <= sent.items()
    assert len(sent) == len(fixed) + 4


def test_long_lived_credentials_have_no_session_token():
    keys = Credentials("AKIDEXAMPLE", "secret")
    assert "x-amz-security-token" not in json.loads(message(Identity(credentials=keys), HOST))


def test_a_token_is_the_url_that_amazons_signer_makes():
    began = time.time()
    token = MskTokenProvider(region="eu-west-1", credentials=KEYS).token()
    now = time.time()
    url = base64.urlsafe_b64decode(token.value + "==").decode()
    parts = urlsplit(url)
    assert (parts.scheme, parts.netloc, parts.path) == (
        "https",
        "kafka.eu-west-1.amazonaws.com",
        "/",
    )
    query = dict(parse_qsl(parts.query, strict_parsing=True))
    assert query["Action"] == "kafka-cluster:Connect"
    assert query["User-Agent"].startswith("thalweg/")
    assert token.expires_at is not None
    assert began + 899 <= token.expires_at <= now + 901
    assert token.principal == "AKIDEXAMPLE"
    assert "=" not in token.value


# ---------------------------------------------------------------- regions


@pytest.mark.parametrize(
    "host, region",
    [
        (HOST, "eu-west-1"),
        ("boot-x.c1.kafka-serverless.us-gov-east-1.amazonaws.com", "us-gov-east-1"),
        ("b-2.x.kafka.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("b-2.x.kafka.eusc-de-east-1.amazonaws.eu", "eusc-de-east-1"),
    ],
)
def test_the_region_is_that_of_the_broker(host, region):
    assert Identity(credentials=KEYS).region(host) == region
    assert Identity("us-east-2", credentials=KEYS).region(host) == "us-east-2"


@pytest.mark.parametrize(
    "host",
    [
        "broker.example.com",
        "b-1.kafka.eu-west-1.amazonaws.com.evil.example",
        "eu-west-1.amazonaws.com.",
        "kafka.nonsense.amazonaws.com",
        None,
    ],
)
def test_a_private_name_has_no_region(host, monkeypatch):
    identity = Identity(credentials=KEYS)
    with pytest.raises(AwsError, match="Set sasl_aws_region"):
        identity.region(host)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "ap-south-1")
    assert identity.region(host) == "ap-south-1"
    monkeypatch.setenv("AWS_REGION", "ap-south-2")
    assert identity.region(host) == "ap-south-2"


def test_a_region_that_would_change_the_host_is_refused():
    with pytest.raises(AwsError, match="is not the name of a region"):
        Identity("evil.example/?x=", credentials=KEYS).region()


# ---------------------------------------------------------------- credentials


class Frozen:
    """An object as botocore's."""

    def __init__(self, found: Any) -> None:
        self.found = found

    def get_frozen_credentials(self) -> Any:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


@pytest.mark.parametrize("given", [KEYS, Frozen(KEYS), lambda: KEYS, lambda: Frozen(KEYS)])
def test_credentials_have_many_shapes(given):
    assert Identity(credentials=given).credentials() == KEYS


def test_each_login_uses_the_credentials_of_its_moment():
    found = iter([Credentials("ONE", "a"), Credentials("TWO", "b")])
    identity = Identity(credentials=lambda: next(found))
    for name in ("ONE", "TWO"):
        assert json.loads(answer(identity))["x-amz-credential"].startswith(f"{name}/")


async def later() -> Credentials:
    return KEYS


@pytest.mark.parametrize(
    "given, words",
    [
        (lambda: None, "need an access_key and a secret_key"),
        (lambda: ("hunter2", "hunter3"), "need an access_key and a secret_key"),
        (Credentials("A", "hunter2\udc80"), "must be encodable as UTF-8"),
        (Credentials("A", "hunter2", "hunter3\udc80"), "must be encodable as UTF-8"),
        (later, "sasl_aws_credentials is an async function"),
        (Frozen(None), "need an access_key and a secret_key"),
        (Frozen(OSError("hunter2")), "no credentials: sasl_aws_credentials raised OSError"),
        (lambda: int("hunter2"), "sasl_aws_credentials raised ValueError"),
    ],
)
def test_a_source_without_credentials_is_named(given, words):
    reason, error = answer(Identity(credentials=given))
    assert words in reason
    assert "hunter" not in reason
    assert isinstance(error, AwsError | ValueError)
    assert not hasattr(error, "object")


def test_a_source_that_hangs_does_not_delay_the_next_login():
    end, started, calls = threading.Event(), threading.Event(), iter(range(9))

    def given() -> Credentials:
        if next(calls) == 0:
            started.set()
            end.wait(120)
        return KEYS

    logins, first, second = Logins(Identity(credentials=given)), Reply(), Reply()
    logins.request(first, HOST)
    assert started.wait(60)
    logins.request(second, HOST)
    assert second.answers.get(timeout=60)
    assert first.answers.empty()
    end.set()
    assert first.answers.get(timeout=60)


def test_a_child_does_not_wait_for_a_lock_that_its_parent_held(monkeypatch):
    identity = Identity(credentials=KEYS)
    with identity._own_lock():
        parent = os.getpid()
        monkeypatch.setattr(os, "getpid", lambda: parent + 1)
        assert identity._own_lock().acquire(timeout=5)


def test_no_repr_and_no_frame_shows_a_credential():
    assert "hunter" not in repr(KEYS) + repr(Identity(credentials=KEYS))
    _, error = answer(Identity(credentials=KEYS), "private.example")
    entry = error.__traceback__
    while entry is not None:
        assert "hunter" not in repr(entry.tb_frame.f_locals)
        entry = entry.tb_next


def test_without_botocore_the_extra_is_named():
    with pytest.raises(AwsError, match=r"install thalweg\[aws\]"):
        MskTokenProvider(region="eu-west-1")
    with pytest.raises(AwsError, match=r"install thalweg\[aws\]"):
        Identity(role_arn="arn:aws:iam::1:role/x", credentials=KEYS)


def test_the_signature_covers_host_region_and_time():
    base = presigned(HOST, "eu-west-1", KEYS, 1e9)
    assert base == presigned(HOST, "eu-west-1", KEYS, 1e9 + 0.9)
    others = [
        presigned("b-2", "eu-west-1", KEYS, 1e9),
        presigned(HOST, "eu-west-2", KEYS, 1e9),
        presigned(HOST, "eu-west-1", KEYS, 1e9 + 1),
        presigned(HOST, "eu-west-1", Credentials("AKIDEXAMPLE", "x", KEYS.token), 1e9),
        presigned(HOST, "eu-west-1", Credentials("AKIDEXAMPLE", KEYS.secret_key), 1e9),
    ]
    signatures = {each["X-Amz-Signature"] for each in (base, *others)}
    assert len(signatures) == 6
