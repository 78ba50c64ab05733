"""Rules for the options of AWS_MSK_IAM, the mechanism of Amazon MSK."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from thalweg._config.findings import Findings

if TYPE_CHECKING:
    from thalweg.auth.aws import Logins

__all__ = ["AWS", "OF_STS", "AwsRules", "aws_logins", "has_botocore"]

# The options that have an effect only with this mechanism.
AWS: Final = (
    "sasl_aws_credentials",
    "sasl_aws_profile",
    "sasl_aws_region",
    "sasl_aws_role_arn",
    "sasl_client_callback_handler_class",
)
# Those that also have an effect with OAUTHBEARER and aws_iam.
OF_STS: Final = ("sasl_aws_credentials", "sasl_aws_profile", "sasl_aws_role_arn")
# Entries of the login line of Amazon's Java library, and the options for them.
_ENTRIES: Final = {"awsProfileName": "sasl_aws_profile", "awsRoleArn": "sasl_aws_role_arn"}
_HANDLER: Final = "IAMClientCallbackHandler"


class AwsRules:
    """The rules, for a client with AWS_MSK_IAM."""

    def __init__(self, values: dict[str, Any], explicit: frozenset[str], found: Findings) -> None:
        """Takes the coerced values, which the rules change, and the names that the user gave."""
        self.values, self.explicit, self.found = values, explicit, found

    def login_line(self, entries: Mapping[str, str]) -> None:
        """Takes what the login line of Amazon's Java library says."""
        for name, value in entries.items():
            option = _ENTRIES.get(name)
            if option is None:
                self.found.problem(
                    f"sasl_jaas_config has {name}, which AWS_MSK_IAM does not support. Remove it:"
                    " the client reads awsProfileName and awsRoleArn"
                )
            elif option not in self.explicit:
                self.values[option] = value

    def check(self) -> None:
        """Checks that there are credentials, and that no other user can read them."""
        if self.values["security_protocol"] != "SASL_SSL":
            self.found.problem(
                "sasl_mechanism='AWS_MSK_IAM' needs security_protocol='SASL_SSL', because anybody"
                " who gets a login can use it"
            )
        handler = self.values["sasl_client_callback_handler_class"]
        if handler is not None and handler.rpartition(".")[2] != _HANDLER:
            self.found.problem(
                "sasl_client_callback_handler_class names a Java class that this client does not"
                " have. Give its equivalent in Python as sasl_aws_credentials"
            )
        region = self.values["sasl_aws_region"]
        if region is not None and not re.fullmatch(r"[a-z]{2,9}(-[a-z]+)+-\d+", region):
            self.found.problem(
                f"sasl_aws_region must be the name of a region such as 'eu-west-1', not {region!r}"
            )
        self._credentials()

    def _credentials(self) -> None:
        given = self.values["sasl_aws_credentials"]
        is_object = hasattr(given, "get_frozen_credentials") or hasattr(given, "access_key")
        if given is not None and not callable(given) and not is_object:
            self.found.problem(
                "sasl_aws_credentials must be a thalweg.auth.aws.Credentials, an object with"
                " get_frozen_credentials(), or a function"
            )
        needs_botocore = given is None or self.values["sasl_aws_role_arn"] is not None
        if needs_botocore and not has_botocore():
            self.found.problem("AWS_MSK_IAM needs botocore: install thalweg[aws]")


def aws_logins(values: Mapping[str, Any]) -> "Logins | None":
    """Returns what signs the logins, or None for other mechanisms.

    Args:
        values: All options of the client, which `AwsRules` has checked.
    """
    if values["sasl_mechanism"] != "AWS_MSK_IAM":
        return None
    from thalweg.auth.aws import Identity, Logins

    identity = Identity(
        values["sasl_aws_region"],
        values["sasl_aws_profile"],
        values["sasl_aws_role_arn"],
        values["sasl_aws_credentials"],
    )
    return Logins(identity)


def has_botocore() -> bool:
    """Whether botocore is installed."""
    from importlib.util import find_spec

    return find_spec("botocore") is not None
