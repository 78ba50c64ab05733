"""The security of EmbeddedBroker: which arguments it takes, and what it gives to clients."""

import pytest

from thalweg import Secret
from thalweg.broker._security import Security

PASSWORDS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


def sasl(mechanisms=None, users=None):
    return Security("SASL_PLAINTEXT", mechanisms, users)


def test_the_arguments_reach_the_core(fake):
    broker = fake.broker.EmbeddedBroker()
    assert broker._native.args[4:7] == ("PLAINTEXT", PASSWORDS, {})
    broker = fake.broker.EmbeddedBroker(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanisms=("SCRAM-SHA-512", "OAUTHBEARER"),
        users={"alice": "s3cret", "bob": Secret("other")},
    )
    assert broker._native.args[4:7] == (
        "SASL_PLAINTEXT",
        ["SCRAM-SHA-512", "OAUTHBEARER"],
        {"alice": "s3cret", "bob": "other"},
    )
    broker.add_user("carol", "third")
    assert broker._native.calls == [("set_user", "carol", "third")]
    broker.remove_user("carol")
    assert "carol" not in broker._security.users


@pytest.mark.parametrize(
    "arguments, error, words",
    [
        (("SSL3", None, None), ValueError, "not support 'SSL3'. Use one of PLAINTEXT, SSL, SASL_"),
        ((1, None, None), TypeError, "security_protocol must be a str, got int 1"),
        (("PLAINTEXT", ["PLAIN"], None), ValueError, "sasl_mechanisms has no effect"),
        (("PLAINTEXT", None, {"a": "s3cret"}), ValueError, "users has no effect"),
        (("SASL_PLAINTEXT", "PLAIN", None), TypeError, "must be a list of names"),
        (("SASL_PLAINTEXT", [], None), ValueError, "no client could log in"),
        (("SASL_PLAINTEXT", ["GSSAPI"], None), ValueError, "'GSSAPI'. Use one of PLAIN, "),
        (("SASL_PLAINTEXT", None, ["alice"]), TypeError, "users must be a mapping"),
        (("SASL_PLAINTEXT", None, {1: "s3cret"}), TypeError, "name of a user must be a str"),
        (("SASL_PLAINTEXT", None, {"a": b"s3cret"}), TypeError, "user 'a' must be a str or a"),
        (("SASL_PLAINTEXT", None, {"": "s3cret"}), ValueError, "must not be empty"),
        (("SASL_PLAINTEXT", None, {"a": ""}), ValueError, "must not be empty"),
        (("SASL_PLAINTEXT", None, {"a": "s3cret\0"}), ValueError, "NUL"),
    ],
)
def test_wrong_arguments_are_named_without_the_passwords(arguments, error, words):
    with pytest.raises(error) as caught:
        Security(*arguments)
    assert words in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_client_gets_the_first_mechanism_with_a_password():
    security = sasl(["OAUTHBEARER", "SCRAM-SHA-256", "PLAIN"], {"a": "1", "b": "2"})

    def options(user):
        return security.client_options(user, None)

    assert options(None)["sasl_mechanism"] == "SCRAM-SHA-256"
    assert options(None)["sasl_plain_username"] == "a"
    assert options("b")["sasl_plain_password"] == Secret("2")
    with pytest.raises(ValueError, match="has no user 'c'"):
        options("c")
    with pytest.raises(ValueError, match="has no users: call add_user first"):
        sasl().client_options(None, None)


def test_without_passwords_a_client_makes_a_token():
    options = sasl(["OAUTHBEARER"]).client_options("carol", None)
    assert options["sasl_oauthbearer_config"] == "principal=carol"
    assert options["enable_sasl_oauthbearer_unsecure_jwt"] is True


def test_without_sasl_no_user_can_log_in():
    assert Security("PLAINTEXT", None, None).client_options(None, None) == {
        "security_protocol": "PLAINTEXT"
    }
    with pytest.raises(ValueError, match="cannot log in"):
        Security("PLAINTEXT", None, None).client_options("alice", None)


def test_the_repr_of_its_parts_shows_no_password():
    security = sasl(users={"alice": "s3cret"})
    assert "s3cret" not in repr(vars(security))


CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\ns3cret\n-----END PRIVATE KEY-----\n"


def test_certificates_are_paths_or_texts(tmp_path):
    (tmp_path / "key.pem").write_text(KEY)
    for key in (KEY, Secret(KEY), tmp_path / "key.pem", str(tmp_path / "key.pem")):
        security = Security("SSL", None, None, CERTIFICATE, key, CERTIFICATE)
        assert security.tls() == (CERTIFICATE, KEY, CERTIFICATE)
        assert security.client_options(None, None)["ssl_cafile"] == CERTIFICATE
        assert "s3cret" not in repr(vars(security))
    assert Security("SSL", None, None).tls() is None
    assert Security("SSL", None, None).client_options("alice", "PEM")["ssl_cafile"] == "PEM"


@pytest.mark.parametrize(
    "arguments, error, words",
    [
        (("PLAINTEXT", None, None, CERTIFICATE, KEY), ValueError, "ssl_certfile has no effect"),
        (("SSL", None, None, CERTIFICATE), ValueError, "belong together"),
        (("SSL", None, None, None, None, CERTIFICATE), ValueError, "belong together"),
        (("SSL", None, None, 7, KEY), TypeError, "ssl_certfile must be a path or PEM text"),
        (("SSL", None, None, CERTIFICATE, "/nowhere"), ValueError, "ssl_keyfile cannot be read"),
        (("SSL", ["PLAIN"], None), ValueError, "sasl_mechanisms has no effect"),
    ],
)
def test_wrong_certificates_are_named(arguments, error, words):
    with pytest.raises(error) as caught:
        Security(*arguments)
    assert words in str(caught.value)
    assert "s3cret" not in str(caught.value)
