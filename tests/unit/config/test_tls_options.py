"""Rules of the options for TLS: suites, versions, curves, verification."""

import re

import pytest

from tests.support.paths import ROOT
from tests.unit.config.problems import one_problem
from thalweg._config.tls_rules import SUITES
from thalweg.config import IgnoredOptionWarning, InsecureConnectionWarning, resolve

TLS = {"security_protocol": "SSL"}


def core(**given):
    return resolve("a", {**TLS, **given}).core()


def test_the_native_core_has_the_same_suites():
    source = (ROOT / "crates/network/src/tls/suites.rs").read_text(encoding="utf-8")
    table = source[source.index("const SUITES") : source.index("const CURVES")]
    assert re.findall(r'"(TLS_\w+)"', table) == list(SUITES)


def test_without_a_choice_the_core_offers_everything():
    found = core()
    names = ("ssl_ciphers", "ssl_curves_list", "ssl_enabled_protocols")
    assert [found[name] for name in names] == [[], [], []]
    assert found["ssl_verify"] is True


@pytest.mark.parametrize(
    "given",
    [
        "TLS_AES_128_GCM_SHA256:ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        ["tls_aes_128_gcm_sha256", "ecdhe-rsa-aes128-gcm-sha256"],
    ],
)
def test_suites_have_the_names_of_iana_and_of_openssl(given):
    names = ["TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]
    assert core(ssl_ciphers=given)["ssl_ciphers"] == names
    assert core(**{"ssl.cipher.suites": given})["ssl_ciphers"] == names


def test_suites_that_the_client_lacks_are_warned_of():
    words = "ignores AES256-SHA, which it does not support. It supports TLS_AES_256"
    with pytest.warns(UserWarning, match=words) as caught:
        found = core(ssl_ciphers="AES256-SHA:TLS_AES_256_GCM_SHA384")
    assert len(caught) == 1
    assert found["ssl_ciphers"] == ["TLS_AES_256_GCM_SHA384"]


def test_no_suite_that_the_client_has_is_an_error_that_lists_them():
    text = one_problem("a", **TLS, ssl_ciphers="AES256-SHA")
    assert text.startswith(
        "ssl_ciphers contains no name that the client supports. Use one or more of TLS_AES_256"
    )
    assert all(name in text for name in SUITES)


@pytest.mark.parametrize(
    "expression",
    ["HIGH:!aNULL", "DEFAULT", "ECDHE+AESGCM", "@STRENGTH", "TLS_AES_128_GCM_SHA256:-ALL", "ECDH"],
)
def test_expressions_of_openssl_are_refused(expression):
    text = one_problem("a", **TLS, ssl_ciphers=expression)
    assert text.startswith("ssl_ciphers must be a list of names of cipher suites, not an")


def test_curves_have_the_names_of_everybody():
    given = "P-256:x25519:secp384r1:prime256v1"
    assert core(ssl_curves_list=given)["ssl_curves_list"] == ["P-256", "X25519", "P-384"]
    with pytest.warns(UserWarning, match="ignores P-521"):
        assert core(**{"ssl.curves.list": "P-521:P-384"})["ssl_curves_list"] == ["P-384"]
    text = one_problem("a", **TLS, ssl_curves_list="P-521")
    assert "ssl_curves_list contains no name that the client supports" in text


@pytest.mark.parametrize(
    "given, versions",
    [
        ({"ssl_enabled_protocols": "TLSv1.2"}, ["TLSv1.2"]),
        ({"ssl.enabled.protocols": "TLSv1.2,TLSv1.3"}, ["TLSv1.2", "TLSv1.3"]),
        ({"ssl_protocol": "TLSv1.2"}, ["TLSv1.2"]),
        ({"ssl_protocol": "TLSv1.3"}, []),
        ({"ssl_protocol": "TLS"}, []),
        ({"ssl_protocol": "TLSv1.2", "ssl_enabled_protocols": ["TLSv1.3"]}, ["TLSv1.3"]),
    ],
)
def test_versions_may_be_chosen(given, versions):
    assert core(**given)["ssl_enabled_protocols"] == versions


@pytest.mark.parametrize("name", ["ssl_enabled_protocols", "ssl_protocol"])
@pytest.mark.parametrize("version", ["TLSv1", "TLSv1.1", "SSLv3", "tls1.2"])
def test_old_versions_are_refused(name, version):
    text = one_problem("a", **TLS, **{name: version})
    assert text.startswith(f"{name} must be ")
    assert text.endswith("Older versions are not secure")


@pytest.mark.parametrize("name", ["ssl_verify", "enable.ssl.certificate.verification"])
def test_no_verification_warns_each_time(name):
    for _ in range(2):
        with pytest.warns(InsecureConnectionWarning, match="ssl_verify=False"):
            assert core(**{name: "false"})["ssl_verify"] is False


def test_without_verification_the_files_to_verify_with_have_no_effect(tmp_path):
    crl = tmp_path / "crl.pem"
    crl.write_text("")
    with (
        pytest.warns(InsecureConnectionWarning, match="ssl_verify=False"),
        pytest.warns(IgnoredOptionWarning, match="ssl_cafile, ssl_crlfile: without effect"),
    ):
        core(ssl_verify=False, ssl_cafile=str(tmp_path), ssl_crlfile=str(crl))


def test_a_name_that_is_not_checked_warns_unless_the_authority_is_the_users(tmp_path, recwarn):
    core(ssl_check_hostname=False, ssl_cafile=str(tmp_path))
    assert not recwarn.list
    with pytest.warns(InsecureConnectionWarning, match="Set ssl_cafile to the authority"):
        core(ssl_check_hostname=False)


def test_the_authorities_may_be_in_a_folder_but_no_other_file(tmp_path):
    assert core(ssl_cafile=tmp_path)["ssl_cafile"] == str(tmp_path)
    text = one_problem("a", **TLS, ssl_crlfile=str(tmp_path))
    assert text.endswith("it is a directory")


def test_librdkafkas_word_for_the_systems_authorities():
    assert core(**{"ssl.ca.location": "probe"})["ssl_cafile"] is None


@pytest.mark.parametrize(
    "name",
    [
        *("ssl.provider", "ssl.engine.factory.class", "ssl.keymanager.algorithm"),
        *("ssl.trustmanager.algorithm", "ssl.secure.random.implementation"),
        *("ssl.engine.location", "ssl.engine.id", "ssl.providers", "ssl.ca.certificate.stores"),
    ],
)
def test_options_of_other_tls_libraries_are_ignored_with_a_warning(name):
    with pytest.warns(IgnoredOptionWarning, match=name.replace(".", "_")) as caught:
        core(**{name: "x"})
    assert len(caught) == 1


def test_signature_algorithms_cannot_be_chosen():
    text = one_problem("a", **TLS, **{"ssl.sigalgs.list": "ecdsa_secp256r1_sha256"})
    assert text.startswith("ssl_sigalgs_list is refused: ")
