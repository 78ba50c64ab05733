"""Rules of the options for OAUTHBEARER."""

import math

import pytest

from tests.unit.config.problems import one_problem, problems
from thalweg.config import IgnoredOptionWarning, InsecureConnectionWarning, resolve

SASL = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "u", "sasl_plain_password": "x"}
OAUTH = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
OAUTH_LINE = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    ' unsecuredLoginStringClaim_sub="alice" unsecuredLoginExtension_traceId="7";'
)


def test_oauthbearer_needs_one_provider_of_tokens():
    text = (
        "sasl_mechanism='OAUTHBEARER' needs sasl_oauth_token_provider, or"
        " sasl_oauthbearer_token_endpoint_url of an identity provider"
    )
    assert problems("a", **OAUTH) == [text]
    given = {**OAUTH, "oauth_cb": len, "enable_sasl_oauthbearer_unsecure_jwt": True}
    assert "set only one of them" in one_problem("a", **given)
    assert resolve("a", {**OAUTH, "oauth_cb": len})["sasl_oauth_token_provider"] is len
    assert resolve("a", OAUTH | {"sasl.oauth.token.provider": len}).core()
    assert resolve("a", {}).core()["sasl_oauth_token_provider"] is None


@pytest.mark.parametrize(
    "provider, words",
    [
        (5, "must be an object with a method token()"),
        ("eyJ.hunter2.x", "must be an object with a method token()"),
        ("os.path:nothing", "cannot be created: 'os.path:nothing' (AttributeError"),
        ("nowhere:at_all", "(ModuleNotFoundError"),
        ("os:getcwd", "must be an object with a method token()"),
        (dict, "must be an instance of dict, not the class"),
    ],
)
def test_a_wrong_provider_of_tokens_is_named_once(provider, words):
    text = one_problem("a", **OAUTH, sasl_oauth_token_provider=provider)
    assert text.startswith("sasl_oauth_token_provider ")
    assert words in text
    assert "hunter2" not in text


@pytest.mark.parametrize(
    "config, words",
    [
        (None, "needs principal=NAME"),
        ("scope=a", "needs principal=NAME"),
        ("principal=a color=red", "has an unknown key. The keys are principal, scope"),
        ("principal=a lifeSeconds=0", "has a lifeSeconds that is not a whole number"),
        ("principal=a lifeSeconds=x", "has a lifeSeconds that is not a whole number"),
    ],
)
def test_a_wrong_configuration_of_tokens_without_a_signature_is_refused(config, words):
    given = {"enable_sasl_oauthbearer_unsecure_jwt": True, "sasl_oauthbearer_config": config}
    assert words in one_problem("a", **OAUTH, **given)


def test_javas_login_line_of_oauthbearer_is_taken_or_refused():
    with pytest.warns(InsecureConnectionWarning, match="no signature"):
        found = resolve("a", {**OAUTH, "sasl_jaas_config": OAUTH_LINE})
    assert found["sasl_oauthbearer_config"].reveal() == "principal=alice extension_traceId=7"
    assert found["enable_sasl_oauthbearer_unsecure_jwt"] is True
    found = resolve("a", {**OAUTH, "sasl_jaas_config": OAUTH_LINE, "oauth_cb": len})
    assert found["enable_sasl_oauthbearer_unsecure_jwt"] is False
    line = OAUTH_LINE.replace("unsecuredLoginStringClaim_sub", "clientSecret")
    texts = problems("a", **OAUTH, sasl_jaas_config=line.replace("alice", "hunter2"))
    assert any("clientSecret, which is not supported" in each for each in texts)
    assert "hunter2" not in str(texts)


@pytest.mark.parametrize(
    "name, value, words",
    [
        ("sasl_login_refresh_window_factor", 0.4, "from 0.5 to 1.0"),
        ("sasl_login_refresh_window_factor", math.nan, "from 0.5 to 1.0"),
        ("sasl_login_refresh_window_factor", "x", "from 0.5 to 1.0"),
        ("sasl_login_refresh_window_jitter", 0.3, "from 0.0 to 0.25"),
        ("sasl_login_refresh_min_period_seconds", 901, "from 0 to 900"),
        ("sasl_login_refresh_buffer_seconds", -1, "from 0 to 3600"),
    ],
)
def test_the_times_of_refreshes_have_kafkas_limits(name, value, words):
    assert words in one_problem("a", **{name: value})
    found = resolve("a", {**OAUTH, "oauth_cb": len, "sasl.login.refresh.window.factor": "0.6"})
    assert found.core()["sasl_login_refresh_window_factor"] == 0.6


@pytest.mark.parametrize(
    "given, name",
    [
        ({"oauth_cb": len, "sasl_plain_username": "u"}, "sasl_plain_username"),
        ({**SASL, "oauth_cb": len}, "sasl_oauth_token_provider"),
        ({**SASL, "sasl_login_refresh_buffer_seconds": 9}, "sasl_login_refresh_buffer_seconds"),
    ],
)
def test_options_of_another_mechanism_warn(given, name):
    with pytest.warns(IgnoredOptionWarning, match=f"^{name}: .*sasl_mechanism is") as caught:
        resolve("a", {**OAUTH, **given})
    assert len(caught) == 1


@pytest.mark.parametrize("given", [SASL, {"sasl_mechanism": "OAUTHBEARER", "oauth_cb": len}])
def test_credentials_that_the_network_can_read_cause_one_warning(given):
    given = {**given, "security_protocol": "SASL_PLAINTEXT"}
    local = "localhost:1,127.0.0.9:2,[::1]:3,broker.localhost"
    resolve("a", {**given, "bootstrap_servers": local})
    with pytest.warns(InsecureConnectionWarning, match="unencrypted to kafka:9092, so") as caught:
        resolve("a", {**given, "bootstrap_servers": local + ",kafka"})
    assert len(caught) == 1
    scram = {**given, **SASL, "sasl_mechanism": "SCRAM-SHA-256", "oauth_cb": None}
    resolve("a", {**scram, "bootstrap_servers": "kafka"})
