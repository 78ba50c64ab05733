"""Rules of the options for AWS_MSK_IAM."""

import pytest

from tests.unit.config.problems import one_problem, problems
from thalweg.auth.aws import Credentials
from thalweg.config import IgnoredOptionWarning, resolve
from thalweg.errors import IllegalStateError

KEYS = Credentials("AKIDEXAMPLE", "hunter2")
AWS = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "AWS_MSK_IAM",
    "sasl_aws_credentials": KEYS,
}
PACKAGE = "software.amazon.msk.auth.iam."


def test_credentials_are_enough():
    found = resolve("a", AWS)
    assert type(found.core()["sasl_aws_credentials"]).__name__ == "Logins"
    assert "hunter2" not in repr(found) + str(found.public())
    assert resolve("a", {}).core()["sasl_aws_credentials"] is None
    assert resolve("a", {**AWS, "sasl_mechanism": "aws_msk_iam"})["sasl_mechanism"] == "AWS_MSK_IAM"


def test_the_configuration_of_amazons_library_works():
    line = f"{PACKAGE}IAMLoginModule required awsProfileName='dev' awsRoleArn='arn:x';"
    given = {
        **AWS,
        "sasl.jaas.config": line,
        "sasl.client.callback.handler.class": f"{PACKAGE}IAMClientCallbackHandler",
    }
    assert one_problem("a", **given) == "AWS_MSK_IAM needs botocore: install thalweg[aws]"
    bare = f"{PACKAGE}IAMLoginModule required;"
    assert resolve("a", {**given, "sasl.jaas.config": bare}).core()
    text = one_problem("a", **{**given, "sasl.jaas.config": bare[:-1] + " awsDebugCreds='true';"})
    assert text.startswith("sasl_jaas_config has awsDebugCreds, which AWS_MSK_IAM does not support")
    text = one_problem("a", **AWS, sasl_client_callback_handler_class="com.example.Mine")
    assert "sasl_aws_credentials" in text


def test_a_login_needs_tls():
    text = one_problem("a", **{**AWS, "security_protocol": "SASL_PLAINTEXT"})
    assert "needs security_protocol='SASL_SSL'" in text


def test_wrong_values_are_named_together():
    found = problems(
        "a", **{**AWS, "sasl_aws_region": "Ireland", "sasl_aws_credentials": ("a", "hunter2")}
    )
    words = "sasl_aws_region must be the name of a region such as 'eu-west-1', not 'Ireland'"
    assert words in found
    assert any("sasl_aws_credentials must be" in each for each in found)
    assert "hunter2" not in str(found)


def test_without_credentials_botocore_is_needed():
    given = {**AWS, "sasl_aws_credentials": None}
    assert one_problem("a", **given) == "AWS_MSK_IAM needs botocore: install thalweg[aws]"


def test_options_of_aws_have_no_effect_elsewhere():
    plain = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "u", "sasl_plain_password": "p"}
    with pytest.warns(IgnoredOptionWarning, match="sasl_aws_credentials, sasl_aws_region: without"):
        resolve("a", {**AWS, **plain, "sasl_aws_region": "eu-west-1"})
    with pytest.warns(IgnoredOptionWarning, match=r"sasl_plain_username: .*'AWS_MSK_IAM'"):
        resolve("a", {**AWS, "sasl_plain_username": "u"})


def test_there_is_no_password_to_change():
    with pytest.raises(IllegalStateError, match="AWS_MSK_IAM"):
        resolve("a", AWS).set_credentials("u", object(), None)
