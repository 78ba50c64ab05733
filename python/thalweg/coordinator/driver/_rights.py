"""Says in the errors of refused requests whose right is missing, and which one."""

from typing import TypeVar

from thalweg.coordinator.driver._native import CoreClient
from thalweg.errors import AuthorizationError, GroupAuthorizationFailedError, KafkaError

__all__ = ["explained"]

_Error = TypeVar("_Error", bound=KafkaError)


def explained(client: CoreClient, error: _Error, api: str, group_id: str = "") -> _Error:
    """Returns an error that says what to grant. Returns other errors as they are.

    Args:
        client: Knows the principal.
        error: The text of an error about a topic names the topic.
        api: Kafka's name of the request that was refused.
        group_id: The group, for an error about it.
    """
    if not isinstance(error, AuthorizationError) or error.errno is None:
        return error
    text = str(error.args[0]) if error.args else error.description or ""
    if " needs " in text:
        return error  # the core has explained it
    is_about_group = isinstance(error, GroupAuthorizationFailedError)
    resource = group_id if is_about_group else ""
    return type(error)(client.explained(text, api, error.errno, resource))
