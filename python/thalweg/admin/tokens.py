"""Delegation tokens: logins that an application hands to its workers (KIP-48, KIP-373)."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from thalweg._config.secret import HiddenBytes, Secret, revealed
from thalweg.admin.requests import Codes, Requests
from thalweg.errors import IllegalArgumentError, for_code

__all__ = ["DelegationToken", "TokenRequests"]

# What helps, in addition to Kafka's description of the error. The responses have no text.
_ADVICE: Final = {
    61: "Set delegation.token.secret.key to the same text on all brokers and controllers.",
    62: "It has expired, is not a token of this cluster, or this broker does not know it yet.",
    63: "Use a client of the token's owner or of one of its renewers.",
    64: "Log in with SASL or with a client certificate, but not with a token.",
    66: "Create a new token. A token cannot be renewed after its expiry.",
    67: "The type of a renewer must be User.",
}


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A delegation token. Its repr does not show the HMAC, and it cannot be pickled.

    Attributes:
        token_id: The ID, which is the user name of a login.
        hmac: The HMAC in Base64, which is the password of a login.
        owner: The principal that clients with the token act as, such as "User:alice".
        requester: The principal that created the token. Before Kafka 3.3: the owner.
        renewers: The principals that may renew and expire the token, in addition to the owner.
            None in the result of `create_delegation_token`, because the response omits them.
        issue_timestamp: When the token was created, in Unix ms.
        expiry_timestamp: When the token expires if no client renews it, in Unix ms.
        max_timestamp: When the token expires at the latest, in Unix ms.
    """

    token_id: str
    hmac: Secret
    owner: str
    requester: str
    renewers: tuple[str, ...] | None
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int

    def sasl_config(
        self, sasl_mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    ) -> dict[str, Any]:
        """Returns the options of a client that logs in with this token.

        KafkaConsumer(bootstrap_servers=..., security_protocol="SASL_SSL", **token.sasl_config())

        Args:
            sasl_mechanism: A mechanism that the listener of the brokers offers.

        Raises:
            ValueError: If the mechanism is not SCRAM. Brokers accept tokens only with SCRAM.
        """
        if sasl_mechanism not in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            raise ValueError(
                "sasl_mechanism must be SCRAM-SHA-256 or SCRAM-SHA-512 for a delegation token, not"
                f" {sasl_mechanism!r}"
            )
        return {
            "sasl_mechanism": sasl_mechanism,
            "sasl_plain_username": self.token_id,
            "sasl_plain_password": self.hmac,
            "sasl_scram_tokenauth": True,
        }


def _principal(text: str, option: str) -> dict[str, str]:
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise IllegalArgumentError(
            f"{option}: {text!r} is not a principal. Write its type and its name, as in"
            " 'User:alice'"
        )
    return {"PrincipalType": kind, "PrincipalName": name}


def _name(row: dict[str, Any], prefix: str = "") -> str:
    return f"{row[prefix + 'PrincipalType']}:{row[prefix + 'PrincipalName']}"


def _hmac_of(token: object) -> HiddenBytes | Exception:
    """Returns the HMAC, or the error to raise: a frame that raises it must not have the token."""
    if isinstance(token, DelegationToken):
        token = token.hmac
    if isinstance(token, bytes):
        return HiddenBytes(token)
    if not isinstance(token, (Secret, str)):
        return TypeError(
            "hmac must be a DelegationToken, or its HMAC in Base64 (str or Secret) or as bytes, not"
            f" {type(token).__name__}"
        )
    found = _decoded(token)
    if found is None:
        return IllegalArgumentError("hmac: the str is not Base64. The error does not show it")
    return found


def _decoded(text: Secret | str) -> HiddenBytes | None:
    # Returns, so that no frame of a traceback has the text.
    try:
        return HiddenBytes(base64.b64decode(revealed(text), validate=True))
    except ValueError:  # also for characters beyond ASCII
        return None


def _codes(about: str) -> Codes:
    def codes(response: dict[str, Any]) -> Iterable[tuple[int, str | None, str]]:
        code = response["ErrorCode"]
        advice = _ADVICE.get(code)
        text = None if advice is None else f"{for_code(code).description} {advice}"
        return [(code, text, about)]

    return codes


def _with_requester(row: dict[str, Any]) -> str:
    # Before version 3 of the APIs (KIP-373), the owner is also the requester.
    return _name(row, "TokenRequester") if row.get("TokenRequesterPrincipalName") else _name(row)


class TokenRequests(Requests):
    """Calls about delegation tokens. Brokers accept them only from clients that have logged in.

    Each call raises DelegationTokenRequestNotAllowedError over PLAINTEXT, over TLS without a client
    certificate, and for a client that has logged in with a token. It raises
    DelegationTokenAuthDisabledError if the brokers have no `delegation.token.secret.key`.

    A broker gets each change from the controller after a short delay.
    """

    def create_delegation_token(
        self, owner: str | None = None, renewers: Iterable[str] = (), max_lifetime_ms: int = -1
    ) -> DelegationToken:
        """Creates a token (CreateDelegationToken).

        Args:
            owner: The principal that clients with the token act as. None: the user of this client.
                To name another owner, this client needs the permission CREATE_TOKENS on that user
                (Kafka 3.3 and newer).
            renewers: The principals that may renew and expire the token: ["User:alice"].
            max_lifetime_ms: The time until the token expires at the latest. -1: the brokers'
                `delegation.token.max.lifetime.ms`, which is also the maximum.

        Raises:
            DelegationTokenAuthorizationFailedError: If this client has no permission to create
                tokens for another owner.
            IllegalArgumentError: If a principal has no type.
            InvalidPrincipalTypeError: If a renewer is not a user.
        """
        listed = [renewers] if isinstance(renewers, str) else renewers
        body: dict[str, Any] = {
            "Renewers": [_principal(each, "renewers") for each in listed],
            "MaxLifetimeMs": max_lifetime_ms,
        }
        about = "CreateDelegationToken"
        if owner is not None:
            asked = _principal(owner, "owner")
            body |= {f"Owner{name}": value for name, value in asked.items()}
            about += f" for {owner}"
        # Version 2 has no owner: without this the token would be one of the requester.
        versions = [(1, body)] if owner is None else [(3, body)]
        response = self._call("CreateDelegationToken", versions, codes=_codes(about))
        return DelegationToken(
            token_id=response["TokenId"],
            hmac=_secret(response["Hmac"]),
            owner=_name(response),
            requester=_with_requester(response),
            renewers=None,
            issue_timestamp=response["IssueTimestampMs"],
            expiry_timestamp=response["ExpiryTimestampMs"],
            max_timestamp=response["MaxTimestampMs"],
        )

    def renew_delegation_token(
        self, hmac: DelegationToken | Secret | str | bytes, renew_period_ms: int = -1
    ) -> int:
        """Renews a token, and returns when it now expires, in Unix ms (RenewDelegationToken).

        Args:
            hmac: The token, or its HMAC as Base64 (str or Secret) or as bytes.
            renew_period_ms: The time from now until the token expires, but not after its
                `max_timestamp`. -1: the brokers' `delegation.token.expiry.time.ms`, which is also
                the maximum.

        Raises:
            DelegationTokenExpiredError: If the token has expired.
            DelegationTokenNotFoundError: If the broker does not know the token.
            DelegationTokenOwnerMismatchError: If the user of this client is neither the owner nor a
                renewer.
        """
        found = _hmac_of(hmac)
        del hmac  # errors must not show what the caller passed
        if isinstance(found, Exception):
            raise found
        body = {"Hmac": found, "RenewPeriodMs": renew_period_ms}
        response = self._call("RenewDelegationToken", body, codes=_codes("RenewDelegationToken"))
        expiry: int = response["ExpiryTimestampMs"]
        return expiry

    def expire_delegation_token(
        self, hmac: DelegationToken | Secret | str | bytes, expiry_period_ms: int = -1
    ) -> int:
        """Changes when a token expires, and returns that time in Unix ms (ExpireDelegationToken).

        Clients that have logged in with the token stay connected until their sessions end.

        Args:
            hmac: The token, or its HMAC as Base64 (str or Secret) or as bytes.
            expiry_period_ms: The time from now until the token expires, but not after its
                `max_timestamp`. -1: the token expires at once. Then the result has no meaning:
                Kafka returns -1.

        Raises:
            DelegationTokenExpiredError: If the token has expired.
            DelegationTokenNotFoundError: If the broker does not know the token.
            DelegationTokenOwnerMismatchError: If the user of this client is neither the owner nor a
                renewer.
        """
        found = _hmac_of(hmac)
        del hmac  # errors must not show what the caller passed
        if isinstance(found, Exception):
            raise found
        body = {"Hmac": found, "ExpiryTimePeriodMs": expiry_period_ms}
        response = self._call("ExpireDelegationToken", body, codes=_codes("ExpireDelegationToken"))
        expiry: int = response["ExpiryTimestampMs"]
        return expiry

    def describe_delegation_tokens(
        self, owners: Iterable[str] | None = None
    ) -> list[DelegationToken]:
        """Returns tokens with their HMACs (DescribeDelegationToken).

        The result has the tokens that the user of this client owns or may renew, and those that it
        has the permission to see: DESCRIBE on the token, or DESCRIBE_TOKENS on the owner.

        Args:
            owners: Only tokens of which one of these principals is the owner or a renewer. None:
                all tokens.

        Raises:
            IllegalArgumentError: If a principal has no type.
        """
        listed = [owners] if isinstance(owners, str) else owners
        asked = None if listed is None else [_principal(each, "owners") for each in listed]
        about = "DescribeDelegationToken"
        response = self._call(about, {"Owners": asked}, codes=_codes(about))
        return [
            DelegationToken(
                token_id=row["TokenId"],
                hmac=_secret(row["Hmac"]),
                owner=_name(row),
                requester=_with_requester(row),
                renewers=tuple(_name(each) for each in row["Renewers"]),
                issue_timestamp=row["IssueTimestamp"],
                expiry_timestamp=row["ExpiryTimestamp"],
                max_timestamp=row["MaxTimestamp"],
            )
            for row in response["Tokens"]
        ]


def _secret(hmac: bytes) -> Secret:
    return Secret(base64.b64encode(hmac).decode())
