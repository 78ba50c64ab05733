"""The command line: its arguments, output and exit status."""

import io
import json
import logging
import subprocess
import sys
import warnings
from types import SimpleNamespace
from typing import Any

import pytest

import thalweg
from thalweg import cli
from thalweg.cli import consume, produce
from thalweg.cli.options import pairs
from thalweg.errors import SaslAuthenticationFailedError


def test_the_version_is_printed_without_loading_a_client():
    code = (
        "import sys; from thalweg.cli import main\n"
        "try: main(['--version'])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "assert not any(name.startswith('thalweg._core') for name in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == f"thalweg {thalweg.__version__}\n"


def test_python_m_thalweg_is_the_same_command():
    found = subprocess.run(
        [sys.executable, "-m", "thalweg", "--version"], capture_output=True, text=True, check=True
    )
    assert found.stdout == f"thalweg {thalweg.__version__}\n"


def test_without_arguments_it_helps(capsys):
    assert cli.main([]) == 2
    text = capsys.readouterr().out
    for command, about in cli.COMMANDS.items():
        assert command in text
        assert about in text


@pytest.mark.parametrize("command", list(cli.COMMANDS))
def test_every_command_explains_itself(command, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main([command, "--help"])
    assert end.value.code == 0
    assert f"usage: thalweg {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["broker", "--port", "many"],
        ["broker", "extra"],
        ["topics"],
        ["topics", "create"],
        ["produce"],
        ["consume"],
        ["consume", "t", "--count", "x"],
    ],
)
def test_wrong_arguments_end_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    assert end.value.code == 2
    assert "usage: thalweg" in capsys.readouterr().err


def run(monkeypatch: Any, command: str, arguments: list[str]) -> Any:
    """Returns the parsed arguments of a command."""
    seen: list[Any] = []
    module = __import__(f"thalweg.cli.{command}", fromlist=["run"])

    def keep(parsed: Any) -> int:
        seen.append(parsed)
        return 0

    monkeypatch.setattr(module, "run", keep)
    assert cli.main([command, *arguments]) == 0
    return seen[0]


def test_the_brokers_arguments(monkeypatch):
    found = run(monkeypatch, "broker", [])
    assert (found.host, found.port, found.nodes, found.config) == ("127.0.0.1", 9092, 1, [])
    found = run(monkeypatch, "broker", ["--port", "0", "--nodes", "3", "--config", "a.b=c"])
    assert (found.port, found.nodes, found.config) == (0, 3, ["a.b=c"])


def test_the_clients_arguments(monkeypatch):
    found = run(monkeypatch, "consume", ["t", "-b", "h:1", "-X", "fetch.min.bytes=5"])
    from thalweg.cli.options import client_config

    assert client_config(found) == {"bootstrap.servers": "h:1", "fetch.min.bytes": "5"}
    found = run(monkeypatch, "produce", ["t", "-K", ":", "-H", "a=b", "-p", "3"])
    assert (found.key_separator, found.header, found.partition) == (":", ["a=b"], 3)
    found = run(monkeypatch, "topics", ["create", "a", "b", "--partitions", "3"])
    assert (found.action, found.names, found.partitions) == ("create", ["a", "b"], 3)


@pytest.mark.parametrize(
    "given",
    [
        ["topics", "-b", "h:1", "-X", "retries=5", "list"],
        ["topics", "list", "-b", "h:1", "-X", "retries=5"],
        ["topics", "-X", "retries=5", "list", "--bootstrap=h:1"],
        ["-b", "h:1", "topics", "-X", "retries=5", "list"],
        ["--bootstrap=h:1", "topics", "list", "-X", "retries=5"],
        ["-b", "far:2", "topics", "list", "-b", "h:1", "-X", "retries=5"],
        ["-b", "broker", "topics", "list", "-b", "h:1", "-X", "retries=5"],
    ],
)
def test_the_brokers_may_be_named_before_and_after_the_action(monkeypatch, given):
    from thalweg.cli import topics
    from thalweg.cli.options import client_config

    seen: list[Any] = []

    def keep(parsed: Any) -> int:
        seen.append(client_config(parsed))
        return 0

    monkeypatch.setattr(topics, "run", keep)
    assert cli.main(given) == 0
    assert seen == [{"bootstrap.servers": "h:1", "retries": "5"}]


@pytest.mark.parametrize("host", list(cli.COMMANDS))
@pytest.mark.parametrize("option", [["-b"], ["--bootstrap"]])
def test_a_host_may_have_the_name_of_a_command(monkeypatch, host, option):
    from thalweg.cli import consume

    seen: list[Any] = []

    def keep(parsed: Any) -> int:
        seen.append(parsed.bootstrap)
        return 0

    monkeypatch.setattr(consume, "run", keep)
    assert cli.main([*option, host, "consume", "t"]) == 0
    assert seen == [host]


@pytest.mark.parametrize("arguments", [["-b"], ["-b", "consume"], ["--bootstrap", "broker"]])
def test_a_host_alone_is_no_command(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    assert end.value.code == 2
    assert "usage: thalweg" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, problem",
    [
        (["--port", "70000"], "port must be from 0 to 65535, got 70000"),
        (["--port", "-1"], "port must be from 0 to 65535, got -1"),
        (["--nodes", "100000000000"], "nodes must be from 1 to 65535, got 100000000000"),
        (["--users", "/nowhere"], "--users cannot read /nowhere: No such file or directory"),
        (
            ["--security-protocol", "SASL_SSL"],
            "--security-protocol SASL_SSL needs --users FILE, because no client could log in"
            " without users",
        ),
        (
            ["--sasl-mechanism", "PLAIN"],
            "sasl_mechanisms has no effect with security_protocol='PLAINTEXT': set"
            " security_protocol to 'SASL_PLAINTEXT' or 'SASL_SSL'",
        ),
    ],
)
def test_a_broker_that_cannot_be_is_refused_in_words(arguments, problem, capsys):
    assert cli.main(["broker", *arguments]) == 1
    assert capsys.readouterr().err == f"thalweg broker: {problem}\n"


def test_a_file_of_users_is_read_and_its_passwords_are_not_shown(tmp_path, capsys):
    from thalweg.cli.broker import _users

    file = tmp_path / "users"
    file.write_text("# comment\n\nalice:s3:cret\nbob:x\n")
    assert _users(str(file)) == {"alice": "s3:cret", "bob": "x"}
    file.write_text("alice:x\ns3cret\n")
    arguments = ["broker", "--security-protocol", "SASL_PLAINTEXT", "--users", str(file)]
    assert cli.main(arguments) == 1
    error = capsys.readouterr().err
    assert error == f"thalweg broker: --users: line 2 of {file} is not name:password\n"


def test_without_a_word_of_it_the_brokers_are_local(monkeypatch):
    found = run(monkeypatch, "topics", ["list"])
    assert found.bootstrap == "localhost:9092"


def test_options_before_and_after_the_action_add_up(monkeypatch):
    from thalweg.cli.options import client_config

    found = run(monkeypatch, "topics", ["-X", "a=1", "list", "-X", "b=2"])
    assert client_config(found) == {"bootstrap.servers": "localhost:9092", "a": "1", "b": "2"}


def test_a_command_without_brokers_takes_none(capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["-b", "h:1", "broker"])
    assert end.value.code == 2
    assert "does not take --bootstrap" in capsys.readouterr().err


@pytest.mark.parametrize("command", list(cli.COMMANDS))
def test_a_commands_help_keeps_its_names(command, capsys):
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    about = cli.COMMANDS[command]
    assert about[1:] in " ".join(capsys.readouterr().out.split())


def test_what_the_clients_warn_of_is_on_stderr(monkeypatch, capsys):
    from thalweg.cli import topics

    log = logging.getLogger("thalweg.network")

    def warn(arguments: Any) -> int:
        log.warning("no brokers available: %s", "h:1")
        log.info("connecting")
        return 0

    monkeypatch.setattr(topics, "run", warn)
    assert cli.main(["topics", "list"]) == 0
    log.warning("after its end")
    assert capsys.readouterr().err == "thalweg topics: no brokers available: h:1\n"


@pytest.mark.parametrize("logged", [True, False])
def test_an_error_that_was_logged_is_shown_once(logged, monkeypatch, capsys):
    from thalweg.cli import topics

    refused = "h:1: authentication failed: PLAIN as user 'alice'"

    def refuse(arguments: Any) -> int:
        if logged:
            logging.getLogger("thalweg.network").error("the connection failed: %s", refused)
        raise SaslAuthenticationFailedError(refused)

    monkeypatch.setattr(topics, "run", refuse)
    assert cli.main(["topics", "list"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("thalweg topics: ")
    assert shown.count(refused) == shown.count("\n") == 1


def test_an_error_with_a_text_of_its_own_follows_the_log(monkeypatch, capsys):
    from thalweg.cli import topics

    def fail(arguments: Any) -> int:
        logging.getLogger("thalweg.network").warning("no broker responds on port 1")
        raise ValueError("1")

    monkeypatch.setattr(topics, "run", fail)
    assert cli.main(["topics", "list"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "thalweg topics: no broker responds on port 1",
        "thalweg topics: 1",
    ]


def test_warnings_have_no_path(monkeypatch, capsys):
    def warn(arguments: Any) -> int:
        warnings.warn("x has no effect", UserWarning, stacklevel=1)
        return 0

    monkeypatch.setattr(consume, "run", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert cli.main(["consume", "t"]) == 0
    assert capsys.readouterr().err == "thalweg consume: x has no effect\n"


def test_no_topics_are_no_line(fake, monkeypatch, capsys):
    from thalweg.admin import KafkaAdminClient

    monkeypatch.setattr(KafkaAdminClient, "list_topics", lambda self: [])
    assert cli.main(["topics", "list"]) == 0
    assert capsys.readouterr().out == ""


def test_pairs_do_not_show_a_value():
    with pytest.raises(ValueError, match=r"no '=' after 'sasl\.password'") as caught:
        pairs(["sasl.password:hunter2"], "-X")
    assert "hunter2" not in str(caught.value)


def test_pairs_need_an_equals_sign():
    assert pairs(["a=b", "c=d=e", "f="], "x") == {"a": "b", "c": "d=e", "f": ""}
    for bad in ("a", "=b", ""):
        with pytest.raises(ValueError, match="--config must be NAME=VALUE"):
            pairs([bad], "--config")


@pytest.mark.parametrize(
    "error", [ValueError("x is wrong"), OSError("x is wrong"), OverflowError("x is wrong")]
)
def test_an_error_is_one_line_and_1(monkeypatch, capsys, error):
    def fail(arguments: Any) -> int:
        raise error

    from thalweg.cli import topics

    monkeypatch.setattr(topics, "run", fail)
    assert cli.main(["topics", "list"]) == 1
    assert capsys.readouterr().err == "thalweg topics: x is wrong\n"


@pytest.mark.parametrize("command, stream", [("consume", "stdout"), ("produce", "stdin")])
def test_a_closed_standard_stream_is_one_line_and_2(fake, command, stream, monkeypatch, capsys):
    monkeypatch.setattr(sys, stream, None)
    assert cli.main([command, "t"]) == 2
    name = {"stdout": "output", "stdin": "input"}[stream]
    text = capsys.readouterr().err
    assert text.startswith(f"thalweg {command}: standard {name} is closed: ")
    assert text.count("\n") == 1
    monkeypatch.setattr(sys, "stderr", None)
    assert cli.main([command, "t"]) == 2
    assert capsys.readouterr().out == ""


def test_ctrl_c_is_130(monkeypatch):
    def stop(arguments: Any) -> int:
        raise KeyboardInterrupt

    from thalweg.cli import topics

    monkeypatch.setattr(topics, "run", stop)
    assert cli.main(["topics", "list"]) == 130


def test_bad_client_options_are_named(fake, capsys):
    assert cli.main(["topics", "-X", "nonsense=1", "list"]) == 1
    assert "unknown option 'nonsense'" in capsys.readouterr().err
    assert cli.main(["topics", "-X", "nonsense", "list"]) == 1
    assert "-X (--config) must be NAME=VALUE" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line, separator, null, expected",
    [
        (b"v\n", None, False, (None, b"v")),
        (b"v\r\n", None, False, (None, b"v")),
        (b"v", None, False, (None, b"v")),
        (b"\n", None, True, (None, b"")),
        (b"k:v:w\n", b":", False, (b"k", b"v:w")),
        (b"v\n", b":", False, (None, b"v")),
        (b"k:\n", b":", True, (b"k", None)),
        (b"k:\n", b":", False, (b"k", b"")),
        (b":v\n", b":", False, (b"", b"v")),
    ],
)
def test_lines_become_records(line, separator, null, expected):
    assert list(produce.read_records(io.BytesIO(line), separator, null)) == [expected]


def test_a_record_becomes_json():
    record = SimpleNamespace(
        topic="t",
        partition=1,
        offset=2,
        timestamp=3,
        key=None,
        value="ü".encode(),
        headers=[("h", b"\xff"), ("n", None)],
    )
    assert json.loads(consume.as_json(record)) == {
        "topic": "t",
        "partition": 1,
        "offset": 2,
        "timestamp": 3,
        "key": None,
        "value": "ü",
        "headers": [["h", {"base64": "/w=="}], ["n", None]],
    }


def test_a_broker_whose_port_is_taken_says_so_in_one_line(fake, monkeypatch, capsys):
    def taken(self: Any) -> None:
        raise OSError(98, "127.0.0.1:9092 is taken")

    monkeypatch.setattr(fake.broker.EmbeddedBroker, "start", taken)
    assert cli.main(["broker"]) == 1
    assert capsys.readouterr().err == "thalweg broker: 127.0.0.1:9092 is taken\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["-X", "sasl.password=hunter2", "topics", "list"],
        ["-X", "sasl.password=it's hunter2", "topics", "list"],
        ["topics", "list", "sasl.password=hunter2 with blanks"],
        ["topics", "list", "-X", "a=b", "sasl.password=hunter2"],
    ],
)
def test_wrong_arguments_do_not_show_a_value(arguments, capsys):
    with pytest.raises(SystemExit):
        cli.main(arguments)
    shown = capsys.readouterr().err
    assert "hunter2" not in shown
    assert "sasl.password=..." in shown
