"""The admin client's requests for delegation tokens (on a fake core)."""

import base64
import pickle
import traceback

import pytest

from tests.unit.admin.responses import last, responds
from thalweg import Secret
from thalweg.admin import DelegationToken
from thalweg.errors import (
    DelegationTokenAuthDisabledError,
    DelegationTokenAuthorizationFailedError,
    IllegalArgumentError,
    KafkaTimeoutError,
)

HMAC = b"\xfb\xff the hmac of the token"
PASSWORD = base64.b64encode(HMAC).decode()
TOKEN = DelegationToken("id-1", Secret(PASSWORD), "User:a", "User:a", None, 1, 2, 3)
ROW = {
    "PrincipalType": "User",
    "PrincipalName": "a",
    "TokenRequesterPrincipalType": "User",
    "TokenRequesterPrincipalName": "b",
    "TokenId": "id-1",
    "Hmac": HMAC,
}
CREATED = {
    "ErrorCode": 0,
    **ROW,
    "IssueTimestampMs": 1,
    "ExpiryTimestampMs": 2,
    "MaxTimestampMs": 3,
}


def test_a_token_is_created_for_an_owner(admin):
    responds(admin, CreateDelegationToken=CREATED)
    token = admin.create_delegation_token("User:a", ["User:c:d", "User:e"], 1000)
    assert (token.owner, token.requester, token.renewers) == ("User:a", "User:b", None)
    assert last(admin)[1] == {
        "OwnerPrincipalType": "User",
        "OwnerPrincipalName": "a",
        "Renewers": [
            {"PrincipalType": "User", "PrincipalName": "c:d"},
            {"PrincipalType": "User", "PrincipalName": "e"},
        ],
        "MaxLifetimeMs": 1000,
    }
    assert token.sasl_config("SCRAM-SHA-256") == {
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "id-1",
        "sasl_plain_password": Secret(PASSWORD),
        "sasl_scram_tokenauth": True,
    }


def test_a_token_needs_scram():
    with pytest.raises(ValueError, match="must be SCRAM-SHA-256 or SCRAM-SHA-512"):
        TOKEN.sasl_config("PLAIN")  # type: ignore[arg-type]


def test_an_old_broker_tells_no_requester(admin):
    old = {name: each for name, each in CREATED.items() if "Requester" not in name}
    responds(admin, CreateDelegationToken=old)
    assert admin.create_delegation_token(renewers="User:c").requester == "User:a"
    assert "OwnerPrincipalName" not in last(admin)[1]


def test_tokens_are_described(admin):
    times = {"IssueTimestamp": 1, "ExpiryTimestamp": 2, "MaxTimestamp": 3}
    renewers = [{"PrincipalType": "User", "PrincipalName": "c"}]
    row = {**ROW, **times, "Renewers": renewers}
    responds(admin, DescribeDelegationToken={"ErrorCode": 0, "Tokens": [row]})
    (token,) = admin.describe_delegation_tokens()
    assert last(admin)[1] == {"Owners": None}
    assert token.renewers == ("User:c",)
    assert token.hmac.reveal() == PASSWORD
    admin.describe_delegation_tokens(["User:a"])
    assert last(admin)[1] == {"Owners": [{"PrincipalType": "User", "PrincipalName": "a"}]}


@pytest.mark.parametrize("given", [TOKEN, TOKEN.hmac, PASSWORD, HMAC])
def test_a_token_is_renewed_and_expired_by_any_form_of_its_hmac(admin, given):
    response = {"ErrorCode": 0, "ExpiryTimestampMs": 7}
    responds(admin, RenewDelegationToken=response, ExpireDelegationToken=response)
    assert admin.renew_delegation_token(given) == 7
    assert last(admin)[1] == {"Hmac": HMAC, "RenewPeriodMs": -1}
    assert admin.expire_delegation_token(given, 5) == 7
    assert last(admin)[1] == {"Hmac": HMAC, "ExpiryTimePeriodMs": 5}


def test_errors_say_what_to_do(admin):
    refused = {**CREATED, "ErrorCode": 61}
    responds(admin, CreateDelegationToken=refused)
    with pytest.raises(DelegationTokenAuthDisabledError, match=r"Set delegation\.token\.secret"):
        admin.create_delegation_token()
    responds(admin, CreateDelegationToken={**CREATED, "ErrorCode": 65})
    with pytest.raises(DelegationTokenAuthorizationFailedError, match=r"for User:a: .*a right"):
        admin.create_delegation_token("User:a")


def test_wrong_arguments_are_refused(admin):
    with pytest.raises(IllegalArgumentError, match="owner: 'a' is not a principal"):
        admin.create_delegation_token("a")
    with pytest.raises(IllegalArgumentError, match="renewers: 'User:' is not"):
        admin.create_delegation_token(renewers=["User:"])
    with pytest.raises(IllegalArgumentError, match="owners: ':a' is not"):
        admin.describe_delegation_tokens([":a"])
    with pytest.raises(TypeError, match="not int"):
        admin.renew_delegation_token(7)
    for wrong in ("no Base64 at all", "ä"):
        with pytest.raises(IllegalArgumentError, match="not Base64") as caught:
            admin.renew_delegation_token(wrong)
        assert wrong not in str(caught.value)


def test_nothing_shows_the_hmac(admin):
    """Not even a traceback with the variables of its frames, as pytest and others print it."""
    shown = [repr(TOKEN), str(TOKEN), repr(TOKEN.sasl_config())]
    responds(
        admin,
        RenewDelegationToken={"ErrorCode": 62, "ExpiryTimestampMs": -1},
        ExpireDelegationToken=RuntimeError("the core has failed"),
    )
    for call in (admin.renew_delegation_token, admin.expire_delegation_token):
        for given in (TOKEN, Secret(PASSWORD), Secret("no Base64: " + PASSWORD)):
            with pytest.raises(Exception, match=r"not show it|on server|has failed") as caught:
                call(given)
            report = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
            shown += report.format()
    text = "".join(shown)
    for form in (PASSWORD, repr(HMAC)[2:-1], HMAC.hex()):
        assert form not in text
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(TOKEN)


@pytest.mark.parametrize("give", [lambda: PASSWORD, lambda: HMAC])
def test_no_traceback_of_a_request_shows_what_the_caller_gave(admin, give):
    error = KafkaTimeoutError("no response")
    responds(admin, RenewDelegationToken=error, ExpireDelegationToken=error)
    for call in (admin.renew_delegation_token, admin.expire_delegation_token):
        with pytest.raises(KafkaTimeoutError) as caught:
            call(give())
        report = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
        text = "".join(report.format())
        assert "found = <hidden>" in text
        for form in (PASSWORD, repr(HMAC)[2:-1]):
            assert form not in text


@pytest.mark.parametrize("wrong", ["not Base64: hunter2\n", ["hunter2"]])
def test_no_traceback_of_a_wrong_token_shows_it(admin, wrong):
    for call in (admin.renew_delegation_token, admin.expire_delegation_token):
        with pytest.raises((IllegalArgumentError, TypeError)) as caught:
            call(wrong)
        assert caught.value.__traceback__ is not None
        of_package = caught.value.__traceback__.tb_next  # the first frame is this test's own
        report = traceback.TracebackException(
            type(caught.value), caught.value, of_package, capture_locals=True
        )
        assert "hunter2" not in "".join(report.format())
