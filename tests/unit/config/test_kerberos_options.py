"""Rules of the options for GSSAPI (Kerberos)."""

import pytest

from tests.unit.config.problems import one_problem, problems
from thalweg.config import IgnoredOptionWarning, resolve

KERBEROS = {"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"}
MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
KEYTAB = 'useKeyTab=true storeKey=true keyTab="/etc/a.keytab" principal="alice@EXAMPLE.COM"'


def test_a_ticket_cache_needs_no_option():
    found = resolve("a", {**KERBEROS, "security_protocol": "SASL_PLAINTEXT"}).core()
    assert found["sasl_kerberos_service_name"] == "kafka"
    for name in ("domain_name", "keytab", "name", "principal"):
        assert found[f"sasl_kerberos_{name}"] is None


def test_librdkafkas_names_work():
    given = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "gssapi",
        "sasl.kerberos.service.name": "brokers",
        "sasl.kerberos.principal": "alice@EXAMPLE.COM",
        "sasl.kerberos.keytab": "/etc/a.keytab",
    }
    found = resolve("p", given).core()
    assert found["sasl_mechanism"] == "GSSAPI"
    assert found["sasl_kerberos_service_name"] == "brokers"
    assert found["sasl_kerberos_principal"] == "alice@EXAMPLE.COM"
    assert found["sasl_kerberos_keytab"] == "/etc/a.keytab"


def test_a_name_of_the_package_gssapi_is_its_text():
    kind = type("Name", (), {"__module__": "gssapi.names", "__str__": lambda self: "kafka@b1"})
    found = resolve("c", {**KERBEROS, "sasl_kerberos_name": kind()})
    assert found.core()["sasl_kerberos_name"] == "kafka@b1"
    text = one_problem("c", **KERBEROS, sasl_kerberos_name=object())
    assert text == "sasl_kerberos_name must be a str, not object"


def test_a_command_is_never_run():
    text = one_problem("a", **KERBEROS, **{"sasl.kerberos.kinit.cmd": "/usr/bin/kinit"})
    assert text.startswith("sasl_kerberos_kinit_cmd is refused: the client never runs a command")
    assert "sasl_kerberos_keytab" in text


@pytest.mark.parametrize(
    "name, value",
    [
        ("sasl.kerberos.min.time.before.relogin", 1000),
        ("sasl.kerberos.ticket.renew.window.factor", 0.5),
        ("sasl.kerberos.ticket.renew.jitter", 0.1),
    ],
)
def test_the_library_decides_about_new_tickets(name, value):
    with pytest.warns(IgnoredOptionWarning, match="the Kerberos library decides"):
        resolve("a", {**KERBEROS, name: value})


def test_names_that_cannot_be_are_refused():
    text = one_problem("a", **KERBEROS, sasl_kerberos_service_name="")
    assert text.startswith("sasl_kerberos_service_name must not be empty")
    assert len(problems("a", **KERBEROS, sasl_kerberos_name="a\0", sasl_kerberos_keytab="")) == 2


def test_a_complete_name_replaces_its_parts():
    given = {"sasl_kerberos_name": "kafka/b1@R", "sasl_kerberos_domain_name": "b2"}
    with pytest.warns(IgnoredOptionWarning, match="sasl_kerberos_domain_name: without effect"):
        resolve("a", {**KERBEROS, **given})


def test_options_of_other_mechanisms_warn():
    with pytest.warns(IgnoredOptionWarning, match="sasl_plain_username: .*'GSSAPI'"):
        resolve("a", {**KERBEROS, "sasl_plain_username": "u"})
    plain = {**KERBEROS, "sasl_mechanism": "PLAIN"}
    login = {"sasl_plain_username": "u", "sasl_plain_password": "p"}
    with pytest.warns(IgnoredOptionWarning, match="sasl_kerberos_keytab: .*'PLAIN'"):
        resolve("a", {**plain, **login, "sasl_kerberos_keytab": "/etc/a.keytab"})


def test_javas_login_line_gives_keytab_principal_and_service():
    given = {**KERBEROS, "sasl.jaas.config": f'{MODULE} {KEYTAB} serviceName="brokers";'}
    found = resolve("a", given)
    assert found["sasl_kerberos_keytab"] == "/etc/a.keytab"
    assert found["sasl_kerberos_principal"] == "alice@EXAMPLE.COM"
    assert found["sasl_kerberos_service_name"] == "brokers"
    explicit = {"sasl_kerberos_principal": "bob", "sasl_kerberos_service_name": "kafka"}
    found = resolve("a", {**given, **explicit})
    assert found["sasl_kerberos_principal"] == "bob"
    assert found["sasl_kerberos_service_name"] == "kafka"


def test_javas_login_line_may_use_the_ticket_cache():
    line = f"{MODULE} useTicketCache=true renewTGT=true doNotPrompt=true debug=false;"
    found = resolve("a", {**KERBEROS, "sasl.jaas.config": line})
    assert found["sasl_kerberos_keytab"] is None


@pytest.mark.parametrize(
    "entries, words",
    [
        ("", "must have useKeyTab=true or useTicketCache=true"),
        ("useTicketCache=false", "cannot ask for a password"),
        ("useKeyTab=true", "must also have keyTab"),
        ('keyTab="/etc/a.keytab" useTicketCache=true', "must also have useKeyTab=true"),
        ('useTicketCache=true ticketCache="/tmp/c"', "KRB5CCNAME"),
        ("useTicketCache=true isInitiator=false", "isInitiator"),
        ("useTicketCache=true sealed=true", "sealed, which the client does not support"),
    ],
)
def test_what_javas_login_line_cannot_say_here_is_named(entries, words):
    text = one_problem("a", **KERBEROS, sasl_jaas_config=f"{MODULE} {entries};")
    assert text.startswith("sasl_jaas_config ")
    assert words in text
