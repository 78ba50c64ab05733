"""Rules of the options for OAUTHBEARER with an identity provider."""

import pytest

from tests.unit.config.problems import one_problem, problems
from thalweg import Secret
from thalweg._config.oidc import oidc_tokens
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
        f"{URL} needs {each}, or an assertion (sasl_oauthbearer_assertion_file,"
        " sasl_oauthbearer_assertion_claim_iss)"
        for each in (ID, SECRET)
    ]
    given = {**OAUTH, "sasl_oauthbearer_method": "oidc", ID: "me", SECRET: "x"}
    assert one_problem("a", **given) == f"tokens from an identity provider need {URL}"
    assert one_problem("a", **{**OIDC, SECRET: ""}).startswith(f"{URL} needs {SECRET}")
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


def test_a_url_with_a_query_is_hidden():
    found = resolve("a", {**OIDC, URL: "https://idp/token?code=hunter3"})
    assert "hunter3" not in repr(found)
    assert found.core()["sasl_oauth_token_provider"].name == "OidcTokens.token()"
    assert "https://idp/token" in repr(resolve("a", OIDC))


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


@pytest.mark.parametrize("name", [ID, "sasl_oauthbearer_scope"])
@pytest.mark.parametrize("text", ["a\nb", "a\udc80", "\0"])
def test_names_can_be_printed(name, text):
    found = one_problem("a", **{**OIDC, name: text})
    assert found == f"{name} has a character that cannot be printed"


@pytest.mark.parametrize("text", ["auth=1", "a1=2", "=x", "a", "a=", "a=b,c=\x01"])
def test_wrong_extensions_are_refused(text):
    assert "sasl_oauthbearer_extensions" in one_problem(
        "a", **OIDC, sasl_oauthbearer_extensions=text
    )


def test_wrong_authorities_are_refused(tmp_path):
    text = one_problem("a", **OIDC, https_ca_location=str(tmp_path / "none"))
    assert "https_ca_location cannot be read from" in text
    assert resolve("a", {**OIDC, "https.ca.location": "probe"}).core()
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


# ---------------------------------------------------------------- assertions

ASSERTION = "sasl_oauthbearer_assertion_"
SIGNED = {**OAUTH, URL: "https://idp/token", f"{ASSERTION}claim_iss": "me"}
PACKAGE = "org.apache.kafka.common.security.oauthbearer."


def test_an_assertion_replaces_the_secret(tmp_path, recwarn):
    key = tmp_path / "key.pem"
    key.write_text("x")
    given = {**SIGNED, f"{ASSERTION}private_key_file": str(key)}
    assert resolve("a", given).core()["sasl_oauth_token_provider"].name == "OidcTokens.token()"
    names = {
        "sasl.oauthbearer.assertion.private.key.pem": "-----BEGIN PRIVATE KEY-----\nhunter2",
        "sasl.oauthbearer.assertion.private.key.passphrase": "hunter2",
        "sasl.oauthbearer.assertion.claim.exp.seconds": "60",
    }
    found = resolve("a", {**SIGNED, **names})
    assert "hunter2" not in repr(found)
    assert found[f"{ASSERTION}claim_exp_seconds"] == 60
    assert not recwarn.list
    with pytest.warns(UserWarning, match=f"{SECRET}: without effect, because the client logs in"):
        resolve("a", {**given, SECRET: "hunter2"})


def test_what_an_assertion_lacks_is_named(tmp_path):
    missing = str(tmp_path / "missing")
    assert one_problem("a", **SIGNED) == (
        f"an assertion needs {ASSERTION}private_key_file or {ASSERTION}file"
    )
    found = problems(
        "a",
        **SIGNED,
        **{f"{ASSERTION}private_key_file": missing, f"{ASSERTION}template_file": missing},
    )
    assert len(found) == 2
    text = one_problem("a", **{**SIGNED, f"{ASSERTION}file": missing})
    assert text == f"{ASSERTION}file cannot be read from {missing}"
    (tmp_path / "assertion").write_text("x")
    given = {f"{ASSERTION}file": str(tmp_path / "assertion"), f"{ASSERTION}template_file": "/"}
    with pytest.warns(IgnoredOptionWarning, match=f"{ASSERTION}template_file: without effect"):
        resolve("a", {**SIGNED, **given})


@pytest.mark.parametrize(
    "given",
    [
        {"sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer"},
        {"sasl_oauthbearer_grant_type": "jwt-bearer"},
        {"sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}JwtBearerJwtRetriever"},
    ],
)
def test_the_grant_is_an_assertion(given, tmp_path):
    (tmp_path / "assertion").write_text("x")
    file = {f"{ASSERTION}file": str(tmp_path / "assertion")}
    assert resolve("a", {**OAUTH, URL: "https://idp/token", **given, **file}).core()
    text = one_problem("a", **OAUTH, **{URL: "https://idp/token", **given})
    assert text.startswith("an assertion needs")


def test_a_file_with_the_token_needs_no_credentials():
    retriever = {"sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}FileJwtRetriever"}
    for more in ({}, retriever):
        assert resolve("a", {**OAUTH, URL: "file:///run/token", **more}).core()
    for url in ("file:token", "file://elsewhere/token", "file:"):
        assert "file:/absolute/path" in one_problem("a", **OAUTH, **{URL: url})
    assert "FileJwtRetriever needs" in one_problem("a", **OIDC, **retriever)


def test_the_names_of_java_classes_that_get_tokens_are_known():
    for name in ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever"):
        resolve("a", {**OIDC, "sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}{name}"})
    text = one_problem("a", **OIDC, sasl_oauthbearer_jwt_retriever_class="com.example.Mine")
    assert "sasl_oauth_token_provider" in text


class Unhashable:
    """A function of an application, as a dataclass with `__call__` is."""

    __hash__ = None  # type: ignore[assignment]

    def __call__(self) -> str:
        return "hunter2"


def test_clients_share_tokens_though_their_function_has_no_hash():
    function = Unhashable()
    first, second, other = (
        oidc_tokens(resolve("p", {**OIDC, SECRET: each}))._shared
        for each in (function, function, Unhashable())
    )
    assert first is second
    assert other is not first


@pytest.mark.parametrize("name", ["sasl_oauthbearer_assertion_file", "https_ca_location"])
def test_a_null_character_in_a_path_is_a_problem(name):
    found = problems("p", **{**OIDC, name: "a\0b"})
    assert any(each.startswith(name) and "cannot be read" in each for each in found)
