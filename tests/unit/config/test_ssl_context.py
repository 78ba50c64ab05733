"""The option `ssl_context`: what the client takes from a context, and what it refuses."""

import ssl
import traceback
import warnings
from typing import Any

import pytest

from tests.support.paths import ROOT
from tests.unit.config.problems import one_problem, problems
from thalweg import Secret
from thalweg.aio import helpers as aio_helpers
from thalweg.config import Config, InsecureConnectionWarning, resolve
from thalweg.errors import KafkaConfigurationError
from thalweg.helpers import create_ssl_context

STORES = ROOT / "crates/network/tests/stores"
KEYS = ROOT / "crates/network/tests/keys"
CA = str(STORES / "ca.pem")
CHAIN = str(STORES / "chain.pem")
KEY = str(KEYS / "scrypt.key")
PASSWORD = "correct horse"


def resolved(context: Any, **given: Any) -> Config:
    return resolve("a", {"security_protocol": "SSL", "ssl_context": context, **given})


def test_a_context_of_the_standard_library_gives_its_authorities_and_checks():
    found = resolved(ssl.create_default_context(cafile=CA))
    (authority,) = ssl.create_default_context(cafile=CA).get_ca_certs(binary_form=True)
    assert found["ssl_cafile"] == Secret(ssl.DER_cert_to_PEM_cert(authority))
    assert found["ssl_check_hostname"] is found["ssl_verify"] is True
    assert found["ssl_enabled_protocols"] == ["TLSv1.2", "TLSv1.3"]
    assert len(found["ssl_ciphers"]) == 9
    assert found.core()["ssl_context"] is True


def test_a_context_without_authorities_does_not_trust_those_of_the_system(tmp_path, monkeypatch):
    empty = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    folder = ssl.create_default_context(capath=str(tmp_path))  # OpenSSL reads it only when needed
    for system in (CA, "/nowhere"):  # the system may itself have only a folder
        monkeypatch.setenv("SSL_CERT_FILE", system)
        for context in (empty, folder):
            (problem,) = problems("p", security_protocol="SSL", ssl_context=context)
            assert problem.startswith("ssl_context has no authorities that can be read")


def test_where_the_system_has_only_a_folder_its_context_is_refused(monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere")
    context = ssl.create_default_context()
    (problem,) = problems("p", security_protocol="SSL", ssl_context=context)
    assert problem.endswith("To trust the system's authorities, give no ssl_context")


def test_names_that_are_checked_and_not_checked_contradict_each_other():
    (problem,) = problems(
        "p",
        security_protocol="SSL",
        ssl_check_hostname=False,
        ssl_endpoint_identification_algorithm="https",
    )
    assert "contradict each other" in problem


def test_a_context_without_checks_warns():
    context = ssl.create_default_context(cafile=CA)
    context.check_hostname = False
    assert resolved(context)["ssl_check_hostname"] is False
    context.verify_mode = ssl.CERT_NONE
    with pytest.warns(InsecureConnectionWarning, match="ssl_context has verify_mode=CERT_NONE"):
        assert resolved(context)["ssl_verify"] is False


def test_an_option_that_contradicts_a_context_is_named_with_it():
    context = ssl.create_default_context(cafile=CA)
    for given in ({"ssl_cafile": CHAIN}, {"ssl.ca.location": CHAIN}):
        (name,) = given
        problem = one_problem("p", security_protocol="SSL", ssl_context=context, **given)
        names = f"'ssl_context' and {name!r}"
        assert problem == f"{names} give ssl_cafile different values: set only one of them"


@pytest.mark.parametrize(
    "password", [Secret(PASSWORD), lambda: Secret(PASSWORD)], ids=["secret", "function"]
)
def test_the_password_of_a_key_may_be_a_secret(password):
    context = create_ssl_context(cafile=CA, certfile=CHAIN, keyfile=KEY, password=password)
    found = resolved(context)["ssl_password"]
    assert (found() if callable(found) else found) == Secret(PASSWORD)


def test_versions_and_suites_are_taken():
    context = ssl.create_default_context(cafile=CA)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    assert resolved(context)["ssl_enabled_protocols"] == ["TLSv1.3"]
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-RSA-AES128-GCM-SHA256")
    found = resolved(context)
    assert found["ssl_enabled_protocols"] == ["TLSv1.2"]
    assert "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256" in found["ssl_ciphers"]
    assert "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384" not in found["ssl_ciphers"]
    context = ssl.create_default_context(cafile=CA)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.options |= ssl.OP_NO_TLSv1_3
    assert resolved(context)["ssl_enabled_protocols"] == ["TLSv1.2"]


def test_the_file_for_secrets_of_sessions_is_taken_with_a_warning(tmp_path):
    context = ssl.create_default_context(cafile=CA)
    context.keylog_filename = str(tmp_path / "keys.log")
    with pytest.warns(InsecureConnectionWarning, match="ssl_keylog_file"):
        assert resolved(context)["ssl_keylog_file"] == str(tmp_path / "keys.log")


def _with_crl() -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=CA)
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return context


def _with_sni() -> ssl.SSLContext:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS)  # the only kind for clients that may have one
    context.sni_callback = lambda *given: None
    return context


def _with_post_handshake_auth() -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=CA)
    context.post_handshake_auth = True
    return context


def _with_a_leaf() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=CHAIN)  # the first one is not an authority


def _too_old() -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=CA)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.options |= ssl.OP_NO_TLSv1_2 | ssl.OP_NO_TLSv1_3
    return context


@pytest.mark.parametrize(
    "make, words",
    [
        (_with_crl, "ssl_context checks revocation lists"),
        (_with_sni, "ssl_context has an sni_callback"),
        (_with_post_handshake_auth, "ssl_context has post_handshake_auth"),
        (_with_a_leaf, "ssl_context contains certificates to trust that are not authorities"),
        (_too_old, "ssl_context allows neither TLS 1.2 nor TLS 1.3"),
    ],
)
def test_what_cannot_be_taken_is_refused(make, words):
    given = {"security_protocol": "SSL", "ssl_context": make()}
    assert any(each.startswith(words) for each in problems("a", **given))


@pytest.mark.parametrize("wrong", ["ca.pem", object(), True])
def test_something_else_than_a_context_is_refused(wrong):
    text = one_problem("a", security_protocol="SSL", ssl_context=wrong)
    assert text == f"ssl_context must be an ssl.SSLContext, not {type(wrong).__name__}"


def test_a_context_that_contradicts_another_option_is_refused():
    context = ssl.create_default_context(cafile=CA)
    text = one_problem("a", security_protocol="SSL", ssl_context=context, ssl_check_hostname=False)
    assert "'ssl_check_hostname'" in text


# ---------------------------------------------------------------- create_ssl_context


@pytest.mark.parametrize("password", [PASSWORD, PASSWORD.encode(), lambda: PASSWORD])
def test_our_own_context_remembers_everything(password):
    context = create_ssl_context(cafile=CA, certfile=CHAIN, keyfile=KEY, password=password)
    assert isinstance(context, ssl.SSLContext)
    found = resolved(context)
    names = ("ssl_cafile", "ssl_certfile", "ssl_keyfile")
    assert [found[name] for name in names] == [CA, CHAIN, KEY]
    assert found.core()["ssl_context"] is False
    assert callable(password) or found["ssl_password"] == Secret(PASSWORD)
    assert PASSWORD not in repr(context) + repr(vars(context)) + repr(found)


def test_changes_of_our_own_context_count():
    context = create_ssl_context(cafile=CA)
    context.check_hostname = False
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    found = resolved(context)
    assert found["ssl_check_hostname"] is False
    assert found["ssl_enabled_protocols"] == ["TLSv1.3"]


def test_authorities_may_be_text_or_bytes_or_a_folder():
    text = (STORES / "ca.pem").read_text()
    der = ssl.PEM_cert_to_DER_cert(text)
    for data in (text, der):
        found = resolved(create_ssl_context(cadata=data))
        assert found["ssl_cafile"] == Secret(ssl.DER_cert_to_PEM_cert(der))
    assert resolved(create_ssl_context(capath=str(STORES)))["ssl_cafile"] == str(STORES)
    assert resolved(create_ssl_context())["ssl_cafile"] is None


def test_authorities_from_two_places_are_refused():
    with pytest.raises(ValueError, match="put all certificates into one of them"):
        create_ssl_context(cafile=CA, cadata="-----BEGIN")


def test_a_wrong_password_is_in_no_frame_of_the_error():
    with pytest.raises(ssl.SSLError) as caught:
        create_ssl_context(certfile=CHAIN, keyfile=KEY, password="hunter2")
    ours = [
        frame.f_locals
        for frame, _ in traceback.walk_tb(caught.value.__traceback__)
        if frame.f_globals["__name__"].startswith("thalweg")
    ]
    assert ours
    assert "hunter2" not in repr(ours)


def test_the_helper_has_the_place_of_aiokafkas():
    assert aio_helpers.create_ssl_context is create_ssl_context


def test_authorities_that_are_added_to_our_own_context_are_refused():
    context = create_ssl_context()
    context.load_verify_locations(CA)
    with pytest.raises(KafkaConfigurationError, match=r"Pass them to create_ssl_context\(\)"):
        resolved(context)
