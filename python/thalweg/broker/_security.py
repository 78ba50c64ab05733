"""The security of an EmbeddedBroker: checks its arguments, and returns the options of clients."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from thalweg._client.arguments import shown
from thalweg._config.secret import Secret
from thalweg._config.suggestions import did_you_mean

__all__ = ["MECHANISMS", "Security"]

_PROTOCOLS: Final = ("PLAINTEXT", "SASL_PLAINTEXT")
_PASSWORD_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
# The default. With OAUTHBEARER, everybody could log in as any user.
MECHANISMS: Final = _PASSWORD_MECHANISMS
_ALL_MECHANISMS: Final = (*_PASSWORD_MECHANISMS, "OAUTHBEARER")


class Security:
    """The checked arguments, and the passwords of the users."""

    def __init__(
        self,
        protocol: str,
        mechanisms: Iterable[str] | None,
        users: Mapping[str, str | Secret] | None,
    ) -> None:
        """Raises TypeError or ValueError, whose texts contain no password."""
        self.protocol = _one_of(protocol, "security_protocol", _PROTOCOLS)
        given = {"sasl_mechanisms": mechanisms, "users": users}
        if not self.has_sasl:
            for name, value in given.items():
                if value is not None:
                    raise ValueError(
                        f"{name} has no effect with security_protocol={protocol!r}:"
                        " set security_protocol to 'SASL_PLAINTEXT'"
                    )
        self.mechanisms = _mechanisms(MECHANISMS if mechanisms is None else mechanisms)
        if users is not None and not isinstance(users, Mapping):
            raise TypeError(
                f"users must be a mapping of names to passwords, not {type(users).__name__}"
            )
        self.users: dict[str, Secret] = {}
        for name, password in (users or {}).items():
            self.add(name, password)

    @property
    def has_sasl(self) -> bool:
        """Whether clients must log in."""
        return self.protocol.startswith("SASL_")

    def add(self, name: str, password: str | Secret) -> str:
        """Adds a user, or changes the password of one. Returns the password."""
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
        self.users[name] = password
        return text

    def passwords(self) -> dict[str, str]:
        """Returns the passwords for the native broker."""
        return {name: password.reveal() for name, password in self.users.items()}

    def client_options(self, user: str | None) -> dict[str, Any]:
        """Returns the options with which a client logs in. None: the first user."""
        options: dict[str, Any] = {"security_protocol": self.protocol}
        if not self.has_sasl:
            if user is not None:
                raise ValueError(
                    f"user {user!r} cannot log in: the broker's security_protocol is"
                    f" {self.protocol!r}"
                )
            return options
        mechanism = next((each for each in self.mechanisms if each in _PASSWORD_MECHANISMS), None)
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
        return options | {
            "sasl_mechanism": mechanism,
            "sasl_plain_username": user,
            "sasl_plain_password": self.users[user],
        }


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
            f"{parameter}: the embedded broker has no {value!r}, only {', '.join(known)}"
        )
    return value
