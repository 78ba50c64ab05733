"""The security of an EmbeddedBroker: checks its arguments, and returns the options of clients."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from thalweg._client.arguments import shown
from thalweg._config.formats.pem import unreadable
from thalweg._config.secret import Secret
from thalweg._config.suggestions import did_you_mean
from thalweg.auth.sigv4 import Credentials
from thalweg.auth.token import Token, is_encodable
from thalweg.errors import KafkaConfigurationError

__all__ = ["MECHANISMS", "ClientCertificate", "Jwks", "Pem", "Security"]

Pem = str | os.PathLike[str] | Secret
Jwks = str | os.PathLike[str] | Mapping[str, Any]

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PASSWORD_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
# The default. With OAUTHBEARER, everybody could log in as any user.
MECHANISMS: Final = _PASSWORD_MECHANISMS
_OF_USERS: Final = (*_PASSWORD_MECHANISMS, "AWS_MSK_IAM")
_ALL_MECHANISMS: Final = (*_OF_USERS, "OAUTHBEARER")
# Any region is right: the broker has none.
_AWS_REGION: Final = "us-east-1"


class ClientCertificate(NamedTuple):
    """A certificate for a client, and its private key, as PEM."""

    certificate: str
    key: Secret


class Security:
    """The checked arguments, and the passwords of the users."""

    def __init__(
        self,
        protocol: str,
        mechanisms: Iterable[str] | None,
        users: Mapping[str, str | Secret] | None,
        certfile: Pem | None = None,
        keyfile: Pem | None = None,
        cafile: Pem | None = None,
        jwks: Jwks | None = None,
    ) -> None:
        """Raises TypeError or ValueError, whose texts contain no password."""
        self.protocol = _one_of(protocol, "security_protocol", _PROTOCOLS)
        given = {"sasl_mechanisms": mechanisms, "users": users}
        if not self.has_sasl:
            for name, value in given.items():
                if value is not None:
                    raise ValueError(
                        f"{name} has no effect with security_protocol={protocol!r}:"
                        " set security_protocol to 'SASL_PLAINTEXT' or 'SASL_SSL'"
                    )
        self.mechanisms = _mechanisms(MECHANISMS if mechanisms is None else mechanisms)
        if users is not None and not isinstance(users, Mapping):
            raise TypeError(
                f"users must be a mapping of names to passwords, not {type(users).__name__}"
            )
        self.jwks = None if jwks is None else _jwks(jwks)
        if jwks is not None and "OAUTHBEARER" not in self.mechanisms:
            raise ValueError("jwks has no effect without OAUTHBEARER among sasl_mechanisms")
        files = {"ssl_certfile": certfile, "ssl_keyfile": keyfile, "ssl_cafile": cafile}
        self._pem = {name: _pem(value, name) for name, value in files.items()}
        self._check_files()
        self.users: dict[str, Secret] = {}
        for name, password in (users or {}).items():
            self.add(name, password)

    @property
    def has_sasl(self) -> bool:
        """Whether clients must log in."""
        return self.protocol.startswith("SASL_")

    @property
    def has_tls(self) -> bool:
        """Whether connections use TLS."""
        return self.protocol.endswith("SSL")

    def _check_files(self) -> None:
        given = [name for name, value in self._pem.items() if value is not None]
        if given and not self.has_tls:
            raise ValueError(
                f"{given[0]} has no effect with security_protocol={self.protocol!r}:"
                " set security_protocol to 'SSL' or 'SASL_SSL'"
            )
        if given and not {"ssl_certfile", "ssl_keyfile"} <= set(given):
            raise ValueError(
                "ssl_certfile and ssl_keyfile belong together: give both, or none of the three"
                " files, and the broker creates its own certificates"
            )

    def tls(self) -> tuple[str, str, str | None] | None:
        """Returns the PEM texts for the native broker. None: it creates its own certificates."""
        chain, key, authorities = (each and each.reveal() for each in self._pem.values())
        return None if chain is None or key is None else (chain, key, authorities)

    def add(self, name: str, password: str | Secret) -> None:
        """Adds a user, or changes the password of one."""
        self.users[name] = self.checked(name, password)

    def checked(self, name: str, password: str | Secret) -> Secret:
        """Returns the password of a user, unless one of both cannot be used."""
        if not isinstance(name, str):
            raise TypeError(f"the name of a user must be a str, got {shown(name)}")
        if isinstance(password, str):
            password = Secret(password)
        if not isinstance(password, Secret):
            raise TypeError(
                f"the password of user {name!r} must be a str or a Secret,"
                f" not {type(password).__name__}"
            )
        text = password.reveal()
        if not name or not text or "\0" in name or "\0" in text:
            raise ValueError(
                f"the name and the password of user {name!r} must not be empty, and must not"
                " contain a NUL character"
            )
        if not is_encodable(name) or not is_encodable(text):
            raise ValueError(
                f"the name and the password of user {name!r} must be encodable as UTF-8"
            )
        return password

    def checked_jwks(self, jwks: Jwks) -> str:
        """Returns the JSON of new keys. KafkaConfigurationError if there were none before."""
        if self.jwks is None:
            raise KafkaConfigurationError(
                "the broker does not verify signatures: start it with jwks=... and"
                " sasl_mechanisms=['OAUTHBEARER']"
            )
        return _jwks(jwks)

    def passwords(self) -> dict[str, str]:
        """Returns the passwords for the native broker."""
        return {name: password.reveal() for name, password in self.users.items()}

    def token(self, principal: str, expires_in: float, claims: Mapping[str, Any]) -> Token:
        """Returns a token without a signature."""
        if "OAUTHBEARER" not in self.mechanisms or not self.has_sasl:
            raise KafkaConfigurationError(
                "the broker accepts no tokens: start it with sasl_mechanisms=['OAUTHBEARER']"
            )
        if self.jwks is not None:
            raise KafkaConfigurationError(
                "the broker accepts only signed tokens: get them from the identity provider whose"
                " keys are in jwks"
            )
        if not isinstance(principal, str):
            raise TypeError(f"principal must be a str, got {shown(principal)}")
        now = time.time()
        # The broker's clock may be a moment behind.
        given = {"sub": principal, "iat": now - 60, "exp": now + expires_in, **claims}
        given = {name: value for name, value in given.items() if value is not None}
        value = f"{_encoded({'alg': 'none'})}.{_encoded(given)}."
        return Token(value, given.get("exp"), principal)

    def client_options(self, user: str | None, authority: str | None) -> dict[str, Any]:
        """Returns the options with which a client logs in, without a client certificate.

        Args:
            user: The user. None: the first one.
            authority: The broker's own authority, as PEM.
        """
        options: dict[str, Any] = {"security_protocol": self.protocol}
        trusted = authority or (self._pem["ssl_cafile"] and self._pem["ssl_cafile"].reveal())
        if trusted:
            options["ssl_cafile"] = trusted
        if not self.has_sasl:
            if user is not None and not self.has_tls:
                raise ValueError(
                    f"user {user!r} cannot log in: the broker's security_protocol is"
                    f" {self.protocol!r}"
                )
            return options
        mechanism = next((each for each in self.mechanisms if each in _OF_USERS), None)
        if mechanism is None and self.jwks is not None:
            # The application has the provider of the tokens.
            return options | {"sasl_mechanism": "OAUTHBEARER"}
        if mechanism is None:
            return options | {
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauthbearer_config": f"principal={user or 'user'}",
                "enable_sasl_oauthbearer_unsecure_jwt": True,
            }
        if user is None:
            user = next(iter(self.users), None)
            if user is None:
                raise ValueError("the broker has no users: call add_user first")
        if user not in self.users:
            hint = did_you_mean(user, self.users)
            raise ValueError(f"the broker has no user {user!r}{hint}")
        if mechanism == "AWS_MSK_IAM":
            return options | {
                "sasl_mechanism": mechanism,
                "sasl_aws_credentials": Credentials(user, self.users[user].reveal()),
                "sasl_aws_region": _AWS_REGION,
            }
        return options | {
            "sasl_mechanism": mechanism,
            "sasl_plain_username": user,
            "sasl_plain_password": self.users[user],
        }


def _encoded(part: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def _jwks(given: Jwks) -> str:
    """Returns the JSON of a key set. The native broker checks it."""
    if isinstance(given, Mapping):
        return json.dumps(dict(given))
    if not isinstance(given, (str, os.PathLike)):
        raise TypeError(f"jwks must be a path, a str or a dict, not {type(given).__name__}")
    text = os.fspath(given)
    if text.lstrip().startswith("{"):
        return text
    path = text.removeprefix("file://").removeprefix("file:")
    problem = unreadable(path)
    if problem is not None:
        raise ValueError(f"jwks {problem}")
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _pem(value: Pem | None, parameter: str) -> Secret | None:
    """Reads a PEM file. The text may be that of a key, so it is hidden."""
    if value is None:
        return None
    if isinstance(value, Secret):
        value = value.reveal()
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{parameter} must be a path or PEM text, not {type(value).__name__}")
    if isinstance(value, str) and "-----BEGIN " in value:
        return Secret(value)
    problem = unreadable(os.fspath(value))
    if problem is not None:
        raise ValueError(f"{parameter} {problem}")
    with open(value, encoding="utf-8", errors="replace") as file:
        return Secret(file.read())


def _mechanisms(given: Iterable[str]) -> list[str]:
    if isinstance(given, str):
        raise TypeError(f"sasl_mechanisms must be a list of names, got the str {given!r}")
    chosen = [_one_of(each, "sasl_mechanisms", _ALL_MECHANISMS) for each in given]
    if not chosen:
        raise ValueError("sasl_mechanisms must not be empty: no client could log in")
    return list(dict.fromkeys(chosen))


def _one_of(value: str, parameter: str, known: tuple[str, ...]) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{parameter} must be a str, got {shown(value)}")
    if value not in known:
        raise ValueError(
            f"{parameter}: the embedded broker does not support {value!r}. Use one of"
            f" {', '.join(known)}"
        )
    return value
