"""Java's login lines: what they may contain, and errors that quote nothing of them."""

import pytest

from tests.unit.config.problems import problems
from thalweg._config.formats.jaas import read_login
from thalweg.config import resolve

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.mark.parametrize(
    "line, options",
    [
        ('a="b";', {"a": "b"}),
        ("a='b\"c';", {"a": 'b"c'}),
        ('a="b\'c";', {"a": "b'c"}),
        (r'a="b\"c\\d";', {"a": 'b"c\\d'}),
        (r"a='b\'c';", {"a": "b'c"}),
        (r'a="\t\n\101\7\x";', {"a": "\t\nA\x07x"}),
        ('a="//b;/*c*/";', {"a": "//b;/*c*/"}),
        ('a = "b"\n  c=d ;', {"a": "b", "c": "d"}),
        ('// note\n a="b" /* c="d" */;', {"a": "b"}),
        ('a="";', {"a": ""}),
        ("a=b", {"a": "b"}),
        (";", {}),
    ],
)
def test_options_are_read_as_java_reads_them(line, options):
    assert read_login(f"{MODULE} {line}") == ("PlainLoginModule", options)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "hunter2",
        'password="hunter2"',
        f'{MODULE} username="u" password="hunter2',
        f'{MODULE} username="u" password="hun"ter2";',
        f"{MODULE} username='u' password='hunter2\n';",
        f'{MODULE} hunter2="x" ter;',
        f'{MODULE} password="hunter2"; {MODULE} password="hunter2";',
        f'{MODULE} password="hunter2"; hunter2',
        'hunter2 required username="u" password="hunter2";',
    ],
)
def test_a_line_that_is_not_valid_is_refused_without_a_part_of_it(line):
    given = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}
    found = problems("a", **given, sasl_jaas_config=line)
    assert any(each.startswith("sasl_jaas_config ") for each in found)
    assert "hun" not in str(found)
    assert "ter2" not in str(found)


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"sasl_plain_username": "bob"}, ["username"]),
        ({"sasl_plain_password": "pwB"}, ["password"]),
        ({"sasl_plain_password": lambda: "pwA"}, ["password"]),
        ({"sasl_plain_username": "bob", "sasl_plain_password": "pwB"}, ["username", "password"]),
        ({"sasl_plain_username": "alice", "sasl_plain_password": "pwA"}, []),
    ],
)
def test_a_login_line_and_options_must_name_one_account(given, wrong):
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    options = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_jaas_config": f'{module} required username="alice" password="pwA";',
        **given,
    }
    if not wrong:
        assert resolve("p", options)["sasl_plain_username"] == "alice"
        return
    assert problems("p", **options) == [
        f"sasl_jaas_config and sasl_plain_{each} contain different values for {each}: set only one"
        " of them"
        for each in wrong
    ]
