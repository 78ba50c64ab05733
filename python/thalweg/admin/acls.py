"""Access control lists: who may do what (KIP-11, KIP-290)."""

import logging
from collections.abc import Iterable
from enum import IntEnum
from typing import Any

from thalweg.admin.naming import member_of
from thalweg.admin.requests import Requests, first_error
from thalweg.errors import BrokerResponseError, IllegalArgumentError, NoError, for_code

__all__ = [
    "ACL",
    "ACLFilter",
    "ACLOperation",
    "ACLPermissionType",
    "ACLResourcePatternType",
    "AclRequests",
    "ResourcePattern",
    "ResourcePatternFilter",
    "ResourceType",
    "operation_names",
]

_NOT_ASKED = -(2**31)  # value of authorized operations if the request did not ask for them


class ResourceType(IntEnum):
    """The type of resource that an ACL is about. ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class ACLOperation(IntEnum):
    """The operation that an ACL allows or denies. ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


_log = logging.getLogger("thalweg.admin")


class ACLPermissionType(IntEnum):
    """Whether an ACL allows or denies. ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class ACLResourcePatternType(IntEnum):
    """How an ACL matches resource names (KIP-290). ANY and MATCH are for filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class _Value:
    """Base of values that compare, hash and print by their attributes."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({fields})"


class ResourcePatternFilter(_Value):
    """The resources that a filter matches. The name None matches any name."""

    def __init__(
        self,
        resource_type: ResourceType,
        resource_name: str | None,
        pattern_type: ACLResourcePatternType,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.validate()

    def validate(self) -> None:
        """Raises IllegalArgumentError if a field has a wrong type."""
        if not isinstance(self.resource_type, ResourceType):
            raise IllegalArgumentError("resource_type must be a ResourceType object")
        if not isinstance(self.pattern_type, ACLResourcePatternType):
            raise IllegalArgumentError("pattern_type must be an ACLResourcePatternType object")


class ResourcePattern(ResourcePatternFilter):
    """The resources that an ACL is about."""

    def __init__(
        self,
        resource_type: ResourceType,
        resource_name: str,
        pattern_type: ACLResourcePatternType = ACLResourcePatternType.LITERAL,
    ) -> None:
        super().__init__(resource_type, resource_name, pattern_type)

    def validate(self) -> None:
        """Raises IllegalArgumentError if the value of a field is allowed only in filters."""
        super().validate()
        if self.resource_type == ResourceType.ANY:
            raise IllegalArgumentError(
                "resource_type cannot be ANY in a ResourcePattern: name the type, or use a"
                " ResourcePatternFilter"
            )
        if self.pattern_type in (ACLResourcePatternType.ANY, ACLResourcePatternType.MATCH):
            raise IllegalArgumentError(
                f"pattern_type cannot be {self.pattern_type.name} in a ResourcePattern: use"
                " LITERAL or PREFIXED, or a ResourcePatternFilter"
            )


class ACLFilter(_Value):
    """Matches ACLs. None as principal or host matches any principal or host."""

    def __init__(
        self,
        principal: str | None,
        host: str | None,
        operation: ACLOperation,
        permission_type: ACLPermissionType,
        resource_pattern: ResourcePatternFilter,
    ) -> None:
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type
        self.resource_pattern = resource_pattern
        self.validate()

    def validate(self) -> None:
        """Raises IllegalArgumentError if a field has a wrong type."""
        if not isinstance(self.operation, ACLOperation):
            raise IllegalArgumentError("operation must be an ACLOperation object")
        if not isinstance(self.permission_type, ACLPermissionType):
            raise IllegalArgumentError("permission_type must be an ACLPermissionType object")
        if not isinstance(self.resource_pattern, ResourcePatternFilter):
            raise IllegalArgumentError("resource_pattern must be a ResourcePatternFilter object")


class ACL(ACLFilter):
    """One entry of an access control list.

    It allows or denies an operation to a principal that connects from a host.
    """

    def __init__(
        self,
        principal: str,
        host: str,
        operation: ACLOperation,
        permission_type: ACLPermissionType,
        resource_pattern: ResourcePattern,
    ) -> None:
        super().__init__(principal, host, operation, permission_type, resource_pattern)

    def validate(self) -> None:
        """Raises IllegalArgumentError if the value of a field is allowed only in filters."""
        super().validate()
        if self.operation == ACLOperation.ANY:
            raise IllegalArgumentError(
                "operation cannot be ANY in an ACL: name the operation, or use an ACLFilter"
            )
        if self.permission_type == ACLPermissionType.ANY:
            raise IllegalArgumentError(
                "permission_type cannot be ANY in an ACL: use ALLOW or DENY, or an ACLFilter"
            )
        if not isinstance(self.resource_pattern, ResourcePattern):
            raise IllegalArgumentError("resource_pattern must be a ResourcePattern object")


def operation_names(bits: int | None) -> list[str] | None:
    """Returns the operations of a bit field. None if the request did not ask for them (KIP-430)."""
    if bits is None or bits == _NOT_ASKED:
        return None
    return [each.name for each in ACLOperation if each > ACLOperation.ALL and bits >> each & 1]


def _filter_body(acl: ACLFilter) -> dict[str, Any]:
    return {
        "ResourceTypeFilter": int(acl.resource_pattern.resource_type),
        "ResourceNameFilter": acl.resource_pattern.resource_name,
        "PatternTypeFilter": int(acl.resource_pattern.pattern_type),
        "PrincipalFilter": acl.principal,
        "HostFilter": acl.host,
        "Operation": int(acl.operation),
        "PermissionType": int(acl.permission_type),
    }


def _acl_of(resource: dict[str, Any], acl: dict[str, Any]) -> ACL:
    return ACL(
        acl["Principal"],
        acl["Host"],
        member_of(ACLOperation, acl["Operation"]),
        member_of(ACLPermissionType, acl["PermissionType"]),
        ResourcePattern(
            member_of(ResourceType, resource["ResourceType"]),
            resource["ResourceName"],
            member_of(ACLResourcePatternType, resource["PatternType"]),
        ),
    )


def _check_principal(principal: str) -> None:
    if not all(principal.partition(":")):
        raise IllegalArgumentError(
            f"{principal!r} is not a principal. Write its type and its name, as in"
            f" 'User:{principal.strip(':') or 'alice'}'"
        )


class AclRequests(Requests):
    """Calls about ACLs. They raise SecurityDisabledError if the brokers have no authorizer."""

    def describe_acls(self, acl_filter: ACLFilter) -> tuple[list[ACL], type[BrokerResponseError]]:
        """Returns the ACLs that a filter matches (DescribeAcls).

        Returns:
            ([ACL], NoError), as in kafka-python.
        """
        response = self._call(
            "DescribeAcls",
            _filter_body(acl_filter),
            codes=lambda response: [
                (response["ErrorCode"], response["ErrorMessage"], "DescribeAcls")
            ],
        )
        found = [_acl_of(row, acl) for row in response["Resources"] for acl in row["Acls"]]
        return found, NoError

    def create_acls(self, acls: Iterable[ACL]) -> dict[str, list[Any]]:
        """Adds ACLs (CreateAcls).

        Returns:
            {"succeeded": [ACL], "failed": [error class]}, as in kafka-python. For each ACL that
            failed, the client logs a warning with the ACL and the reason.

        Raises:
            IllegalArgumentError: If an element is not an ACL, or its principal has no type.
        """
        acls = list(acls)
        if not all(isinstance(each, ACL) for each in acls):
            raise IllegalArgumentError("acls must contain ACL objects")
        for each in acls:
            _check_principal(each.principal or "")
        creations = [
            {
                "ResourceType": int(each.resource_pattern.resource_type),
                "ResourceName": each.resource_pattern.resource_name,
                "ResourcePatternType": int(each.resource_pattern.pattern_type),
                "Principal": each.principal,
                "Host": each.host,
                "Operation": int(each.operation),
                "PermissionType": int(each.permission_type),
            }
            for each in acls
        ]
        response = self._call("CreateAcls", {"Creations": creations}, "controller")
        results: dict[str, list[Any]] = {"succeeded": [], "failed": []}
        for acl, row in zip(acls, response["Results"], strict=True):
            if row["ErrorCode"] == 0:
                results["succeeded"].append(acl)
            else:
                results["failed"].append(for_code(row["ErrorCode"]))
                text = self._refusal("CreateAcls", row["ErrorCode"], row["ErrorMessage"])
                _log.warning("%r was not created: %s", acl, text)
        return results

    def delete_acls(
        self, acl_filters: Iterable[ACLFilter]
    ) -> list[tuple[ACLFilter, list[ACL], type[BrokerResponseError]]]:
        """Removes the ACLs that the filters match (DeleteAcls).

        Returns:
            [(filter, [removed ACL], error class)], in the order of the filters.

        Raises:
            IllegalArgumentError: If an element is not an ACLFilter.
        """
        filters = list(acl_filters)
        if not all(isinstance(each, ACLFilter) for each in filters):
            raise IllegalArgumentError("acl_filters must contain ACLFilter type objects")
        response = self._call(
            "DeleteAcls", {"Filters": [_filter_body(each) for each in filters]}, "controller"
        )
        results = []
        for given, row in zip(filters, response["FilterResults"], strict=True):
            matched = row["MatchingAcls"]
            error = first_error((acl["ErrorCode"], acl["ErrorMessage"], "ACL") for acl in matched)
            kind = for_code(row["ErrorCode"]) if row["ErrorCode"] else type(error or NoError())
            results.append((given, [_acl_of(acl, acl) for acl in matched], kind))
        return results
