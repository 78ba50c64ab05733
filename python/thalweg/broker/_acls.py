"""ACLs of an EmbeddedBroker: `broker.allow("alice", "READ", topic="orders")`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from thalweg._client.arguments import shown
from thalweg._config.suggestions import did_you_mean

if TYPE_CHECKING:
    from thalweg import _core

__all__ = ["authorizer_options", "create"]

_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_CLUSTER: Final = "kafka-cluster"
_OPERATIONS: Final = (
    *("ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION"),
    *("DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS"),
    *("DESCRIBE_TOKENS", "TWO_PHASE_COMMIT"),
)


def authorizer_options(authorizer: bool, super_users: Iterable[str]) -> dict[str, str]:
    """Returns Kafka's options for an authorizer. Raises TypeError or ValueError."""
    if isinstance(super_users, str):
        raise TypeError(f"super_users must be a list of names, got the str {super_users!r}")
    names = [principal(each, "super_users") for each in super_users]
    if not authorizer:
        if names:
            raise ValueError("super_users has no effect without authorizer=True")
        return {}
    for name in names:
        if ";" in name:
            raise ValueError(f"super_users: {name!r} must not contain a semicolon")
    return {"authorizer.class.name": _AUTHORIZER, "super.users": ";".join(names)}


def principal(user: str, parameter: str = "user") -> str:
    """Returns a user as ACLs name it: `User:alice`."""
    if not isinstance(user, str):
        raise TypeError(f"{parameter} must be a str, got {shown(user)}")
    if not user.removeprefix("User:"):
        raise ValueError(f"{parameter} must not be empty")
    return user if user.startswith("User:") else f"User:{user}"


def create(
    native: "_core.BrokerSecurity",
    permission: str,
    user: str,
    operation: str,
    host: str,
    prefixed: bool,
    resources: dict[str, Any],
) -> None:
    """Creates an ACL. Raises TypeError or ValueError."""
    given = {name: value for name, value in resources.items() if value not in (None, False)}
    if len(given) != 1:
        raise ValueError(f"give exactly one of {', '.join(resources)}")
    ((kind, name),) = given.items()
    if kind == "cluster":
        name = _CLUSTER
    if not isinstance(name, str):
        raise TypeError(f"{kind} must be a str, got {shown(name)}")
    if not name:
        raise ValueError(f"{kind} must not be empty")
    if not isinstance(operation, str):
        raise TypeError(f"operation must be a str, got {shown(operation)}")
    wanted = operation.upper()
    if wanted not in _OPERATIONS:
        hint = did_you_mean(wanted, _OPERATIONS)
        raise ValueError(f"Kafka has no operation {operation!r}{hint}")
    pattern = "PREFIXED" if prefixed else "LITERAL"
    who = principal(user)
    native.create_acl(kind.upper(), pattern, name, who, host, wanted, permission)
