"""The admin client's requests for ACLs and users (on a fake core)."""

import hashlib
import pickle
import traceback

import pytest

from tests.unit.admin.responses import last, responds
from thalweg import Secret
from thalweg.admin.acls import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from thalweg.admin.users import (
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from thalweg.errors import (
    ClusterAuthorizationFailedError,
    IllegalArgumentError,
    KafkaConnectionError,
    KafkaTimeoutError,
    NoError,
)

PATTERN = ResourcePattern(ResourceType.TOPIC, "t")
ENTRY = ACL("User:a", "*", ACLOperation.READ, ACLPermissionType.ALLOW, PATTERN)
FILTER = ACLFilter(
    None,
    None,
    ACLOperation.ANY,
    ACLPermissionType.ANY,
    ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
)
WIRE = {"Principal": "User:a", "Host": "*", "Operation": 3, "PermissionType": 3}
HASH = hashlib.pbkdf2_hmac("sha256", b"hunter2", b"salt", 4096)
PASSWORD, UNENCODABLE = "hunter2", "hunter2\ud800"
RESOURCE = {"ResourceType": 2, "ResourceName": "t", "PatternType": 3}


def test_acls_are_described_created_and_deleted(admin):
    responds(
        admin,
        DescribeAcls={
            "ErrorCode": 0,
            "ErrorMessage": None,
            "Resources": [{**RESOURCE, "Acls": [WIRE]}],
        },
        CreateAcls={"Results": [{"ErrorCode": 0, "ErrorMessage": None}]},
        DeleteAcls={
            "FilterResults": [
                {
                    "ErrorCode": 0,
                    "ErrorMessage": None,
                    "MatchingAcls": [{"ErrorCode": 0, "ErrorMessage": None, **RESOURCE, **WIRE}],
                }
            ]
        },
    )
    assert admin.describe_acls(FILTER) == ([ENTRY], NoError)
    assert last(admin)[1]["ResourceNameFilter"] is None
    assert admin.create_acls([ENTRY]) == {"succeeded": [ENTRY], "failed": []}
    assert admin.delete_acls([FILTER]) == [(FILTER, [ENTRY], NoError)]
    with pytest.raises(IllegalArgumentError):
        admin.create_acls([FILTER])
    with pytest.raises(IllegalArgumentError):
        admin.delete_acls(["x"])


@pytest.mark.parametrize(
    "make",
    [
        lambda: ResourcePattern(ResourceType.ANY, "t"),
        lambda: ResourcePattern(ResourceType.TOPIC, "t", ACLResourcePatternType.MATCH),
        lambda: ResourcePattern("TOPIC", "t"),  # type: ignore[arg-type]
        lambda: ACL("u", "*", ACLOperation.ANY, ACLPermissionType.ALLOW, PATTERN),
        lambda: ACL("u", "*", ACLOperation.READ, ACLPermissionType.ANY, PATTERN),
        lambda: ACL("u", "*", ACLOperation.READ, ACLPermissionType.ALLOW, FILTER),  # type: ignore[arg-type]
        lambda: ACLFilter("u", "*", "READ", ACLPermissionType.ALLOW, PATTERN),  # type: ignore[arg-type]
    ],
)
def test_acls_that_make_no_sense_cannot_be_made(make):
    with pytest.raises(IllegalArgumentError):
        make()


def test_scram_credentials_send_no_password(admin):
    row = {"User": "u", "ErrorCode": 0, "ErrorMessage": None}
    infos = [{"Mechanism": 1, "Iterations": 4096}]
    responds(
        admin,
        AlterUserScramCredentials={"Results": [row]},
        DescribeUserScramCredentials={
            "ErrorCode": 0,
            "ErrorMessage": None,
            "Results": [{**row, "CredentialInfos": infos}],
        },
    )
    upsertion = UserScramCredentialUpsertion("u", "scram-sha-256", "hunter2", salt=b"salt")
    assert admin.alter_user_scram_credentials([upsertion, UserScramCredentialDeletion("v", 2)]) == {
        "u": None
    }
    body = last(admin)[1]
    assert "hunter2" not in repr(body) + repr(upsertion)
    assert len(body["Upsertions"][0]["SaltedPassword"]) == 32
    assert body["Deletions"] == [{"Name": "v", "Mechanism": 2}]
    found = admin.describe_user_scram_credentials(["u"])
    assert found["u"]["credential_infos"][0]["mechanism"] is ScramMechanism.SCRAM_SHA_256
    with pytest.raises(IllegalArgumentError):
        admin.alter_user_scram_credentials(["x"])
    with pytest.raises(IllegalArgumentError, match="UNKNOWN"):
        UserScramCredentialUpsertion("u", 0, "p")


def shown_with_variables(error: BaseException) -> str:
    """Returns the traceback with the variables of its frames, as pytest and others print it."""
    return "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())


def test_nothing_shows_the_hash_of_a_password():
    made = UserScramCredentialUpsertion("u", 1, Secret("hunter2"), salt=b"salt")
    of_str = UserScramCredentialUpsertion("u", 1, "hunter2", salt=b"salt")
    assert made.salted_password == of_str.salted_password == HASH
    assert repr(made.salted_password) == str(made.salted_password) == "<hidden>"
    assert repr(HASH) not in repr(vars(made)) + repr(made)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(made)


@pytest.mark.parametrize(
    "error", [KafkaConnectionError("it broke"), KafkaTimeoutError("no response"), RuntimeError("x")]
)
def test_no_traceback_of_a_request_shows_the_hash(admin, error):
    responds(admin, AlterUserScramCredentials=error)
    made = UserScramCredentialUpsertion("u", 1, Secret("hunter2"), salt=b"salt")
    with pytest.raises(type(error)) as caught:
        admin.alter_user_scram_credentials([made])
    text = shown_with_variables(caught.value)
    assert "SaltedPassword" in text
    assert repr(HASH)[2:-1] not in text


@pytest.mark.parametrize(
    "options, error, match",
    [
        ({"iterations": 0}, ValueError, "iterations must be from 1 to 2147483647, got 0"),
        ({"iterations": 2**31}, ValueError, "iterations must be from 1 to 2147483647, got 2147483"),
        ({"iterations": "4096"}, TypeError, "iterations must be an int .*, got str '4096'"),
        ({"salt": "salt"}, TypeError, "salt must be bytes, got str 'salt'"),
        ({}, IllegalArgumentError, "password: UTF-8 cannot encode this str"),
    ],
)
@pytest.mark.parametrize("kind", [str, Secret])
def test_no_traceback_of_a_wrong_argument_shows_the_password(kind, options, error, match):
    with pytest.raises(error, match=match) as caught:
        UserScramCredentialUpsertion(
            "alice", "SCRAM-SHA-256", kind(PASSWORD if options else UNENCODABLE), **options
        )
    text = shown_with_variables(caught.value)
    assert "password = <hidden>" in text
    assert "hunter2" not in text


def test_a_password_of_a_wrong_type_is_not_shown():
    with pytest.raises(
        TypeError, match="password must be a str, bytes or Secret, not list"
    ) as seen:
        UserScramCredentialUpsertion("u", 1, ["hunter2"])  # type: ignore[arg-type]
    shown = traceback.TracebackException.from_exception(seen.value, capture_locals=True)
    frames = [each for each in shown.stack if each.name == "__init__"]
    assert frames
    assert "hunter2" not in repr([each.locals for each in frames])


def test_an_acl_that_failed_is_logged_with_the_reason(admin, caplog):
    row = {"ErrorCode": 31, "ErrorMessage": None}
    responds(admin, CreateAcls={"Results": [row]})
    assert admin.create_acls([ENTRY]) == {
        "succeeded": [],
        "failed": [ClusterAuthorizationFailedError],
    }
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("thalweg.admin", "WARNING")
    assert "User:a" in record.getMessage()
    assert "was not created" in record.getMessage()
    assert ClusterAuthorizationFailedError.description in record.getMessage()


@pytest.mark.parametrize("principal", ["carol", ":carol", "User:"])
def test_a_principal_needs_its_type(admin, principal):
    acl = ACL(principal, "*", ACLOperation.READ, ACLPermissionType.ALLOW, PATTERN)
    with pytest.raises(IllegalArgumentError, match="as in 'User:"):
        admin.create_acls([acl])
    assert admin._client.requests == []


def test_a_refused_user_has_an_error_even_if_the_broker_sends_no_text(admin):
    row = {"User": "u", "ErrorCode": 31, "ErrorMessage": None}
    responds(admin, AlterUserScramCredentials={"Results": [row]})
    found = admin.alter_user_scram_credentials([UserScramCredentialDeletion("u", 1)])
    assert found["u"].startswith(ClusterAuthorizationFailedError.description)


def test_acls_may_come_from_a_generator(admin):
    responds(admin, CreateAcls={"Results": [{"ErrorCode": 0, "ErrorMessage": None}]})
    assert admin.create_acls(each for each in [ENTRY]) == {"succeeded": [ENTRY], "failed": []}
    assert len(last(admin)[1]["Creations"]) == 1


def test_values_of_a_newer_broker_are_unknown(admin):
    newer = {"Principal": "User:a", "Host": "*", "Operation": 99, "PermissionType": 98}
    resource = {"ResourceType": 97, "ResourceName": "t", "PatternType": 96}
    responds(
        admin,
        DescribeAcls={
            "ErrorCode": 0,
            "ErrorMessage": None,
            "Resources": [{**resource, "Acls": [newer]}],
        },
        DescribeUserScramCredentials={
            "ErrorCode": 0,
            "ErrorMessage": None,
            "Results": [
                {
                    "User": "a",
                    "ErrorCode": 0,
                    "ErrorMessage": None,
                    "CredentialInfos": [{"Mechanism": 9, "Iterations": 4096}],
                }
            ],
        },
    )
    (found,), _ = admin.describe_acls(FILTER)
    kinds = found.operation, found.permission_type, found.resource_pattern.resource_type
    assert {each.name for each in kinds} == {"UNKNOWN"}
    assert found.resource_pattern.pattern_type is ACLResourcePatternType.UNKNOWN
    users = admin.describe_user_scram_credentials(["a"])
    assert users["a"]["credential_infos"][0]["mechanism"] is ScramMechanism.UNKNOWN
