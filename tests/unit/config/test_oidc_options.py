"""Rules of the options for OAUTHBEARER with an identity provider."""

import pytest

from tests.unit.config.problems import one_problem, problems
from thalweg import Secret
from thalweg.config import IgnoredOptionWarning, InsecureConnectionWarning, resolve

OAUTH = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
URL = "sasl_oauthbearer_token_endpoint_url"
ID = "sasl_oauthbearer_client_credentials_client_id"
SECRET = "sasl_oauthbearer_client_credentials_client_secret"
OIDC = {**OAUTH, URL: "https://idp/token", ID: "me", SECRET: "hunter2"}
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
LINE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


def test_a_token_endpoint_replaces_a_provider():
    found = resolve("a", OIDC)
    assert found[SECRET] == Secret("hunter2")
    assert found.core()["sasl_oauth_token_provider"].name == "OidcTokens.token()"
    assert not {name for name in found.core() if "client_credentials" in name}
    assert "hunter2" not in repr(found) + str(found.public()) + repr(found.core())


@pytest.mark.parametrize(
    "given",
    [
        {
            "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
            "sasl.oauthbearer.client.credentials.client.id": "me",
            "sasl.oauthbearer.client.credentials.client.secret": "hunter2",
            "sasl.login.callback.handler.class": HANDLER,
        },
        {
            "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
            "sasl.oauthbearer.client.id": "me",
            "sasl.oauthbearer.client.secret": "hunter2",
            "sasl.oauthbearer.method": "oidc",
        },
        {
            "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
            "sasl.jaas.config": f"{LINE} clientId='me' clientSecret='hunter2';",
        },
    ],
    ids=["Java", "librdkafka", "Java's login line"],
)
def test_the_names_of_java_and_librdkafka_mean_the_same(given):
    found = resolve("p", OAUTH | given)
    assert (found[URL], found[ID], found[SECRET]) == (
        "https://idp/token",
        "me",
        Secret("hunter2"),
    )
    assert found.core()["sasl_oauth_token_provider"].name == "OidcTokens.token()"
    assert "hunter2" not in repr(found)


def test_javas_login_line_has_scope_extensions_and_authorities(tmp_path):
    authorities = tmp_path / "ca.pem"
    authorities.touch()
    entries = (
        "clientId=a clientSecret=b scope='c d' extension_one=1 extension_two=2"
        f" ssl.truststore.location='{authorities}'"
    )
    given = {**OAUTH, URL: "https://idp/token", "sasl_jaas_config": f"{LINE} {entries};"}
    found = resolve("a", given)
    assert found["sasl_oauthbearer_scope"] == "c d"
    assert found["sasl_oauthbearer_extensions"] == "one=1,two=2"
    assert found["https_ca_location"] == str(authorities)
    assert resolve("a", {**given, ID: "x"})[ID] == "x", "options are stronger than the line"
    line = f"{LINE} clientId=a clientSecret=b nonsense=hunter2;"
    text = one_problem("a", **{**given, "sasl_jaas_config": line})
    assert text == "sasl_jaas_config has nonsense, which is not supported for OAUTHBEARER"


def test_everything_that_is_missing_is_named_at_once():
    assert problems("a", **OAUTH, **{URL: "https://idp/token"}) == [
        f"{URL} needs {ID}",
        f"{URL} needs {SECRET}",
    ]
    given = {**OAUTH, "sasl_oauthbearer_method": "oidc", ID: "me", SECRET: "x"}
    assert one_problem("a", **given) == f"tokens from an identity provider need {URL}"
    assert one_problem("a", **{**OIDC, SECRET: ""}) == f"{URL} needs {SECRET}"
    assert resolve("a", {**OIDC, SECRET: lambda: "x"}).core()


@pytest.mark.parametrize(
    "url, words",
    [
        ("idp/token", "must be https://"),
        ("ftp://idp/token", "must be https://"),
        ("https://", "must be https://"),
        ("https://idp:0/token", "must be https://"),
        ("https://idp:x/token", "is not a valid URL"),
        ("https://[::1/token", "is not a valid URL"),
        ("https://me:hunter2@idp/token", "contains a user name or a password"),
        ("https://idp/token#hunter2", "contains a fragment"),
        ("https://idp/to ken", "white space"),
        ("https://idp/\r\nHost: x", "white space"),
        ("https://b\u00fccher/token", "Punycode"),
    ],
)
def test_a_wrong_endpoint_is_refused_and_not_shown(url, words):
    text = one_problem("a", **{**OIDC, URL: url})
    assert text.startswith(f"{URL} ")
    assert words in text
    assert "hunter2" not in text


@pytest.mark.parametrize("host", ["127.0.0.1:80", "localhost", "[::1]", "169.254.169.254"])
def test_http_is_for_this_machine(host, recwarn):
    resolve("a", {**OIDC, URL: f"http://{host}/token"})
    assert not recwarn.list
    with pytest.warns(InsecureConnectionWarning, match="is not https") as caught:
        resolve("a", {**OIDC, URL: "http://idp/token"})
    assert len(caught) == 1


def test_another_java_class_is_refused():
    text = one_problem("a", **OIDC, sasl_login_callback_handler_class="com.example.Mine")
    assert "sasl_oauth_token_provider" in text


@pytest.mark.parametrize("text", ["auth=1", "a1=2", "=x", "a", "a=", "a=b,c=\x01"])
def test_wrong_extensions_are_refused(text):
    assert "sasl_oauthbearer_extensions" in one_problem(
        "a", **OIDC, sasl_oauthbearer_extensions=text
    )


def test_wrong_authorities_are_refused(tmp_path):
    text = one_problem("a", **OIDC, https_ca_location=str(tmp_path / "none"))
    assert "https_ca_location cannot be read from" in text
    assert "https_ca_pem must be" in one_problem("a", **OIDC, https_ca_pem=str(tmp_path))
    pem = "-----BEGIN CERTIFICATE-----\nx"
    assert "set only one" in one_problem(
        "a", **OIDC, https_ca_pem=pem, https_ca_location=str(tmp_path)
    )


def test_a_provider_of_the_application_is_stronger():
    with pytest.warns(IgnoredOptionWarning, match=f"{ID}, .*{URL}: without effect") as caught:
        found = resolve("a", {**OIDC, "oauth_cb": len})
    assert len(caught) == 1
    assert found.core()["sasl_oauth_token_provider"].name == "len()"
    assert resolve("a", {**OAUTH, "oauth_cb": len, "sasl.oauthbearer.method": "default"})


def test_tokens_come_from_one_place():
    given = {**OIDC, "enable_sasl_oauthbearer_unsecure_jwt": True}
    assert "set only one of them" in one_problem("a", **given)


@pytest.mark.parametrize(
    "given",
    [
        {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"},
        {"security_protocol": "PLAINTEXT", "sasl_mechanism": None},
    ],
)
def test_without_oauthbearer_the_options_have_no_effect(given):
    login = {"sasl_plain_username": "u", "sasl_plain_password": "p"}
    used = login if given["sasl_mechanism"] else {}
    with pytest.warns(IgnoredOptionWarning, match=f"https_ca_location, {ID}") as caught:
        resolve("a", {**OIDC, **given, **used, "https_ca_location": "/"})
    assert len(caught) == 1


@pytest.mark.parametrize(
    "name", ["sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.expected.audience"]
)
def test_what_brokers_validate_has_no_effect(name):
    with pytest.warns(IgnoredOptionWarning, match="the broker validates tokens"):
        resolve("a", {**OIDC, name: "x"})
