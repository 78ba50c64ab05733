"""The admin client's requests for ACLs and users (on a fake core)."""

import pytest

from tests.unit.admin.answers import answers, last
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
from thalweg.errors import IllegalArgumentError, NoError

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
RESOURCE = {"ResourceType": 2, "ResourceName": "t", "PatternType": 3}


def test_acls_are_described_created_and_deleted(admin):
    answers(
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
    answers(
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
