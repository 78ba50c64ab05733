"""Users and clients: SCRAM credentials (KIP-554) and quotas (KIP-546)."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final

from thalweg._client.arguments import int_given, names_given, shown
from thalweg._config.secret import HiddenBytes, Secret, hidden, revealed
from thalweg.admin.naming import FlexibleEnum, member_of
from thalweg.admin.requests import Requests
from thalweg.errors import IllegalArgumentError

__all__ = [
    "ScramMechanism",
    "UserRequests",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
]


# Kafka and OpenSSL store the number of iterations in 32 bits.
_ITERATIONS_MAX: Final = 2**31 - 1

# How DescribeClientQuotas compares the name of a type.
_EXACT: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2


class ScramMechanism(FlexibleEnum, IntEnum):
    """The hash function of a SCRAM credential."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def hash_name(self) -> str:
        """The name of the hash function in hashlib."""
        return {1: "sha256", 2: "sha512"}[int(self)]


class UserScramCredentialDeletion:
    """Deletes a credential of a user."""

    def __init__(self, user: str, mechanism: ScramMechanism | str | int) -> None:
        self.user = user
        self.mechanism = ScramMechanism.build_from(mechanism)


class UserScramCredentialUpsertion:
    """Sets a credential. The client sends only the salted hash, and does not keep the password.

    Args:
        user: The name of the user.
        mechanism: The hash function.
        password: The password, as str, bytes or `Secret`.
        iterations: The number of hash iterations, at least 4096. None: 4096.
        salt: The salt, as bytes. None: a random one.

    Raises:
        IllegalArgumentError: If the mechanism is UNKNOWN, or UTF-8 cannot encode the password.
        TypeError: If the type of the password, the iterations or the salt is wrong.
        ValueError: If the number of iterations is not positive, or does not fit into 32 bits.
    """

    DEFAULT_ITERATIONS = 4096

    def __init__(
        self,
        user: str,
        mechanism: ScramMechanism | str | int,
        password: str | bytes | Secret,
        iterations: int | None = None,
        salt: bytes | None = None,
    ) -> None:
        password = hidden(revealed(password))  # no frame of an error has it
        self.user = user
        self.mechanism = ScramMechanism.build_from(mechanism)
        if self.mechanism is ScramMechanism.UNKNOWN:
            raise IllegalArgumentError(
                "the SCRAM mechanism must not be UNKNOWN: use SCRAM_SHA_256 or SCRAM_SHA_512"
            )
        encoded = _password_given(password)
        given = self.DEFAULT_ITERATIONS if iterations is None else iterations
        self.iterations = int_given(given, "iterations", 1, _ITERATIONS_MAX)
        self.salt = _salt_given(salt)
        self._salted_password = _salted(
            self.mechanism.hash_name, encoded, self.salt, self.iterations
        )

    @property
    def salted_password(self) -> bytes:
        """The salted hash, with which anybody can log in as the user. Its repr does not show it."""
        found: HiddenBytes = revealed(self._salted_password)
        return found

    def __repr__(self) -> str:
        return f"UserScramCredentialUpsertion({self.user!r}, {self.mechanism.name}, <hidden>)"


def _salt_given(salt: bytes | None) -> bytes:
    if salt is None:
        return os.urandom(24)
    if not isinstance(salt, bytes | bytearray):
        raise TypeError(f"salt must be bytes, got {shown(salt)}")
    return bytes(salt)


def _password_given(password: Secret) -> HiddenBytes:
    found = _encoded(password)
    if found is None:
        raise IllegalArgumentError(
            "password: UTF-8 cannot encode this str, because it contains a lone surrogate. Remove"
            " this character, or pass the password as bytes. This error does not show the password"
        )
    return found


def _encoded(password: Secret) -> HiddenBytes | None:
    # A UnicodeEncodeError contains the password, so this returns None instead. No variable holds
    # the password, because tracebacks may show variables.
    if isinstance(revealed(password), bytes | bytearray):
        return HiddenBytes(revealed(password))
    if not isinstance(revealed(password), str):
        kind = type(revealed(password)).__name__
        raise TypeError(f"password must be a str, bytes or Secret, not {kind}")
    try:
        return HiddenBytes(revealed(password).encode())
    except UnicodeEncodeError:
        return None


def _salted(hash_name: str, password: HiddenBytes, salt: bytes, iterations: int) -> Secret:
    """Returns the salted hash as a Secret, so that neither vars() nor pickle shows it."""
    return hidden(HiddenBytes(hashlib.pbkdf2_hmac(hash_name, password, salt, iterations)))


class UserRequests(Requests):
    """Calls about users."""

    def alter_user_scram_credentials(
        self, alterations: Iterable[UserScramCredentialDeletion | UserScramCredentialUpsertion]
    ) -> dict[str, str | None]:
        """Sets and deletes credentials (AlterUserScramCredentials).

        Returns:
            {user: None, or the error's message}. A message about permissions names the
            missing permission.

        Raises:
            IllegalArgumentError: If an element is neither a deletion nor an upsertion.
        """
        deletions: list[dict[str, Any]] = []
        upsertions: list[dict[str, Any]] = []
        for each in alterations:
            if isinstance(each, UserScramCredentialDeletion):
                deletions.append({"Name": each.user, "Mechanism": int(each.mechanism)})
            elif isinstance(each, UserScramCredentialUpsertion):
                upsertions.append(
                    {
                        "Name": each.user,
                        "Mechanism": int(each.mechanism),
                        "Iterations": each.iterations,
                        "Salt": each.salt,
                        "SaltedPassword": each.salted_password,
                    }
                )
            else:
                raise IllegalArgumentError(
                    "alterations must be UserScramCredentialDeletion or"
                    f" UserScramCredentialUpsertion, got {type(each).__name__}"
                )
        response = self._call(
            "AlterUserScramCredentials",
            {"Deletions": deletions, "Upsertions": upsertions},
            "controller",
        )
        return {
            row["User"]: self._refusal(
                "AlterUserScramCredentials", row["ErrorCode"], row["ErrorMessage"]
            )
            if row["ErrorCode"]
            else None
            for row in response["Results"]
        }

    def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> dict[str, dict[str, Any]]:
        """Describes the credentials of users (DescribeUserScramCredentials).

        Args:
            users: User names. None: all users that have a credential.

        Returns:
            {user: {"error": None or message, "credential_infos": [{mechanism, iterations}]}}.

        Raises:
            TypeError: If `users` is one str.
        """
        # An empty list requests all users. null would too, but brokers (4.3) do not respond to it
        # when they refuse.
        names = [] if users is None else names_given(users, "users")
        asked = [{"Name": name} for name in names]
        response = self._call(
            "DescribeUserScramCredentials",
            {"Users": asked},
            codes=lambda response: [
                (response["ErrorCode"], response["ErrorMessage"], "DescribeUserScramCredentials")
            ],
        )
        return {
            row["User"]: {
                "error": self._refusal(
                    "DescribeUserScramCredentials", row["ErrorCode"], row["ErrorMessage"]
                )
                if row["ErrorCode"]
                else None,
                "credential_infos": [
                    {
                        "mechanism": member_of(ScramMechanism, each["Mechanism"]),
                        "iterations": each["Iterations"],
                    }
                    for each in row["CredentialInfos"]
                ],
            }
            for row in response["Results"]
        }

    def alter_client_quotas(
        self,
        entity: Mapping[str, str | None],
        quotas: Mapping[str, float | None],
        validate_only: bool = False,
    ) -> None:
        """Sets and removes quotas of users, clients or addresses (AlterClientQuotas).

            admin.alter_client_quotas({"user": "alice"}, {"producer_byte_rate": 1_000_000})

        Args:
            entity: Who the quotas are for: {"user": name}, {"client-id": name}, both of them, or
                {"ip": address}. A name of None is the default of all names.
            quotas: {quota: value}. None removes a quota. For users and clients:
                `producer_byte_rate` and `consumer_byte_rate` (bytes per second),
                `request_percentage` (percent of the time of a broker's thread) and
                `controller_mutation_rate` (created and deleted partitions per second). For
                addresses: `connection_creation_rate` (connections per second).
            validate_only: True only checks the request and changes nothing.

        Raises:
            InvalidRequestError: If the brokers do not accept the entity, a quota or a value.
        """
        ops = [
            {"Key": key, "Value": 0.0 if value is None else float(value), "Remove": value is None}
            for key, value in quotas.items()
        ]
        names = [{"EntityType": kind, "EntityName": name} for kind, name in entity.items()]
        self._call(
            "AlterClientQuotas",
            {"Entries": [{"Entity": names, "Ops": ops}], "ValidateOnly": validate_only},
            "controller",
            codes=lambda response: [
                (row["ErrorCode"], row["ErrorMessage"], f"quotas of {dict(entity)}")
                for row in response["Entries"]
            ],
        )

    def describe_client_quotas(
        self,
        match: Mapping[str, str | None] | None = None,
        any_of: Iterable[str] = (),
        strict: bool = False,
    ) -> list[dict[str, Any]]:
        """Returns the quotas that are set (DescribeClientQuotas).

        Without arguments, it returns all quotas.

        Args:
            match: Only entities with these names: {"user": name}. None is the default of all names.
            any_of: Only entities that have these types, with any names: ["client-id"].
            strict: Whether to leave out entities with other types than those in `match` and
                `any_of`.

        Returns:
            [{"entity": {"user": name}, "quotas": {"producer_byte_rate": value}}].

        Raises:
            InvalidRequestError: If the brokers do not accept the filter.
        """
        listed = [any_of] if isinstance(any_of, str) else any_of
        components: list[dict[str, Any]] = [
            {"EntityType": kind, "MatchType": _DEFAULT if name is None else _EXACT, "Match": name}
            for kind, name in (match or {}).items()
        ]
        components += [{"EntityType": kind, "MatchType": _ANY, "Match": None} for kind in listed]
        response = self._call(
            "DescribeClientQuotas",
            {"Components": components, "Strict": strict},
            codes=lambda response: [
                (response["ErrorCode"], response["ErrorMessage"], "DescribeClientQuotas")
            ],
        )
        return [
            {
                "entity": {part["EntityType"]: part["EntityName"] for part in row["Entity"]},
                "quotas": {value["Key"]: value["Value"] for value in row["Values"]},
            }
            for row in response["Entries"] or ()
        ]
