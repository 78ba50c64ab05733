"""Logins to Amazon MSK with AWS credentials (IAM).

    AWS_MSK_IAM    core ── host ──> Logins ── Identity ──> signed JSON ──> the broker
    OAUTHBEARER    core ──> MskTokenProvider ── Identity ──> signed URL in base64 ──> the broker

Credentials come from botocore, unless the application gives its own. botocore is imported when a
client needs it, and caches and refreshes what it finds.
"""

import base64
import inspect
import json
import os
import re
import threading
import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from thalweg.auth.password import Reply
from thalweg.auth.sigv4 import EXPIRES_S, Credentials, presigned
from thalweg.auth.token import Token, TokenProviderError, is_encodable
from thalweg.auth.worker import Workers, escaped
from thalweg.version import __version__

__all__ = ["AwsError", "Credentials", "Identity", "Logins", "MskTokenProvider", "reason"]

_VERSION: Final = "2020_10_22"
_USER_AGENT: Final = f"thalweg/{__version__}"
_REGION_OF_HOST: Final = r"\.([a-z]{2,9}(?:-[a-z]+)+-\d+)\.amazonaws\.(?:com|com\.cn|eu)$"
_REGION: Final = r"[a-z]{2,9}(?:-[a-z]+)+-\d+"
_SESSION_NAME: Final = "thalweg"


class AwsError(TokenProviderError):
    """botocore, AWS credentials or a region are missing, or AWS refused a request.

    The text contains no secret.
    """


class Identity:
    """The AWS credentials and the region of one client."""

    def __init__(
        self,
        region: str | None = None,
        profile: str | None = None,
        role_arn: str | None = None,
        credentials: Any = None,
    ) -> None:
        """Takes where the credentials come from.

        Args:
            region: The AWS region. None: that of the broker's name, of the environment variables
                AWS_REGION and AWS_DEFAULT_REGION, or of AWS's configuration, in this order.
            profile: A profile of AWS's configuration files.
            role_arn: A role to assume.
            credentials: A `Credentials`, an object with `get_frozen_credentials()` such as
                botocore's, or a function that returns one of these. None: what botocore finds.

        Raises:
            AwsError: If botocore is needed and not installed.
        """
        self._region, self._profile = region, profile
        self._role_arn, self._given = role_arn, credentials
        self._session: Any = None
        self._found: Any = None
        self._process, self._lock = os.getpid(), threading.Lock()
        if credentials is None or role_arn is not None:
            _botocore()

    def region(self, host: str | None = None) -> str:
        """Returns the region.

        Raises:
            AwsError: If it is not known, or is not the name of a region.
        """
        of_host = re.search(_REGION_OF_HOST, host or "")
        region = (
            self._region
            or (of_host[1] if of_host else None)
            or os.environ.get("AWS_REGION")
            or os.environ.get("AWS_DEFAULT_REGION")
            or self._configured_region()
        )
        if not region:
            raise AwsError(
                "AWS: the region is not known. Set sasl_aws_region (for AWS_MSK_IAM),"
                " MskTokenProvider(region=...) (for OAUTHBEARER), or the environment variable"
                " AWS_REGION"
            )
        if not re.fullmatch(_REGION, region):
            raise AwsError(
                f"AWS: {region!r} is not the name of a region. Use a name such as 'eu-west-1' in"
                " sasl_aws_region, MskTokenProvider(region=...) or AWS_REGION"
            )
        return region

    def credentials(self, host: str | None = None) -> Credentials:
        """Returns the credentials of this moment. It may ask AWS for them.

        Args:
            host: The broker, whose name may have the region in which to assume a role.

        Raises:
            AwsError: If there are none.
            BaseException: Whatever the application's function raises.
        """
        if self._given is not None and self._role_arn is None:
            return _current(self._given, _kind)
        with self._own_lock():
            if self._found is None:
                self._found = self._chain(host)
            found = self._found
        return _current(found, _words if self._given is None else _kind)

    def _own_lock(self) -> threading.Lock:
        """Returns the lock of this process: a fork may have copied one that is held."""
        if self._process != os.getpid():
            self._process, self._lock = os.getpid(), threading.Lock()
            self._session = self._found = None
        return self._lock

    def _opened(self) -> Any:
        """Returns the session of botocore, which keeps what it has found."""
        self._own_lock()  # after a fork, the parent's session is dropped
        if self._session is None:
            self._session = _botocore().session.Session(profile=self._profile)
        return self._session

    def _configured_region(self) -> str | None:
        if self._given is not None and self._role_arn is None:
            return None
        try:
            return self._opened().get_config_variable("region")  # type: ignore[no-any-return]
        except Exception as error:
            failure = _words(error)
        raise AwsError(f"AWS: the configuration cannot be read: {failure}")

    def _chain(self, host: str | None) -> Any:
        """Returns botocore's credentials, which refresh themselves, or those of the role."""
        found = self._given
        try:
            if found is None:
                found = self._opened().get_credentials()
        except Exception as error:
            failure = _words(error)
        else:
            if found is not None:
                return found if self._role_arn is None else self._assumed(found, host)
            failure = (
                "botocore found none. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile"
                " (sasl_aws_profile), or sasl_aws_credentials. MskTokenProvider has the arguments"
                " profile and credentials"
            )
        raise AwsError(f"AWS: no credentials: {failure}")

    def _assumed(self, source: Any, host: str | None) -> Any:
        from functools import partial

        _botocore()
        from botocore.credentials import (
            AssumeRoleCredentialFetcher,
            DeferredRefreshableCredentials,
        )

        if self._given is not None:
            source = _OfApplication(source)
        client_of = partial(self._opened().create_client, region_name=self.region(host))
        fetcher = AssumeRoleCredentialFetcher(
            client_creator=client_of,
            source_credentials=source,
            role_arn=self._role_arn,
            extra_args={"RoleSessionName": _SESSION_NAME},
        )
        return DeferredRefreshableCredentials(
            method="assume-role", refresh_using=fetcher.fetch_credentials
        )


class _OfApplication:
    """The application's credentials, which botocore asks for each time that it assumes the role."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def get_frozen_credentials(self) -> Credentials:
        try:
            return _current(self._source, _kind)
        except Exception as error:
            # botocore logs it.
            failure = reason(error)
        raise AwsError(failure)


class MskTokenProvider:
    """Supplies tokens for OAUTHBEARER to log in to Amazon MSK, like aws-msk-iam-sasl-signer.

    KafkaProducer(
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=MskTokenProvider(region="eu-west-1"),
    )
    """

    def __init__(
        self,
        region: str | None = None,
        profile: str | None = None,
        role_arn: str | None = None,
        credentials: Any = None,
    ) -> None:
        """Creates a provider. See "AWS MSK" in docs/security.md.

        Args:
            region: The AWS region. None: the region in the environment variables AWS_REGION and
                AWS_DEFAULT_REGION, or in AWS's configuration files.
            profile: A profile in AWS's configuration files.
            role_arn: A role to assume.
            credentials: A `Credentials`, an object with `get_frozen_credentials()`, or a function
                that returns one of these. None: botocore finds the credentials.

        Raises:
            AwsError: If botocore is needed and not installed.
        """
        self._identity = Identity(region, profile, role_arn, credentials)

    def token(self) -> Token:
        """Returns a token that is valid for 15 minutes.

        Raises:
            AwsError: If there are no credentials, or no region.
        """
        credentials, region = self._identity.credentials(), self._identity.region()
        host, now = f"kafka.{region}.amazonaws.com", time.time()
        query = presigned(host, region, credentials, now) | {"User-Agent": _USER_AGENT}
        pairs = (f"{name}={quote(value, safe='-._~')}" for name, value in query.items())
        url = f"https://{host}/?{'&'.join(pairs)}"
        value = base64.urlsafe_b64encode(url.encode()).rstrip(b"=").decode()
        return Token(value, int(now) + EXPIRES_S, credentials.access_key)


class Logins:
    """Signs the logins of one client for the mechanism AWS_MSK_IAM."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._workers = Workers(
            "the AWS credentials source of AWS_MSK_IAM",
            lambda asked: message(identity, asked.host),
            lambda asked, text: asked.reply.password(text),
            reason,
        )

    def request(self, reply: Reply, host: str) -> None:
        """Starts to sign a login at a broker, and returns at once. The core calls it.

        Raises:
            RuntimeError: If too many calls hang.
        """
        self._workers.start(_Asked(reply, host))


class _Asked:
    """A login that a broker's connection waits for."""

    def __init__(self, reply: Reply, host: str) -> None:
        self.reply, self.host = reply, host

    def failed(self, reason: str, error: BaseException) -> None:
        self.reply.failed(reason, error)


def message(identity: Identity, host: str) -> str:
    """Returns the message that logs in at a broker."""
    credentials, region = identity.credentials(host), identity.region(host)
    query = presigned(host, region, credentials, time.time())
    signed = {name.lower(): value for name, value in query.items()}
    head = {"version": _VERSION, "host": host, "user-agent": _USER_AGENT}
    return json.dumps(head | signed, separators=(",", ":"))


def _current(source: Any, words: Callable[[Exception], str]) -> Credentials:
    """Returns the credentials that a source has at this moment.

    Args:
        source: A `Credentials`, an object as botocore's, or a function that returns one of these.
        words: Returns what an error of the object may show.

    Raises:
        AwsError: If it has none.
        BaseException: Whatever the application's function raises.
    """
    if callable(source):
        source = source()
    if inspect.iscoroutine(source):
        source.close()
        raise AwsError(
            "AWS: sasl_aws_credentials is an async function, or one that returns a coroutine. Give"
            " a function that returns the credentials itself"
        )
    if hasattr(source, "get_frozen_credentials"):
        source = _frozen(source, words)
    access_key = getattr(source, "access_key", None)
    secret_key = getattr(source, "secret_key", None)
    token = getattr(source, "token", None)
    if not isinstance(access_key, str) or not isinstance(secret_key, str):
        raise AwsError(
            "AWS: the credentials need an access_key and a secret_key of type str. Use"
            " thalweg.auth.aws.Credentials"
        )
    token = token if isinstance(token, str) else None
    if not all(map(is_encodable, (access_key, secret_key, token or ""))):
        raise AwsError("AWS: the credentials must be encodable as UTF-8")
    return Credentials(access_key, secret_key, token)


def _frozen(source: Any, words: Callable[[Exception], str]) -> Any:
    try:
        return source.get_frozen_credentials()
    except Exception as error:
        failure = words(error)
    raise AwsError(f"AWS: no credentials: {failure}")


def reason(error: BaseException) -> str:
    """Returns what an error may show, without the text of an exception of the application."""
    return escaped(_kind(error)) if isinstance(error, Exception) else type(error).__name__


def _kind(error: Exception) -> str:
    """Returns what an error of the application's credentials may show."""
    if isinstance(error, AwsError):
        return str(error)
    if str(type(error).__module__).startswith("botocore."):
        return _words(error)
    # The text of another exception is left out: it may contain a credential.
    return f"sasl_aws_credentials raised {type(error).__name__}"


def _words(error: Exception) -> str:
    """Returns what botocore says. Its errors name profiles, files and hosts, but no secret."""
    return f"{type(error).__name__}: {str(error)[:500]}"


def _botocore() -> Any:
    try:
        import botocore.session
    except ImportError:
        missing = True
    else:
        missing = False
    if missing:
        raise AwsError("AWS credentials need botocore: install thalweg[aws]")
    return botocore
