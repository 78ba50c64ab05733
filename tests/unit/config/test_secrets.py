"""No error and no repr shows a secret."""

import pickle
import warnings

import pytest

from tests.unit.config.problems import one_problem, problems
from thalweg import Secret
from thalweg._config.options import ROWS
from thalweg.config import Config, resolve
from thalweg.errors import KafkaConfigurationError

SECRETS = sorted(row.name for row in ROWS if row.secret)


def test_the_secrets_are_known():
    assert SECRETS == [
        "sasl_aws_credentials",
        "sasl_jaas_config",
        "sasl_oauth_token_provider",
        "sasl_oauthbearer_assertion_private_key_passphrase",
        "sasl_oauthbearer_client_credentials_client_secret",
        "sasl_oauthbearer_config",
        "sasl_plain_password",
        "ssl_keystore_password",
        "ssl_password",
        "ssl_truststore_password",
    ]


def test_a_secret_is_never_shown():
    given = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "hunter2",
    }
    found = resolve("a", given)
    assert found["sasl_plain_password"] == Secret("hunter2")
    assert found.core()["sasl_plain_password"].reveal() == "hunter2"
    shown = (repr(found), str(found), f"{found}", repr(found.public()), repr(found.core()))
    for text in (*shown, repr(dict(found)), repr(found["sasl_plain_password"])):
        assert "hunter2" not in text
    assert found.public()["sasl_plain_password"] == "<hidden>"
    assert found.public()["sasl_plain_username"] == "alice"


@pytest.mark.parametrize("name", SECRETS)
def test_a_bad_secret_is_named_without_its_value(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(KafkaConfigurationError) as caught:
            resolve("a", {name: ["hunter2"], "also": "wrong"})
    assert "hunter2" not in str(caught.value)


def test_the_value_of_an_unknown_option_is_not_shown():
    assert "hunter2" not in one_problem("a", sasl_plain_pasword="hunter2")


_BODY = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgmarkerofthesecretkey"


@pytest.mark.parametrize("row", [row for row in ROWS if row.kind == "pem"])
@pytest.mark.parametrize(
    "text",
    [
        f"-----BEGIN PRIVATE KEY-----\n{_BODY}\n-----END PRIVATE KEY-----\n",
        f"{_BODY[:40]}\n{_BODY[40:]}\n",
        _BODY,
        f"-----BEGIN PRIVATE KEY-----\r\n{_BODY}\r\n-----END PRIVATE KEY-----\r\n",
        f"  -----BEGIN PRIVATE KEY-----\n  {_BODY}\n  -----END PRIVATE KEY-----\n",
        f"-----BEGIN PRIVATE KEY----- {_BODY} -----END PRIVATE KEY-----",
        f"----BEGIN PRIVATE KEY----{_BODY}",
        f" {_BODY} ",
        f"'{_BODY}'",
        f"{_BODY}\\n{_BODY}",
        f"{_BODY} {_BODY}",
        _BODY.replace("A", "-") + "_",
    ],
    ids=[
        "PEM",
        "lines without armour",
        "base64",
        "CRLF",
        "indented",
        "one line",
        "four dashes",
        "spaces around",
        "quotes around",
        "escaped line break",
        "words",
        "URL-safe",
    ],
)
def test_pem_text_is_never_shown(row, text, recwarn):
    """Not when it is accepted, not when it is refused, and not when it has no effect."""
    shown = []
    for protocol in ("SSL", "PLAINTEXT"):
        given = {"security_protocol": protocol, "ssl_certfile": "/no/such", row.name: text}
        try:
            found = resolve("p", given)
            shown += [repr(found), str(found.public())]
        except KafkaConfigurationError as error:
            copy = pickle.loads(pickle.dumps(error))
            shown += [str(error), repr(error), repr(error.problems), str(copy), repr(vars(copy))]
    found = Config("p", {row.name: text}, ())
    shown += [repr(found), repr(found.public()), *(str(each.message) for each in recwarn)]
    assert "marker" not in "\n".join(shown).replace("\\n", "")
    assert "GByqGSM49AgEGCCqGSM49" not in "\n".join(shown)


def test_the_path_of_a_pem_file_is_shown():
    found = Config("p", {"ssl_keyfile": "/etc/keys/client.pem"}, ())
    assert found.public() == {"ssl_keyfile": "/etc/keys/client.pem"}
    long = "/tmp/pytest-of-alice/pytest-12/a/very/long/path/of/many/words/without/any/end"
    assert Config("p", {"ssl_keyfile": long}, ()).public() == {"ssl_keyfile": long}
    assert long in one_problem("p", security_protocol="SSL", ssl_cafile=long)


@pytest.mark.parametrize(
    "address", ["SASL_SSL://u:hunter2@h:9092", "u:hunter2@h:9092", "hunter2@h"]
)
def test_a_password_in_an_address_is_refused_and_not_shown(address):
    text = one_problem("p", bootstrap_servers=["h:1", address])
    assert "sasl_plain_password" in text
    assert "hunter2" not in text


def test_all_files_that_cannot_be_read_are_named_with_all_other_problems(tmp_path):
    (tmp_path / "there").touch()
    found = problems(
        "p",
        security_protocol="SSL",
        ssl_cafile=str(tmp_path / "no-ca"),
        ssl_certfile=str(tmp_path),
        ssl_keyfile=str(tmp_path / "there"),
        ssl_crlfile="nul\0",
        acks=7,
    )
    listed = "\n".join(found)
    assert len(found) == 4
    assert f"ssl_cafile cannot be read from {tmp_path / 'no-ca'}: No such file" in listed
    assert f"ssl_certfile cannot be read from {tmp_path}: it is a directory" in listed
    assert "ssl_crlfile cannot be read from nul" in listed
    assert "acks must be" in listed


def test_doubled_secrets_are_named_without_their_values():
    text = one_problem("a", **{"sasl_plain_password": "hunter2", "sasl.password": "hunter3"})
    assert "hunter" not in text
