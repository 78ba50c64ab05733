"""Rules of the options for tokens that a cloud gives to its machines."""

import pytest

from tests.unit.config.problems import one_problem, problems
from thalweg._config import aws_rules
from thalweg._config.oidc import rules as oidc_rules
from thalweg._config.oidc.metadata import AZURE_URL, sts_settings
from thalweg.auth.sts import StsSettings
from thalweg.config import IgnoredOptionWarning, InsecureConnectionWarning, resolve

OAUTH = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
AZURE = {
    **OAUTH,
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.metadata.authentication.type": "azure_imds",
}
STS = {
    **OAUTH,
    "sasl.oauthbearer.metadata.authentication.type": "aws_iam",
    "sasl.oauthbearer.config": "region=eu-west-1,audience=https://kafka",
}


def settings(given):
    provider = resolve("a", given).core()["sasl_oauth_token_provider"]
    return provider._calls._call.__self__._shared._settings


def test_azure_has_a_default_endpoint(recwarn):
    query = "api-version=2025-04-07&resource=api://app"
    found = settings({**AZURE, "sasl.oauthbearer.config": f"query={query}"})
    assert found.url == f"{AZURE_URL}?{query}"
    assert found.azure
    url = {"sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/x?a=b"}
    assert settings({**AZURE, **url}).url == "http://127.0.0.1:1/x?a=b"
    both = {**AZURE, **url, "sasl.oauthbearer.config": "query=c=d"}
    assert settings(both).url == "http://127.0.0.1:1/x?a=b&c=d"
    assert not recwarn.list


@pytest.mark.parametrize("config", ["", "resource=x", "query=", "query=a b", "query=a#b"])
def test_azure_needs_a_query(config):
    text = one_problem("a", **AZURE, **{"sasl.oauthbearer.config": config})
    assert "query=api-version=" in text


@pytest.fixture
def botocore(monkeypatch):
    """The tests' environment has no botocore."""
    for module in (aws_rules, oidc_rules):
        monkeypatch.setattr(module, "has_botocore", lambda: True)


def test_aws_needs_botocore():
    text = one_problem("a", **STS)
    assert text.endswith("needs botocore: install thalweg[aws]")


def test_aws_takes_confluent_kafkas_configuration(botocore, recwarn):
    config = (
        "region=eu-west-1, audience=https://kafka,duration_seconds=600,signing_algorithm=RS256,"
        "sts_endpoint=https://sts.example,tag_team=data\\,science,tag_env=prod"
    )
    found = settings({**STS, "sasl.oauthbearer.config": config, "sasl_aws_profile": "dev"})
    assert found.sts == StsSettings(
        "eu-west-1",
        "https://kafka",
        600,
        "RS256",
        "https://sts.example",
        (("team", "data,science"), ("env", "prod")),
        "dev",
    )
    assert not recwarn.list
    with pytest.warns(IgnoredOptionWarning, match="sasl_aws_region: without effect"):
        resolve("a", {**STS, "sasl_aws_region": "eu-west-1"})


def test_an_endpoint_without_tls_is_warned_about(botocore, recwarn):
    config = "region=a,audience=b,sts_endpoint=http://{}:1/x"
    settings({**STS, "sasl.oauthbearer.config": config.format("127.0.0.1")})
    assert not recwarn.list
    with pytest.warns(InsecureConnectionWarning, match="sts_endpoint in .* is not https"):
        settings({**STS, "sasl.oauthbearer.config": config.format("sts.example")})


def test_clients_with_the_same_credentials_share_tokens_whatever_these_are(botocore):
    class Own:
        """Credentials whose comparison and hash would show them."""

        access_key, secret_key, token = "AKID", "hunter2", None

        def __eq__(self, other: object) -> bool:
            raise ValueError(self.secret_key)

        __hash__ = None  # type: ignore[assignment]

    own = Own()
    first, same = (settings({**STS, "sasl_aws_credentials": own}) for _ in range(2))
    other = settings({**STS, "sasl_aws_credentials": Own()})
    assert first == same
    assert hash(first) == hash(same)
    assert first != other


@pytest.mark.parametrize(
    "config, words",
    [
        ("", "needs region="),
        ("region=eu-west-1", "needs audience="),
        ("region=a,audience=b,color=hunter2", "has an unknown key"),
        ("region=a,audience=b,duration_seconds=59", "from 60 to 3600"),
        ("region=a,audience=b,duration_seconds=99999999999999", "from 60 to 3600"),
        ("region=a,audience=b,duration_seconds=x", "from 60 to 3600"),
        ("region=a,audience=b,signing_algorithm=none", "ES384 or RS256"),
        ("region", "must be 'key=value"),
        ("region=a,audience=b,sts_endpoint=sts.example", "sts_endpoint that is not https://"),
        ("region=a,audience=b,sts_endpoint=http://me@x", "sts_endpoint that is not https://"),
        ("region=a,audience=b" + "".join(f",tag_{n}=x" for n in range(51)), "more than 50 tags"),
    ],
)
def test_a_wrong_configuration_for_aws_is_named(botocore, config, words):
    found = problems("a", **{**STS, "sasl.oauthbearer.config": config})
    assert words in found[0]
    assert "hunter2" not in str(found)


def test_the_defaults_are_those_of_aws():
    found = sts_settings("region=a,audience=b")
    assert (found.duration_s, found.algorithm, found.tags) == (300, "ES384", ())
