"""Checks the options of a client and completes them, or raises one error with all problems.

    **configs, from_config({...}) ──> names ──> values ──> rules ──> Config ──> core()
                                        └─────────┴─────────┴──> KafkaConfigurationError

It accepts kafka-python's keywords, Kafka's dotted names, and librdkafka's names if they have the
same meaning. `_config/` has the table of options (`options.py`), and what checks each value
(`coerce.py`) and all of them together (`rules.py`). Secrets never appear in a message, repr or
warning, and no variable of a frame holds one while something can fail (`concealment.py`).
"""

import itertools
import sys
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from thalweg._config.aws_rules import aws_logins
from thalweg._config.broker_version import ApiVersions, inferred
from thalweg._config.canonical import canonical
from thalweg._config.coerce import coerce, duration_ms, native_partitioner, server_pair
from thalweg._config.concealment import concealed, hide, is_veiled, names_of
from thalweg._config.findings import (
    Findings,
    IgnoredOptionWarning,
    InsecureConnectionWarning,
)
from thalweg._config.formats.pem import is_text
from thalweg._config.oidc import oidc_tokens
from thalweg._config.options import CLIENTS, ROWS, Option
from thalweg._config.providers import substituted
from thalweg._config.rules import apply_rules
from thalweg._config.secret import Secret, revealed
from thalweg._config.suggestions import did_you_mean
from thalweg.errors import IllegalStateError, KafkaConfigurationError

if TYPE_CHECKING:
    from thalweg._config.option_types import DriverConfig

__all__ = [
    "Config",
    "IgnoredOptionWarning",
    "InsecureConnectionWarning",
    "Option",
    "configured",
    "options_of",
    "resolve",
    "unknown_option",
]

Client: TypeAlias = Literal["p", "c", "a"]
Checks: TypeAlias = Mapping[str, Callable[[Any], object]]
_MASK: Final = "<hidden>"
# Passwords that a function may supply.
_PASSWORDS: Final = (
    "sasl_plain_password",
    "ssl_password",
    "ssl_keystore_password",
    "ssl_truststore_password",
)
_KINDS: Final = {"p": "producer", "c": "consumer", "a": "admin"}
_numbers: Final = {client: itertools.count(1) for client in _KINDS}


class Config(dict[str, Any]):
    """All options of a client under their canonical names. Its repr hides secrets.

    Attributes:
        client: The kind of client: p (producer), c (consumer) or a (admin client).
        explicit: The names of the options that the user gave.
    """

    def __init__(
        self,
        client: Client,
        values: Mapping[str, Any],
        explicit: Iterable[str],
        veiled: Iterable[str] = (),
    ) -> None:
        super().__init__(values)
        self.client = client
        self.explicit = frozenset(explicit)
        self._veiled = frozenset(veiled)  # not secret as such, but given as a Secret
        self._owner: Callable[[], Any] = lambda: None
        self._asked_by: Callable[[Any], ApiVersions] = lambda owner: {}

    def opened(self, owner: Any, asked_by: Callable[[Any], ApiVersions]) -> None:
        """Makes `config["api_version"]` the brokers' version, unless the user gave one.

        Args:
            owner: The opened client. The reference is weak, because the native core may hold the
                options.
            asked_by: Takes the client and asks a broker for its API versions. It is called at the
                first read of the option, so only an application that reads it waits.
        """
        if self["api_version"] is None:
            del self["api_version"]
            self._owner, self._asked_by = weakref.ref(owner), asked_by

    def __missing__(self, name: str) -> Any:
        owner = self._owner()
        if name != "api_version" or owner is None:
            raise KeyError(name)
        self[name] = inferred(self._asked_by(owner))
        return self[name]

    def __repr__(self) -> str:
        return repr(self.public())

    def public(self) -> dict[str, Any]:
        """Returns a copy without secrets, for logs, interceptors and users."""
        rows = options_of(self.client)
        return {
            name: _MASK if self._hides(rows.get(name), name, value) else value
            for name, value in self.items()
        }

    def _hides(self, row: Option | None, name: str, value: Any) -> bool:
        return name in self._veiled or (row is not None and _is_hidden(row, value))

    def name_client(self) -> None:
        """Gives the client a numbered `client_id`, unless the user gave one."""
        if self["client_id"] is None:
            number = next(_numbers[self.client])
            self["client_id"] = f"thalweg-{_KINDS[self.client]}-{number}"

    @property
    def asks_for_names(self) -> bool:
        """Whether `core` asks the name service."""
        return bool(self["client_dns_lookup"] == "resolve_canonical_bootstrap_servers_only")

    @property
    def takes_time(self) -> bool:
        """Whether `core` may block: it asks the name service, or imports botocore."""
        return self.asks_for_names or bool(self["sasl_mechanism"] == "AWS_MSK_IAM")

    def core(self, loop: Any = None) -> dict[str, Any]:
        """Returns the options for the native core: the keys of the `Core*Config` TypedDicts.

        Args:
            loop: The event loop of an asyncio client, in which an async token provider runs.
        """
        values = _CoreOptions(
            (name, self[name])
            for name, row in options_of(self.client).items()
            if row.core and name in self
        )
        servers = [server_pair(each) for each in self["bootstrap_servers"]]
        values["bootstrap_servers"] = canonical(servers) if self.asks_for_names else servers
        for name in ("connections_max_idle_ms", "receive_buffer_bytes", "send_buffer_bytes"):
            values[name] = None if self[name] in (None, -1) else self[name]
        values["sasl_oauth_token_provider"] = self._token_source(loop)
        values["sasl_aws_credentials"] = aws_logins(self)
        # Only a context that remembers its certificate also gives this option.
        context = self["ssl_context"] is not None
        values["ssl_context"] = context and self["ssl_certfile"] is None
        for name in _PASSWORDS:
            if callable(self[name]):
                from thalweg.auth.password import PasswordSource

                values[name] = PasswordSource(self[name], name)
        if self.client == "p":
            values["partitioner"] = native_partitioner(self["partitioner"])
        if self.client == "c":
            kind, _, duration = self["auto_offset_reset"].partition(":")
            values["auto_offset_reset"] = kind
            values["auto_offset_reset_by_duration_ms"] = duration_ms(duration) if duration else None
        return values

    def driver(self) -> "DriverConfig":
        """Returns the options of a consumer as the driver of its group reads them."""
        return cast("DriverConfig", self)

    def set_credentials(self, username: str, password: Any, client: Any) -> None:
        """Changes the user name and the password of PLAIN and SCRAM.

        Args:
            username: The user name.
            password: The password, a Secret of any type.
            client: The native client, or None if it is not open yet.

        Raises:
            TypeError: If one of them is not a str.
            ValueError: If the mechanism cannot send a NUL character that one of them contains.
            IllegalStateError: If the client does not log in with PLAIN or SCRAM.
        """
        mechanism = self["sasl_mechanism"]
        if mechanism not in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            raise IllegalStateError(
                "set_sasl_credentials needs a client with sasl_mechanism PLAIN, SCRAM-SHA-256 or"
                f" SCRAM-SHA-512. This client has {mechanism}"
            )
        for name, given in (("username", username), ("password", password.reveal())):
            kind, has_nul = type(given).__name__, isinstance(given, str) and "\0" in given
            del given  # no frame of an error has it
            if kind != "str":
                raise TypeError(f"{name} must be a str, not {kind}")
            if has_nul and (mechanism == "PLAIN" or name == "username"):
                raise ValueError(f"{name} must not contain a NUL character")
        if client is not None:
            client.set_sasl_credentials(username, password)
        self.update(sasl_plain_username=username, sasl_plain_password=password)

    def _token_source(self, loop: Any) -> Any:
        """Returns what supplies the core with tokens, or None for other mechanisms."""
        if self["sasl_mechanism"] != "OAUTHBEARER":
            return None
        from thalweg.auth.provider import TokenSource

        provider, config = self["sasl_oauth_token_provider"], self["sasl_oauthbearer_config"]
        if self["enable_sasl_oauthbearer_unsecure_jwt"]:
            from thalweg.auth.unsecured import UnsecuredTokens

            provider = UnsecuredTokens(revealed(config))
        elif provider is None:
            provider = oidc_tokens(self)
        return TokenSource(provider, revealed(config), loop)


class _CoreOptions(dict[str, Any]):
    """A dict that a traceback shows without its values, which may be veiled."""

    def __repr__(self) -> str:
        return f"<{len(self)} options for the native core>"


def _is_hidden(row: Option, value: Any) -> bool:
    if row.kind == "url":
        return isinstance(value, Secret)
    if row.kind == "pem":
        return isinstance(value, Secret) or (isinstance(value, str) and is_text(value))
    return row.secret and value is not None


@lru_cache(maxsize=3)
def options_of(client: Client) -> dict[str, Option]:
    """Returns the rows of one client by canonical name, in the order of the table."""
    return {row.name: row for row in ROWS if client in row.clients}


@lru_cache(maxsize=3)
def _names(client: Client) -> dict[str, Option]:
    """Returns every name that an option of this client has, with its row."""
    found: dict[str, Option] = {}
    for row in options_of(client).values():
        found.update(dict.fromkeys(names_of(row), row))
    return found


def option_name(client: Client, name: str) -> str:
    """Returns the canonical name of an option that has several. An unknown name stays."""
    row = _names(client).get(name)
    return name if row is None else row.name


def unknown_option(client: Client, name: str) -> str | None:
    """Returns why a name is not an option of a client, with the nearest name. None if it is."""
    return None if name in _names(client) else _unknown(client, name)


def _unknown(client: Client, name: str) -> str:
    known = _names(client)
    for other in CLIENTS:
        if other != client and name in _names(other):
            return f"{name!r} is an option of {CLIENTS[other]}, not of {CLIENTS[client]}"
    dotted = "." in name
    candidates = (each for each in known if ("." in each) == dotted or "_" not in each)
    return f"unknown option {name!r}{did_you_mean(name, candidates)}"


def _spelt_out(given: Mapping[str, Any], found: Findings) -> Iterator[tuple[str, str, Any]]:
    """Yields the options, and with an ssl.SSLContext also those that mean the same.

    Each is (its name, the name of the option that the user gave, its value).
    """
    for name, value in given.items():
        yield name, name, value
        if name == "ssl_context" and value is not None:
            # Without this module there is no context, and it takes long to import.
            if "ssl" not in sys.modules or not isinstance(value, sys.modules["ssl"].SSLContext):
                found.problem(f"ssl_context must be an ssl.SSLContext, not {type(value).__name__}")
                continue
            from thalweg._config.ssl_context import read_context

            options, problems = read_context(value)
            for each in problems:
                found.problem(f"ssl_context {each}")
            for option, meant in options.items():
                yield option, name, meant


def _read_names(client: Client, given: Mapping[str, Any], found: Findings) -> dict[str, Any]:
    """Returns the given values by canonical name.

    An unknown name is a problem, and so are two names of one option with different values.
    """
    known = _names(client)
    values: dict[str, Any] = {}
    spelt: dict[str, str] = {}
    for name, source, value in _spelt_out(given, found):
        row = known.get(name)
        value = hide(row, value)
        if row is None:
            found.problem(_unknown(client, name))
        elif value is None and row.name == "bootstrap_servers":
            # Most likely a variable that is not set. It should not mean localhost.
            found.problem(f"{name} is None: set it to 'host:port', or omit it for localhost:9092")
        elif value is None and row.name == "enable_auto_commit":
            values[row.name], spelt[row.name] = False, source  # as in kafka-python
        elif value is None and not row.nullable and row.kind != "reset":
            continue  # ignored, for values such as os.environ.get(...)
        elif row.name in values and revealed(values[row.name]) != revealed(value):
            names = f"{spelt[row.name]!r} and {source!r}"
            if "ssl_context" in (spelt[row.name], source):
                found.problem(f"{names} give {row.name} different values: set only one of them")
            else:
                found.problem(
                    f"{names} are names of the same option, with different values: set only one of"
                    " them"
                )
        else:
            values[row.name], spelt[row.name] = value, source
    return values


def _warn_of(row: Option, value: Any, ignored: str | None, found: Findings) -> None:
    """Adds the problem or warning of a single option. `value` is the coerced value."""
    if row.refused is not None and value is not None:
        found.problem(f"{row.name} is refused: {row.refused}")
        found.named.add(row.name)
    elif row.deprecated is not None:
        found.warn(f"{row.name} is deprecated: {row.deprecated}", DeprecationWarning)
    elif ignored is not None and value is not None and value != coerce(row, row.default):
        found.warn(f"{row.name} is accepted and ignored: {ignored}", IgnoredOptionWarning)
        found.named.add(row.name)


def _pass(check: Callable[[Any], object], value: Any, found: Findings) -> None:
    try:
        check(value)
    except KafkaConfigurationError as wrong:
        for each in wrong.problems:
            found.problem(each)


def resolve(
    client: Client,
    given: Mapping[str, Any],
    called: str | None = None,
    unused: Mapping[str, str] | None = None,
    checks: Checks | None = None,
) -> Config:
    """Checks, coerces and completes the options of one client.

    Args:
        client: "p" for producers, "c" for consumers, "a" for admin clients.
        given: The user's options, under any of their names.
        called: The name of the class, for messages. Default: the synchronous class.
        unused: {option: why it has no effect on that class}.
        checks: {option: a further check of its value}, for options of the layers above.

    Returns:
        All options of that client.

    Raises:
        KafkaConfigurationError: If a name is unknown, a value is wrong, or options contradict each
            other. `problems` has one entry for each of these.
    """
    given = concealed(given)
    found = Findings(called or CLIENTS[client])
    given = substituted(given, _names(client), found)
    read = _read_names(client, given, found)
    values: dict[str, Any] = {}
    rows = options_of(client)
    veiled = {
        name
        for name, value in read.items()
        if is_veiled(rows[name], value)
        or (name in found.substituted and rows[name].kind == "token_provider")
    }
    for name in veiled:
        found.veil(read[name].reveal())
    for name, row in rows.items():
        try:
            values[name] = _coerced(row, read.get(name, row.default), name in veiled)
        except ValueError as wrong:
            found.problem(f"{name} {wrong}")
            found.named.add(name)
            values[name] = coerce(row, row.default)
            read.pop(name)
        if name in read:
            ignored = row.ignored if row.is_ignored(client) else (unused or {}).get(name)
            _warn_of(row, values[name], ignored, found)
            if checks and name in checks:
                _pass(checks[name], values[name], found)
    old_timeout = read.get("api_version_auto_timeout_ms")
    if old_timeout is not None and "bootstrap_timeout_ms" not in read:
        row = options_of(client)["bootstrap_timeout_ms"]
        try:
            values["bootstrap_timeout_ms"] = coerce(row, old_timeout)
        except ValueError as wrong:
            found.problem(f"api_version_auto_timeout_ms {wrong}")
    apply_rules(client, values, frozenset(read), found)
    config = Config(client, values, read, _veiled_names(values, veiled))
    values.clear()  # no frame of an error shows a veiled value
    if found.problems:
        raise KafkaConfigurationError(found.message(), problems=found.problems)
    for text, category in found.warnings:
        warnings.warn(text, category, stacklevel=_users_level())
    return config


def _coerced(row: Option, value: Any, veiled: bool) -> Any:
    try:
        return coerce(row, value)
    except ValueError:
        # The error of an import shows parts of the name, which `Findings` does not recognize.
        if not veiled or row.kind not in ("interceptors", "token_provider"):
            raise
    raise ValueError("names something that cannot be imported or used")


def _veiled_names(values: Mapping[str, Any], veiled: Iterable[str]) -> set[str]:
    """Returns the names of the options with veiled values, also those that a rule has copied."""
    texts = {values[name] for name in veiled if isinstance(values[name], str) and values[name]}
    copied = {name for name, each in values.items() if isinstance(each, str) and each in texts}
    return copied.union(veiled)


def configured(
    client: Literal["p", "c"],
    called: str,
    given: Mapping[str, Any],
    unused: Mapping[str, str] | None = None,
    checks: Checks | None = None,
) -> Config:
    """Returns the checked options of a producer or consumer, with a client_id.

    It also calls `configure` of the interceptors.

    Args:
        client: "p" or "c".
        called: The name of the class, for messages.
        given: The user's options.
        unused: {option: why it has no effect on that class}.
        checks: {option: a further check of its value}.

    Raises:
        KafkaConfigurationError: If options are wrong. The error names all problems.
    """
    given = concealed(given)
    config = resolve(client, given, called, unused, checks)
    config.name_client()
    for each in config["interceptor_classes"]:
        if hasattr(each, "configure"):
            each.configure(config.public())
    return config


def _users_level() -> int:
    """Returns the stacklevel, seen from `resolve`, of the first frame outside this package."""
    package = __name__.partition(".")[0]
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None:
        module = frame.f_globals.get("__name__", "")
        if module != package and not module.startswith(package + "."):
            break
        level, frame = level + 1, frame.f_back
    return level
