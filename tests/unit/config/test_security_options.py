"""Rules of the options for TLS and SASL."""

from pathlib import Path

import pytest

from tests.unit.config.problems import one_problem, problems
from thalweg import Secret
from thalweg.auth.password import PasswordSource
from thalweg.config import IgnoredOptionWarning, resolve

MECHANISMS = "'PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512', 'OAUTHBEARER', 'AWS_MSK_IAM' or 'GSSAPI'"
SASL = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "u", "sasl_plain_password": "x"}


def test_sasl_needs_a_mechanism_and_its_credentials():
    text = one_problem("a", security_protocol="SASL_PLAINTEXT")
    assert text == "security_protocol='SASL_PLAINTEXT' needs sasl_mechanism"
    found = problems("a", security_protocol="SASL_SSL", sasl_mechanism="PLAIN")
    assert found == [
        "sasl_mechanism='PLAIN' needs sasl_plain_username",
        "sasl_mechanism='PLAIN' needs sasl_plain_password",
    ]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "scram-sha-512"])
def test_scram_needs_the_same_credentials_as_plain(mechanism):
    given = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
    assert problems("a", **given) == [
        f"sasl_mechanism={mechanism.upper()!r} needs sasl_plain_username",
        f"sasl_mechanism={mechanism.upper()!r} needs sasl_plain_password",
    ]
    found = resolve("a", {**given, "sasl.username": "u", "sasl.password": "p"}).core()
    assert found["sasl_mechanism"] == mechanism.upper()
    assert found["sasl_scram_iterations_max"] == 131072
    assert found["sasl_scram_tokenauth"] is False


@pytest.mark.parametrize(
    "mechanism, refused",
    [
        ("PLAIN", ["sasl_plain_username", "sasl_plain_password"]),
        ("SCRAM-SHA-256", ["sasl_plain_username"]),
    ],
)
def test_a_nul_that_the_mechanism_cannot_send_is_refused(mechanism, refused):
    found = problems(
        "a",
        security_protocol="SASL_SSL",
        sasl_mechanism=mechanism,
        sasl_plain_username="a\0",
        sasl_plain_password="hunter\0",
    )
    assert found == [f"{name} must not contain a NUL character" for name in refused]


def test_the_limit_of_iterations_has_a_lowest_value():
    text = one_problem("a", sasl_scram_iterations_max=4095)
    assert text.startswith("sasl_scram_iterations_max must be a whole number")


def test_a_made_up_mechanism_is_refused():
    text = one_problem("a", security_protocol="SASL_SSL", sasl_mechanism="ROT13")
    assert text == f"sasl_mechanism must be {MECHANISMS}, not 'ROT13'"


def test_options_of_scram_warn_with_another_mechanism():
    with pytest.warns(IgnoredOptionWarning, match=r"sasl_scram_tokenauth: .*'PLAIN'") as caught:
        resolve("a", {**SASL, "security_protocol": "SASL_SSL", "sasl_scram_tokenauth": True})
    assert len(caught) == 1


SCRAM_LINE = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required"
    ' username="alice" password="hunter2" tokenauth="true";'
)


def test_javas_login_line_of_scram_may_have_a_delegation_token():
    given = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": SCRAM_LINE,
    }
    found = resolve("a", given).core()
    assert found["sasl_plain_username"] == "alice"
    assert found["sasl_plain_password"] == Secret("hunter2")
    assert found["sasl_scram_tokenauth"] is True
    assert resolve("a", {**given, "sasl_scram_tokenauth": False})["sasl_scram_tokenauth"] is False


@pytest.mark.parametrize(
    "mechanism, line, wanted",
    [
        ("PLAIN", SCRAM_LINE, "'SCRAM-SHA-256' or 'SCRAM-SHA-512'"),
        ("SCRAM-SHA-256", SCRAM_LINE.replace("scram.Scram", "plain.Plain"), "'PLAIN'"),
    ],
)
def test_javas_login_module_must_fit_the_mechanism(mechanism, line, wanted):
    text = one_problem(
        "a", security_protocol="SASL_SSL", sasl_mechanism=mechanism, sasl_jaas_config=line
    )
    assert text.startswith("sasl_jaas_config has ")
    assert text.endswith(f"which needs sasl_mechanism {wanted}, not {mechanism!r}")
    assert "hunter2" not in text


def test_javas_login_line_gives_user_and_password():
    line = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' username="alice" password="a\\"b\\\\c";'
    )
    found = resolve(
        "a",
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": line,
        },
    )
    assert found["sasl_plain_username"] == "alice"
    assert found["sasl_plain_password"] == Secret('a"b\\c')


def test_a_broken_login_line_is_refused_without_being_shown():
    found = problems(
        "a",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_jaas_config='password="hunter2"',
    )
    assert any(each.startswith("sasl_jaas_config must be ") for each in found)
    assert "hunter2" not in "".join(found)


@pytest.mark.parametrize(
    "given, lack",
    [
        (SASL, "does not authenticate"),
        ({"sasl_mechanism": "SCRAM-SHA-256"}, "does not authenticate"),
        ({"sasl_mechanism": "PLAIN", "security_protocol": "SSL"}, "does not authenticate"),
        ({"sasl_jaas_config": "nonsense"}, "does not authenticate"),
        ({"sasl_kerberos_domain_name": "d"}, "does not authenticate"),
        ({"ssl_cafile": "ca.pem"}, "has no encryption"),
        ({"ssl_keyfile": "key.pem"}, "has no encryption"),
        ({"ssl_truststore_location": "trust.jks"}, "has no encryption"),
        ({"ssl_protocol": "TLSv1.2"}, "has no encryption"),
    ],
)
def test_security_options_without_effect_are_ignored_with_one_warning(given, lack):
    with pytest.warns(IgnoredOptionWarning, match=lack) as caught:
        found = resolve("a", given)
    assert len(caught) == 1
    assert all(name in str(caught[0].message) for name in given if name != "security_protocol")
    assert found.core()["sasl_mechanism"] is None


@pytest.fixture
def pem_files(tmp_path, monkeypatch):
    """Makes these empty files in the working folder."""
    (tmp_path / "a").mkdir()
    for name in ("ca.pem", "client.pem", "client.key", "a/ca.pem"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)


def test_problems_of_security_come_together_with_all_others(pem_files):
    found = problems(
        "p",
        security_protocol="SASL_SSL",
        sasl_mechanism="ROT13",
        ssl_keyfile="client.key",
        sasl_oauth_token_provider=object(),
        acks=7,
    )
    assert [each.split()[0] for each in found] == [
        "sasl_oauth_token_provider",
        "acks",
        "ssl_keyfile",
        "sasl_mechanism",
    ]


def test_a_key_needs_its_certificate(pem_files):
    text = one_problem("a", security_protocol="SSL", ssl_keyfile="client.key")
    assert text == "ssl_keyfile needs ssl_certfile"


def test_kafkas_names_of_pem_stores_are_taken(pem_files):
    found = resolve(
        "a",
        {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "ca.pem",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": "client.pem",
            "ssl.endpoint.identification.algorithm": "",
        },
    )
    assert (found["ssl_cafile"], found["ssl_certfile"]) == ("ca.pem", "client.pem")
    assert found["ssl_check_hostname"] is False


@pytest.mark.parametrize("kind", ["JKS", "pkcs12", "PEM", None])
def test_the_contents_of_a_store_decide_and_not_its_type(pem_files, kind):
    found = resolve(
        "a",
        {
            "security_protocol": "SSL",
            "ssl.keystore.location": "client.pem",
            "ssl.keystore.type": kind,
            "ssl.keystore.password": "hunter2",
        },
    )
    assert found["ssl_certfile"] == "client.pem"
    assert found.core()["ssl_keystore_password"] == Secret("hunter2")


def test_a_made_up_type_of_a_store_is_refused():
    text = one_problem("a", security_protocol="SSL", ssl_truststore_type="BKS")
    assert text == "ssl_truststore_type must be 'PEM', 'PKCS12' or 'JKS', not 'BKS'"


def test_pem_texts_have_the_names_of_java_and_librdkafka():
    text = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"
    key = "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n"
    for names in (
        ("ssl.truststore.certificates", "ssl.keystore.certificate.chain", "ssl.keystore.key"),
        ("ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem"),
    ):
        given = dict(zip(names, (text, text, key), strict=True))
        found = resolve("a", {"security_protocol": "SSL", **given})
        assert found["ssl_cafile"] == found["ssl_certfile"] == Secret(text)
        assert found["ssl_keyfile"] == Secret(key)


@pytest.mark.parametrize("given", ["hunter2", b"hunter2", bytearray(b"hunter2"), Secret("hunter2")])
def test_the_password_of_a_key_may_be_text_or_bytes(given):
    found = resolve("a", {"security_protocol": "SSL", "ssl_password": given})
    assert found["ssl_password"] == found.core()["ssl_password"] == Secret("hunter2")
    assert "hunter2" not in repr(found)


def test_the_password_of_a_key_may_be_a_function():
    found = resolve("a", {"security_protocol": "SSL", "ssl_password": lambda: b"hunter2"})
    assert isinstance(found.core()["ssl_password"], PasswordSource)


@pytest.mark.parametrize("given", [b"\xff", 7])
def test_other_passwords_of_keys_are_refused(given):
    text = one_problem("a", security_protocol="SSL", ssl_password=given)
    assert text.startswith("ssl_password must be ")


def test_files_may_be_paths(pem_files):
    found = resolve("a", {"security_protocol": "SSL", "ssl_cafile": Path("a") / "ca.pem"})
    assert found["ssl_cafile"] == str(Path("a") / "ca.pem")
