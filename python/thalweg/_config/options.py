"""The table of all options of producers, consumers and admin clients.

    ROWS ──> config.py          checks and coerces the user's options
         ──> option_types.py    TypedDicts (tools/generate_config.py)
         ──> docs/configuration.md
         ──> option_help.py     the options in `help()`

A row is an option of the clients in `clients` (p producer, c consumer, a admin client). Its Kafka
name is its name with dots, unless `kafka` has another name (None: Kafka has no such option). Times
are milliseconds, sizes bytes. rules.py has the rules between options.

Topic and broker options are not in the table: admin calls pass them to the brokers unchecked.
"""

from math import inf
from typing import Any, Final, NamedTuple

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
_SAME: Final = "<the name with dots>"


class Option(NamedTuple):
    """One row of the table.

    Attributes:
        name: kafka-python's keyword, or Kafka's name with underscores.
        kind: How values are coerced: a key of `COERCE` in coerce.py.
        default: The default value, after coercion.
        clients: The clients that have the option, as letters of p, c, a.
        doc: A few sentences for the reference page. The first one is the line in `help()`.
        low: The lowest value.
        high: The highest value.
        choices: The allowed values, in canonical spelling.
        kafka: Kafka's dotted name. None: Kafka has no such option.
        aliases: Other names, also dotted names of librdkafka.
        nullable: Whether None is a value with its own meaning.
        core: Whether the native core gets the option.
        secret: Whether the value must never be shown.
        ignored: Why a value has no effect (IgnoredOptionWarning).
        ignored_by: The letters of the clients that ignore it. Empty: all of them.
        deprecated: Why you should not set the option (DeprecationWarning).
        refused: Why a value other than the default is not possible (an error).
        annotation: The type in the generated TypedDict, if the kind does not determine it.
        differs: Why the default is not Kafka's.
    """

    name: str
    kind: str
    default: Any
    clients: str
    doc: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    kafka: str | None = _SAME
    aliases: tuple[str, ...] = ()
    nullable: bool = False
    core: bool = True
    secret: bool = False
    ignored: str | None = None
    ignored_by: str = ""
    deprecated: str | None = None
    refused: str | None = None
    annotation: str | None = None
    differs: str | None = None

    @property
    def dotted(self) -> str | None:
        """Kafka's name of the option."""
        return self.name.replace("_", ".") if self.kafka == _SAME else self.kafka

    @property
    def summary(self) -> str:
        """The first sentence of `doc`, without its period."""
        first, _, _ = self.doc.partition(". ")
        return first.removesuffix(".")

    def is_ignored(self, client: str) -> bool:
        """Whether a client of that letter accepts the option without effect."""
        return self.ignored is not None and (not self.ignored_by or client in self.ignored_by)


def _ms(name: str, default: int | None, clients: str, doc: str, **more: Any) -> Option:
    return Option(
        name=name,
        kind="int",
        default=default,
        clients=clients,
        doc=doc,
        **{"low": 0, "high": INT64_MAX, **more},
    )


_size = _ms  # bytes rather than milliseconds, checked alike


def _text(name: str, clients: str, doc: str, **more: Any) -> Option:
    return Option(
        name=name,
        clients=clients,
        doc=doc,
        **{"kind": "str", "default": None, "nullable": True, **more},
    )


def _pem(name: str, clients: str, doc: str, **more: Any) -> Option:
    """The path of a PEM file, or its text, which is never shown."""
    return _text(name, clients, doc, kind="pem", **more)


def _names(name: str, clients: str, doc: str, **more: Any) -> Option:
    """A list of names."""
    return _text(name, clients, doc, kind="list", annotation="str | Sequence[str] | None", **more)


def _password(name: str, clients: str, doc: str, **more: Any) -> Option:
    """The password of a file, or a function that returns it."""
    kinds = "str | bytes | Secret"
    return _text(
        name,
        clients,
        doc,
        kind="password",
        secret=True,
        annotation=f"{kinds} | Callable[[], {kinds}] | None",
        **more,
    )


def _flag(name: str, default: bool, clients: str, doc: str, **more: Any) -> Option:
    return Option(name=name, kind="bool", default=default, clients=clients, doc=doc, **more)


def _choice(
    name: str, default: str, choices: tuple[str, ...], clients: str, doc: str, **more: Any
) -> Option:
    return Option(
        name=name,
        kind="choice",
        default=default,
        choices=choices,
        clients=clients,
        doc=doc,
        **more,
    )


def _object(name: str, clients: str, doc: str, **more: Any) -> Option:
    return Option(
        name=name,
        kind="object",
        clients=clients,
        doc=doc,
        **{"default": None, "nullable": True, "core": False, **more},
    )


_RUST_IO = "it has no effect, because thalweg's native core reads and writes the sockets"
_METRICS = "the client records all metrics. Read them with metrics()"
_NO_METRICS = "this client has no metrics"
_LIBRARY = "the Kerberos library decides when to get new tickets"
_OPENSSL: Final = "the client does not use OpenSSL"
_JVM = "only a Java virtual machine uses it"
_VALIDATION = "the broker validates tokens, not the client"

_CONNECTION: tuple[Option, ...] = (
    Option(
        name="bootstrap_servers",
        kind="servers",
        default=("localhost:9092",),
        clients="pca",
        doc="Addresses of brokers, as 'host:port,host:port' or a list. Some brokers are enough: the"
        " client gets the addresses of the others from them. Put IPv6 addresses in brackets. The"
        " default port is 9092.",
        aliases=("metadata.broker.list",),
        annotation="str | Sequence[str]",
        differs="Kafka has no default. This is kafka-python's default.",
    ),
    _text(
        "client_id",
        "pca",
        "Name of this client in the brokers' logs, quotas and metrics. None: a numbered name"
        " such as 'thalweg-producer-1'.",
    ),
    _choice(
        "client_dns_lookup",
        "use_all_dns_ips",
        ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        "pca",
        "How the client resolves the names of bootstrap servers."
        " 'resolve_canonical_bootstrap_servers_only' first resolves each name to the host"
        " names of all its addresses (KIP-235). With either value, the client tries all addresses"
        " of a name in turn (KIP-602).",
    ),
    _ms(
        "bootstrap_timeout_ms",
        30000,
        "pca",
        "How long the client tries to reach a bootstrap server. After that the constructor raises"
        " NoBrokersAvailable. With asyncio, start() raises it.",
        kafka=None,
    ),
    _object(
        "api_version_auto_timeout_ms",
        "pca",
        "Name of bootstrap_timeout_ms in kafka-python 2.",
        kafka=None,
        deprecated="use the new name, bootstrap_timeout_ms. If you set only the old one, the client"
        " uses its value",
    ),
    _ms(
        "request_timeout_ms",
        30000,
        "pca",
        "How long a request may take. After that the client closes the connection. Producers and"
        " consumers then send the request again.",
        high=INT32_MAX,
        aliases=("socket.timeout.ms",),
    ),
    _ms(
        "default_api_timeout_ms",
        60000,
        "ca",
        "Timeout of blocking calls to which you give no timeout.",
        high=INT32_MAX,
        core=False,
    ),
    _ms(
        "connections_max_idle_ms",
        540000,
        "pca",
        "How long a connection may be idle. After that the client closes it. It must be longer than"
        " request_timeout_ms. The client treats a value below 1000 as 1000. -1: no limit.",
        low=-1,
        differs="In Kafka's admin client, it is 300000. In thalweg, all clients have the same"
        " default, as in kafka-python.",
    ),
    _ms(
        "reconnect_backoff_ms",
        50,
        "pca",
        "Pause before the client connects to a broker again after a failure. The pause doubles with"
        " each further failure.",
    ),
    _ms(
        "reconnect_backoff_max_ms",
        1000,
        "pca",
        "Longest pause before the client connects again. Jitter subtracts up to 20%. After a failed"
        " authentication, even the first pause has this length, because many user directories,"
        " such as LDAP, lock a user after a few wrong passwords. Each connection has its own"
        " pause, so a client with two connections to a broker may send a wrong password twice per"
        " pause.",
    ),
    _ms(
        "retry_backoff_ms",
        100,
        "pca",
        "Pause before the client retries a request. The pause doubles with each further failure.",
    ),
    _ms("retry_backoff_max_ms", 1000, "pca", "Longest pause before the client retries a request."),
    _ms(
        "socket_connection_setup_timeout_ms",
        10000,
        "pca",
        "How long the setup of a connection may take. This includes handshakes (KIP-601). The"
        " time doubles with each failure in a row.",
    ),
    _ms(
        "socket_connection_setup_timeout_max_ms",
        30000,
        "pca",
        "Longest time for the setup of a connection. socket_connection_setup_timeout_ms doubles"
        " up to this limit.",
    ),
    Option(
        name="max_in_flight_requests_per_connection",
        kind="int",
        default=5,
        low=1,
        high=INT32_MAX,
        clients="pca",
        aliases=("max.in.flight",),
        doc="Maximum number of requests in flight per connection. Idempotence needs 5 or less."
        " Without idempotence, a retry can change the order of records if the value is above 1."
        " Even with 1, a lost connection can change the order, because the broker may write the"
        " old request after the retry.",
        ignored="it limits requests that write records",
        ignored_by="ca",
    ),
    _size(
        "receive_message_max_bytes",
        100_000_000,
        "pca",
        "Maximum size of a response. The client checks the size before it allocates memory. A"
        " consumer needs at least fetch_max_bytes + max_partition_fetch_bytes. If you set less, the"
        " consumer uses this sum and warns.",
        low=1000,
        high=INT32_MAX,
        kafka=None,
    ),
    _size(
        "receive_buffer_bytes",
        None,
        "pca",
        "Size of the socket's receive buffer (SO_RCVBUF). None or -1: the system decides.",
        low=-1,
        high=INT32_MAX,
        nullable=True,
        aliases=("socket.receive.buffer.bytes",),
        differs="The system tunes the size automatically. Java's 32 or 64 KiB limits throughput.",
    ),
    _size(
        "send_buffer_bytes",
        None,
        "pca",
        "Size of the socket's send buffer (SO_SNDBUF). None or -1: the system decides.",
        low=-1,
        high=INT32_MAX,
        nullable=True,
        aliases=("socket.send.buffer.bytes",),
        differs="The system tunes the size automatically. Java's 128 KiB limits throughput.",
    ),
    Option(
        name="socket_options",
        kind="socket_options",
        default=((6, 1, 1),),
        clients="pca",
        kafka=None,
        doc="Socket options, as tuples (level, option, value) for setsockopt. Only the default,"
        " TCP_NODELAY, has an effect.",
        annotation="Sequence[tuple[int, int, int]]",
    ),
)

_METADATA: tuple[Option, ...] = (
    _ms(
        "metadata_max_age_ms",
        300000,
        "pca",
        "Longest time between two refreshes of the client's metadata.",
        aliases=("topic.metadata.refresh.interval.ms",),
    ),
    _ms(
        "metadata_max_idle_ms",
        300000,
        "p",
        "The producer forgets a topic after this time without a send. A later send requests"
        " the topic's metadata again.",
        low=5000,
    ),
    _choice(
        "metadata_recovery_strategy",
        "rebootstrap",
        ("rebootstrap", "none"),
        "pca",
        "What the client does if it can reach no known broker. 'rebootstrap': it starts again from"
        " bootstrap_servers (KIP-899). 'none': it keeps trying the known brokers.",
    ),
    _ms(
        "metadata_recovery_rebootstrap_trigger_ms",
        300000,
        "pca",
        "How long the client waits for metadata. After that it starts again from bootstrap_servers"
        " (KIP-1102). The client treats a value below 1000 as 1000.",
    ),
    _flag(
        "allow_auto_create_topics",
        True,
        "pc",
        "Whether a metadata request may create the topic. The brokers must allow it, too."
        " Kafka's own producer has no such option: its requests may always create topics.",
    ),
    _names(
        "advertised_hosts_allowed",
        "pca",
        "Hosts that brokers may advertise. A list of patterns, or a str with commas, such as"
        " '*.example.com,10.0.*': a * matches any characters. None: any host. The client refuses"
        " to connect to other hosts, except those in bootstrap_servers.",
        kafka=None,
    ),
)

_SECURITY: tuple[Option, ...] = (
    _choice(
        "security_protocol",
        "PLAINTEXT",
        ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "pca",
        "How connections are encrypted and authenticated.",
    ),
    _flag(
        "ssl_verify",
        True,
        "pca",
        "Whether the client verifies the brokers' certificates. False also switches off"
        " ssl_check_hostname. With False, anybody on the network can pretend to be a broker.",
        kafka=None,
        aliases=("enable.ssl.certificate.verification",),
    ),
    _flag(
        "ssl_check_hostname",
        True,
        "pca",
        "Whether the client checks the host name in certificates. If True, a broker's certificate"
        " must contain the host name that the client connects to.",
        kafka=None,
    ),
    _pem(
        "ssl_cafile",
        "pca",
        "File with the certificate authorities to trust, in PEM or PKCS12. Or a folder with PEM"
        " files, or the contents of a PEM file. None, or librdkafka's 'probe': the system's"
        " authorities.",
        kafka="ssl.truststore.certificates",
        aliases=("ssl.ca.location", "ssl.ca.pem"),
    ),
    _pem(
        "ssl_certfile",
        "pca",
        "File with the client's certificate and its chain, in PEM or PKCS12. Or the contents of a"
        " PEM file.",
        kafka="ssl.keystore.certificate.chain",
        aliases=("ssl.certificate.location", "ssl.certificate.pem"),
    ),
    _pem(
        "ssl_keyfile",
        "pca",
        "File with the client's private key, in PEM or PKCS12. Or the contents of a PEM file, which"
        " the client never shows. None: the key is in ssl_certfile.",
        kafka="ssl.keystore.key",
        aliases=("ssl.key.location", "ssl.key.pem"),
    ),
    _password(
        "ssl_password",
        "pca",
        "Password of the private key or of its PKCS12 file. Or a function without arguments that"
        " returns the password. The client calls the function when it reads the file.",
        kafka="ssl.key.password",
    ),
    _pem(
        "ssl_crlfile",
        "pca",
        "PEM file with certificate revocation lists. Or the contents of such a file. The client"
        " refuses expired lists.",
        kafka=None,
        aliases=("ssl.crl.location",),
    ),
    _names(
        "ssl_ciphers",
        "pca",
        "Cipher suites that the client offers, by IANA's or OpenSSL's names. A list, or a str with"
        " colons or commas between the names. None: all nine suites of TLS 1.3 and 1.2 that the"
        " client supports.",
        kafka="ssl.cipher.suites",
    ),
    _names(
        "ssl_enabled_protocols",
        "pca",
        "TLS versions that the client offers: TLSv1.3, TLSv1.2, or both. A list, or a str with"
        " commas between the versions. None: both.",
        differs="None means the same versions as Kafka's default.",
    ),
    _text(
        "ssl_protocol",
        "pca",
        "Java's TLS version. 'TLSv1.2': the client offers only this version, unless you set"
        " ssl_enabled_protocols. 'TLS' and 'TLSv1.3' have no effect.",
        core=False,
        differs="Kafka's default is TLSv1.3, which also allows TLSv1.2.",
    ),
    _names(
        "ssl_curves_list",
        "pca",
        "Curves of the key exchange that the client offers: X25519, P-256, P-384. A list, or a str"
        " with colons or commas between the names. None: all.",
        kafka=None,
    ),
    _object(
        "ssl_sigalgs_list",
        "pca",
        "Signature algorithms that the client offers.",
        kafka=None,
        refused="the client always offers all signature algorithms of its TLS library",
    ),
    _object(
        "ssl_context",
        "pca",
        "An ssl.SSLContext, instead of the other ssl_* options. The client uses the context's"
        " authorities, versions, suites and checks, but cannot read its client certificate. If"
        " thalweg.helpers.create_ssl_context() created the context, the certificate works, too.",
        kafka=None,
        core=True,
    ),
    _ms(
        "ssl_reload_interval_ms",
        60_000,
        "pca",
        "How often the client looks for changed certificates and keys. It looks only when it opens"
        " a connection. 0: never.",
        kafka=None,
    ),
    _text(
        "ssl_keylog_file",
        "pca",
        "File to which the client appends the secrets of TLS sessions. With these secrets, a tool"
        " such as Wireshark can decrypt everything. Use this option only to find errors.",
        kafka=None,
    ),
    _text(
        "ssl_endpoint_identification_algorithm",
        "pca",
        "Kafka's name for ssl_check_hostname. 'https': True. '', or librdkafka's 'none': False."
        " None: ssl_check_hostname decides.",
        core=False,
        differs="Kafka's default is 'https'. ssl_check_hostname=True has the same effect.",
    ),
    _pem(
        "ssl_truststore_location",
        "pca",
        "Kafka's name for ssl_cafile.",
        core=False,
    ),
    _text(
        "ssl_truststore_type",
        "pca",
        "Type of ssl_truststore_location: PEM, PKCS12 or JKS. This option has no effect and causes"
        " no warning: the client detects the type from the contents of the file. The client cannot"
        " read JKS files.",
        core=False,
        differs="Kafka's default is JKS.",
    ),
    _password(
        "ssl_truststore_password",
        "pca",
        "Password of the PKCS12 file in ssl_cafile. Or a function without arguments that returns"
        " the password.",
    ),
    _pem(
        "ssl_keystore_location",
        "pca",
        "Kafka's name for ssl_certfile.",
        core=False,
    ),
    _text(
        "ssl_keystore_type",
        "pca",
        "Type of ssl_keystore_location: PEM, PKCS12 or JKS. This option has no effect and causes no"
        " warning: the client detects the type from the contents of the file. The client cannot"
        " read JKS files.",
        core=False,
        differs="Kafka's default is JKS.",
    ),
    _password(
        "ssl_keystore_password",
        "pca",
        "Password of the PKCS12 file in ssl_certfile. Or a function without arguments that returns"
        " the password. None: ssl_password.",
    ),
    _text(
        "sasl_mechanism",
        "pca",
        "The SASL mechanism, for SASL_PLAINTEXT and SASL_SSL. One of PLAIN, SCRAM-SHA-256,"
        " SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM and GSSAPI (Kerberos). PLAIN sends the password"
        " itself, and OAUTHBEARER sends the token. So use these two only with SASL_SSL.",
        aliases=("sasl.mechanisms",),
        differs="Kafka's default is GSSAPI. With SASL, you must set a mechanism.",
    ),
    _text(
        "sasl_plain_username",
        "pca",
        "User name for PLAIN and SCRAM.",
        kafka=None,
        aliases=("sasl.username",),
    ),
    _text(
        "sasl_plain_password",
        "pca",
        "Password for PLAIN and SCRAM. Or a function without arguments that returns the password."
        " The client calls the function for each authentication.",
        kafka=None,
        aliases=("sasl.password",),
        secret=True,
    ),
    _text(
        "sasl_jaas_config",
        "pca",
        "JAAS configuration of a Java client. See"
        " [what the client reads from it](#jaas-configurations).",
        core=False,
        secret=True,
    ),
    _flag(
        "sasl_scram_tokenauth",
        False,
        "pca",
        "Whether SCRAM logs in with a delegation token (KIP-48). Then set the user name to the ID"
        " of the token, and the password to its HMAC in Base64.",
        kafka=None,
    ),
    Option(
        name="sasl_scram_iterations_max",
        kind="int",
        default=131072,
        clients="pca",
        doc="Maximum number of SCRAM iterations that a broker may request. The client refuses a"
        " broker that requests more, or fewer than 4096. Kafka allows at most 16384.",
        low=4096,
        high=INT32_MAX,
        kafka=None,
    ),
    Option(
        name="sasl_oauth_token_provider",
        kind="token_provider",
        default=None,
        nullable=True,
        clients="pca",
        doc="Provider of the tokens for OAUTHBEARER. It is an object with a method token(), which"
        " may be async, or a function that gets sasl_oauthbearer_config as its argument. You can"
        " also give the name 'module:factory' of a function or class that creates such an object or"
        " function. See [Tokens](#tokens).",
        kafka=None,
        aliases=("oauth_cb",),
        secret=True,
        annotation="Any",
    ),
    _text(
        "sasl_oauthbearer_config",
        "pca",
        "Argument for a function given as sasl_oauth_token_provider. It is a str, or a function"
        " that returns a str. If you set sasl_oauthbearer_metadata_authentication_type, this option"
        " says which token to request. If you set enable_sasl_oauthbearer_unsecure_jwt, write"
        " 'principal=NAME scope=A,B lifeSeconds=3600 extension_NAME=VALUE'.",
        kafka=None,
        core=False,
        secret=True,
    ),
    _flag(
        "enable_sasl_oauthbearer_unsecure_jwt",
        False,
        "pca",
        "Whether to create tokens without a signature. sasl_oauthbearer_config says what the tokens"
        " contain. Brokers accept these tokens only with Kafka's default validator, which is for"
        " tests.",
        kafka=None,
        core=False,
    ),
    Option(
        name="sasl_login_refresh_window_factor",
        kind="float",
        default=0.8,
        low=0.5,
        high=1.0,
        clients="pca",
        doc="When to refresh a token, as a fraction of its lifetime.",
    ),
    Option(
        name="sasl_login_refresh_window_jitter",
        kind="float",
        default=0.05,
        low=0.0,
        high=0.25,
        clients="pca",
        doc="Maximum random delay of each refresh. It is a fraction of the token's lifetime.",
    ),
    _ms(
        "sasl_login_refresh_min_period_seconds",
        60,
        "pca",
        "Shortest time between two refreshes, in seconds. If the lifetime of a token is shorter"
        " than the sum of this option and sasl_login_refresh_buffer_seconds, the client ignores"
        " both.",
        high=900,
    ),
    _ms(
        "sasl_login_refresh_buffer_seconds",
        300,
        "pca",
        "Minimum time from refresh to expiry, in seconds. The client refreshes a token at least"
        " this long before it expires.",
        high=3600,
    ),
)

_KERBEROS: tuple[Option, ...] = (
    _text(
        "sasl_kerberos_service_name",
        "pca",
        "Service name of the brokers. It is the first part of their Kerberos principals, such as"
        " kafka in kafka/broker1.example.com@EXAMPLE.COM. See [Kerberos"
        " on premises](security.md#kerberos-on-premises).",
        default="kafka",
        nullable=False,
        differs="Kafka has none. This is kafka-python's.",
    ),
    _text(
        "sasl_kerberos_domain_name",
        "pca",
        "Host in the Kerberos principal of every broker. None: the host that the client connects"
        " to.",
        kafka=None,
    ),
    Option(
        name="sasl_kerberos_name",
        kind="kerberos_name",
        default=None,
        nullable=True,
        clients="pca",
        doc="Complete Kerberos name of the brokers' service. It replaces"
        " sasl_kerberos_service_name and sasl_kerberos_domain_name. It is a str such as"
        " 'kafka@host', a principal such as 'kafka/host@REALM', or a gssapi.Name of the package"
        " gssapi.",
        kafka=None,
        annotation="Any",
    ),
    _text(
        "sasl_kerberos_principal",
        "pca",
        "Kerberos principal of the client. None: the first one in the keytab, or the principal of"
        " the ticket cache.",
        kafka=None,
        aliases=("sasl.kerberos.principal",),
    ),
    _text(
        "sasl_kerberos_keytab",
        "pca",
        "File with the keys of the client's principal. The client gets tickets with them, and keeps"
        " the tickets in memory. None: the client uses the ticket cache that kinit fills.",
        kafka=None,
        aliases=("sasl.kerberos.keytab",),
    ),
    _object(
        "sasl_kerberos_kinit_cmd",
        "pca",
        "Command that gets new tickets.",
        refused="the client never runs a command from its configuration. Set"
        " sasl_kerberos_keytab, or run kinit outside of the client",
        differs="The client runs no command.",
    ),
    _object(
        "sasl_kerberos_min_time_before_relogin",
        "pca",
        "Minimum time between two logins.",
        default=60000,
        ignored=_LIBRARY,
    ),
    _object(
        "sasl_kerberos_ticket_renew_window_factor",
        "pca",
        "When to get new tickets, as a fraction of their lifetime.",
        default=0.8,
        ignored=_LIBRARY,
    ),
    _object(
        "sasl_kerberos_ticket_renew_jitter",
        "pca",
        "Maximum random delay of new tickets, as a fraction of their lifetime.",
        default=0.05,
        ignored=_LIBRARY,
    ),
)

_OIDC: tuple[Option, ...] = (
    _text(
        "sasl_oauthbearer_token_endpoint_url",
        "pca",
        "URL from which the client requests tokens. It is the token endpoint of an identity"
        " provider (OpenID Connect), or file:/absolute/path of a file that contains the token. See"
        " [OAUTHBEARER/OIDC](security.md#oauthbeareroidc).",
        kind="url",
        core=False,
    ),
    _choice(
        "sasl_oauthbearer_method",
        "auto",
        ("auto", "default", "oidc"),
        "pca",
        "How the client gets tokens (librdkafka's option). 'oidc': from"
        " sasl_oauthbearer_token_endpoint_url. 'default': from sasl_oauth_token_provider. 'auto':"
        " from the one that you set.",
        kafka=None,
        core=False,
    ),
    _text(
        "sasl_oauthbearer_client_credentials_client_id",
        "pca",
        "Client ID at the identity provider.",
        core=False,
        aliases=("sasl.oauthbearer.client.id",),
    ),
    _text(
        "sasl_oauthbearer_client_credentials_client_secret",
        "pca",
        "Secret at the identity provider. Or a function without arguments that returns the secret."
        " The client calls the function for each token request.",
        core=False,
        aliases=("sasl.oauthbearer.client.secret",),
        secret=True,
    ),
    _text(
        "sasl_oauthbearer_scope",
        "pca",
        "Scope of the tokens that the client requests. Write spaces between several scopes.",
        core=False,
    ),
    _text(
        "sasl_oauthbearer_extensions",
        "pca",
        "Extensions for the broker (KIP-342). Write them as 'name=value,name=value'.",
        kafka=None,
        core=False,
    ),
    _flag(
        "sasl_oauthbearer_header_urlencode",
        False,
        "pca",
        "Whether the client URL-encodes its ID and its secret. RFC 6749 requires this in the"
        " Authorization header, but some identity providers expect ID and secret unchanged.",
        core=False,
    ),
    _choice(
        "sasl_oauthbearer_grant_type",
        "client_credentials",
        ("client_credentials", "jwt-bearer", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
        "pca",
        "What the client sends to get a token. 'client_credentials': its secret or an assertion."
        " 'jwt-bearer', or its long name 'urn:ietf:params:oauth:grant-type:jwt-bearer': only an"
        " assertion, without a client ID and secret (KIP-1139). RFC 7523 calls this assertion the"
        " grant.",
        kafka=None,
        core=False,
    ),
    _choice(
        "sasl_oauthbearer_metadata_authentication_type",
        "none",
        ("none", "azure_imds", "aws_iam"),
        "pca",
        "Cloud that issues tokens to its machines. 'azure_imds': Azure. 'aws_iam': AWS. The client"
        " then needs no secret. sasl_oauthbearer_config says which token to request.",
        kafka=None,
        core=False,
    ),
    _text(
        "sasl_oauthbearer_jwt_retriever_class",
        "pca",
        "Name of a Java class. The client accepts DefaultJwtRetriever, JwtBearerJwtRetriever,"
        " ClientCredentialsJwtRetriever and FileJwtRetriever, with or without their package, and"
        " does the same as these classes.",
        core=False,
    ),
    _choice(
        "sasl_oauthbearer_assertion_algorithm",
        "RS256",
        ("RS256", "ES256"),
        "pca",
        "Algorithm with which the client signs assertions. See"
        " [OAUTHBEARER/OIDC](security.md#oauthbeareroidc).",
        core=False,
    ),
    _pem(
        "sasl_oauthbearer_assertion_private_key_file",
        "pca",
        "PEM file with the key that signs assertions. Or the contents of such a file, which the"
        " client never shows.",
        aliases=("sasl.oauthbearer.assertion.private.key.pem",),
        core=False,
    ),
    _text(
        "sasl_oauthbearer_assertion_private_key_passphrase",
        "pca",
        "Passphrase of the signing key. Or a function without arguments that returns the"
        " passphrase. The signing key is sasl_oauthbearer_assertion_private_key_file.",
        core=False,
        secret=True,
    ),
    _text(
        "sasl_oauthbearer_assertion_file",
        "pca",
        "File with a complete assertion. Another program must replace the file before the assertion"
        " expires.",
        core=False,
    ),
    _text(
        "sasl_oauthbearer_assertion_template_file",
        "pca",
        "JSON file with parts of assertions. It has the form"
        ' `{"header": {}, "payload": {}}`. If an option sets the same claim, the option wins.',
        aliases=("sasl.oauthbearer.assertion.jwt.template.file",),
        core=False,
    ),
    _text(
        "sasl_oauthbearer_assertion_claim_aud",
        "pca",
        "Audience of assertions. It is usually the identity provider.",
        core=False,
    ),
    _text(
        "sasl_oauthbearer_assertion_claim_iss",
        "pca",
        "Issuer of assertions. It is usually the client's ID. If you set it, the client logs in"
        " with an assertion instead of a secret.",
        core=False,
    ),
    _text(
        "sasl_oauthbearer_assertion_claim_sub",
        "pca",
        "Subject of assertions.",
        core=False,
    ),
    _ms(
        "sasl_oauthbearer_assertion_claim_exp_seconds",
        300,
        "pca",
        "Lifetime of an assertion, in seconds.",
        low=1,
        high=86400,
        core=False,
    ),
    _ms(
        "sasl_oauthbearer_assertion_claim_nbf_seconds",
        60,
        "pca",
        "Tolerance for clocks that differ, in seconds. An assertion is valid from this many"
        " seconds before the client creates it.",
        high=3600,
        core=False,
    ),
    _flag(
        "sasl_oauthbearer_assertion_claim_jti_include",
        False,
        "pca",
        "Whether each assertion has a unique ID.",
        core=False,
    ),
    _text(
        "sasl_oauthbearer_sub_claim_name",
        "pca",
        "Claim of the token that contains the name of the user. The client shows this name in"
        " errors.",
        default="sub",
        nullable=False,
        core=False,
    ),
    _ms(
        "sasl_login_connect_timeout_ms",
        10000,
        "pca",
        "How long a connection to the token endpoint may take. This includes the TLS handshake.",
        low=1,
        high=60000,
        core=False,
        differs="Kafka has no limit, so a token endpoint that does not respond blocks the client.",
    ),
    _ms(
        "sasl_login_read_timeout_ms",
        10000,
        "pca",
        "How long the token endpoint may take to respond to a request.",
        low=1,
        high=60000,
        core=False,
        differs="Kafka has no limit, so a token endpoint that does not respond blocks the client.",
    ),
    _ms(
        "sasl_login_retry_backoff_ms",
        100,
        "pca",
        "Pause before the client repeats a token request. The pause doubles with each failure.",
        low=1,
        core=False,
    ),
    _ms(
        "sasl_login_retry_backoff_max_ms",
        10000,
        "pca",
        "How long the client repeats a token request that fails. After that it gives up.",
        high=60000,
        core=False,
    ),
    _text(
        "https_ca_location",
        "pca",
        "PEM file with the certificate authorities of the token endpoint. Or a folder that"
        " OpenSSL's c_rehash has prepared. None or 'probe': the system's authorities. ssl_cafile"
        " has no effect on the token endpoint.",
        kafka=None,
        core=False,
    ),
    _pem(
        "https_ca_pem",
        "pca",
        "Certificate authorities of the token endpoint, as a PEM string.",
        kafka=None,
        core=False,
    ),
    _text(
        "sasl_login_callback_handler_class",
        "pca",
        "Name of a Java class. The client accepts only OAuthBearerLoginCallbackHandler: the tokens"
        " then come from sasl_oauthbearer_token_endpoint_url.",
        core=False,
    ),
)

_PROVIDERS: tuple[Option, ...] = (
    _names(
        "config_providers",
        "pca",
        "Config providers: 'env', 'file' and 'dir'. They replace placeholders such as"
        " `${env:NAME}` in the values of options. None: the client replaces no placeholders.",
        core=False,
    ),
    _text(
        "config_providers_env_param_allowlist_pattern",
        "pca",
        "Regular expression of what 'env' may read. It must match the complete name of an"
        " environment variable. The provider 'env' needs this option.",
        core=False,
    ),
    _names(
        "config_providers_file_param_allowed_paths",
        "pca",
        "Absolute paths that 'file' may read. A path is a file or a folder. The provider 'file'"
        " needs this option.",
        core=False,
    ),
    _names(
        "config_providers_dir_param_allowed_paths",
        "pca",
        "Absolute paths that 'dir' may read. A path is a file or a folder. The provider 'dir' needs"
        " this option.",
        core=False,
    ),
    _text(
        "config_providers_env_class",
        "pca",
        "Name of Kafka's class for the provider 'env'. The client accepts only"
        " org.apache.kafka.common.config.provider.EnvVarConfigProvider.",
        core=False,
    ),
    _text(
        "config_providers_file_class",
        "pca",
        "Name of Kafka's class for the provider 'file'. The client accepts only"
        " org.apache.kafka.common.config.provider.FileConfigProvider.",
        core=False,
    ),
    _text(
        "config_providers_dir_class",
        "pca",
        "Name of Kafka's class for the provider 'dir'. The client accepts only"
        " org.apache.kafka.common.config.provider.DirectoryConfigProvider.",
        core=False,
    ),
)

_AWS: tuple[Option, ...] = (
    _text(
        "sasl_aws_region",
        "pca",
        "AWS region for AWS_MSK_IAM. None: the region in the brokers' host names, in the"
        " environment variables AWS_REGION and AWS_DEFAULT_REGION, or in AWS's configuration"
        " files.",
        kafka=None,
        core=False,
    ),
    _text(
        "sasl_aws_profile",
        "pca",
        "Profile in AWS's configuration files. None: AWS's usual sources of credentials.",
        kafka=None,
        core=False,
    ),
    _text(
        "sasl_aws_role_arn",
        "pca",
        "AWS role that the client assumes.",
        kafka=None,
        core=False,
    ),
    _object(
        "sasl_aws_credentials",
        "pca",
        "AWS credentials of the application. They are a thalweg.auth.aws.Credentials, an object"
        " with get_frozen_credentials(), or a function that returns one of these. None: botocore"
        " finds the credentials. See [AWS MSK](security.md#aws-msk).",
        kafka=None,
        core=True,
        secret=True,
    ),
    _text(
        "sasl_client_callback_handler_class",
        "pca",
        "Name of a Java class. The client accepts the name IAMClientCallbackHandler (Amazon MSK)"
        " and ignores it. It refuses every other name.",
        core=False,
    ),
)

_SENDING: tuple[Option, ...] = (
    _object(
        "key_serializer",
        "p",
        "Serializer or function that converts keys to bytes. None: keys are bytes.",
        annotation="Serializer[Any] | Callable[[Any], bytes | None] | None",
        differs="Kafka has none: a Java program must set it.",
    ),
    _object(
        "value_serializer",
        "p",
        "Serializer or function that converts values to bytes. None: values are bytes.",
        annotation="Serializer[Any] | Callable[[Any], bytes | None] | None",
        differs="Kafka has none: a Java program must set it.",
    ),
    Option(
        name="partitioner",
        kind="partitioner",
        default="default",
        clients="p",
        kafka="partitioner.class",
        aliases=("partitioner",),
        doc="What chooses partitions: a name, a Partitioner or a function. 'default': the murmur2"
        " hash of the key. Records without a key go to sticky partitions: they fill a batch of one"
        " partition, then a batch of another (KIP-480, KIP-794). Other names: 'round_robin',"
        " 'consistent_random' (librdkafka's CRC-32 hash), 'murmur2_random'. A function gets (key,"
        " all, available), as in kafka-python 2.",
        annotation="Partitioner | str | Callable[[bytes | None, list[int], list[int]], int]",
        differs="Kafka's default is null, which means the same.",
    ),
    _flag(
        "partitioner_ignore_keys",
        False,
        "p",
        "Whether records with a key go to sticky partitions, too. See partitioner.",
    ),
    _flag(
        "partitioner_adaptive_partitioning_enable",
        True,
        "p",
        "Whether faster brokers get more records. This option applies to records without a key"
        " (KIP-794).",
    ),
    _ms(
        "partitioner_availability_timeout_ms",
        0,
        "p",
        "A broker that accepts no batch for this long is slow. Records without a key then go to"
        " the partitions of other brokers. 0: no broker counts as slow.",
    ),
)

_DELIVERY: tuple[Option, ...] = (
    Option(
        name="acks",
        kind="acks",
        default=-1,
        clients="p",
        aliases=("request.required.acks",),
        doc="Which acknowledgements the producer waits for. 'all' or -1: all in-sync replicas. 1:"
        " the leader. 0: none, and the offset in each result is -1.",
        annotation="Literal[-1, 0, 1, 'all', '-1', '0', '1']",
    ),
    _flag(
        "enable_idempotence",
        True,
        "p",
        "Whether brokers drop the duplicates that retries cause (KIP-98). Idempotence needs"
        " acks=all, retries above 0 and at most 5 requests in flight. If you set one of these"
        " options to another value, the producer warns and switches idempotence off (KIP-679). If"
        " you also set enable_idempotence=True or a transactional_id, the constructor raises an"
        " error.",
    ),
    _ms(
        "delivery_timeout_ms",
        120000,
        "p",
        "Time limit from send() to the record's result. This time includes linger_ms and all"
        " retries. It must be at least linger_ms + request_timeout_ms.",
        high=INT32_MAX,
        aliases=("message.timeout.ms",),
    ),
    Option(
        name="retries",
        kind="count",
        default=INT32_MAX,
        low=0,
        high=INT32_MAX,
        clients="p",
        aliases=("message.send.max.retries",),
        doc="How many times the producer retries a batch. Keep the default, and set"
        " delivery_timeout_ms to limit the retries.",
        annotation="float",
    ),
    _text(
        "transactional_id",
        "p",
        "Makes the producer transactional. After a restart of your program, set the same ID again.",
    ),
    _ms(
        "transaction_timeout_ms",
        60000,
        "p",
        "How long a transaction may be open. After that the coordinator aborts it.",
        low=1,
        high=INT32_MAX,
    ),
)

_BATCHES: tuple[Option, ...] = (
    _size(
        "batch_size",
        16384,
        "p",
        "Maximum size of a batch, after compression. 0: each record has its own batch.",
        high=INT32_MAX,
        aliases=("max_batch_size",),
    ),
    _ms(
        "linger_ms",
        5,
        "p",
        "How long a batch that is not full waits for more records. A batch does not wait if a"
        " thread or task waits for the result of one of its records, as send(...).get() does.",
        aliases=("queue.buffering.max.ms",),
    ),
    Option(
        name="compression_type",
        kind="choice",
        default="none",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        nullable=True,
        clients="p",
        aliases=("compression.codec",),
        doc="Codec for batches. None means 'none'.",
    ),
    Option(
        name="compression_level",
        kind="int",
        default=None,
        nullable=True,
        clients="p",
        kafka=None,
        aliases=("compression.level",),
        doc="Level of the codec (KIP-390). gzip: 1 to 9, lz4: 1 to 17, zstd: -131072 to 22."
        " None: the codec's default.",
    ),
    Option(
        name="compression_gzip_level",
        kind="int",
        default=-1,
        low=-1,
        high=9,
        core=False,
        clients="p",
        kafka="compression.gzip.level",
        doc="Level if compression_type is gzip. -1: gzip's default.",
    ),
    Option(
        name="compression_lz4_level",
        kind="int",
        default=9,
        low=1,
        high=17,
        core=False,
        clients="p",
        kafka="compression.lz4.level",
        doc="Level if compression_type is lz4.",
    ),
    Option(
        name="compression_zstd_level",
        kind="int",
        default=3,
        low=-131072,
        high=22,
        core=False,
        clients="p",
        kafka="compression.zstd.level",
        doc="Level if compression_type is zstd.",
    ),
    _size(
        "max_request_size",
        1048576,
        "p",
        "Maximum size of a request, and therefore of a record. For a larger record, send() raises"
        " RecordTooLargeError.",
        high=INT32_MAX,
        aliases=("message.max.bytes",),
    ),
    _size(
        "buffer_memory",
        33554432,
        "p",
        "Memory for records that the brokers have not acknowledged yet. If it is full, send()"
        " waits for up to max_block_ms, then raises BufferExhaustedError. With compression, up to"
        " a quarter is reserved for compressed batches.",
    ),
    _ms(
        "max_block_ms",
        60000,
        "p",
        "How long send() and partitions_for() may wait for metadata and memory. The calls of"
        " transactions have the same limit.",
    ),
)

_RECORDS: tuple[Option, ...] = (
    _object(
        "key_deserializer",
        "c",
        "Deserializer or function that converts the bytes of keys. None: keys stay bytes.",
        annotation="Deserializer[Any] | Callable[[Any], Any] | None",
        differs="Kafka has none: a Java program must set it.",
    ),
    _object(
        "value_deserializer",
        "c",
        "Deserializer or function that converts the bytes of values. None: values stay bytes.",
        annotation="Deserializer[Any] | Callable[[Any], Any] | None",
        differs="Kafka has none: a Java program must set it.",
    ),
    Option(
        name="max_poll_records",
        kind="int",
        default=500,
        low=1,
        high=INT32_MAX,
        clients="c",
        doc="Maximum number of records that one poll() returns.",
    ),
    _size(
        "poll_arrow_max_bytes",
        4194304,
        "c",
        "Maximum number of bytes that one poll_arrow() returns. Each call can set its own limit.",
        low=1,
        kafka=None,
    ),
    _ms(
        "consumer_timeout_ms",
        None,
        "c",
        "Iteration ends after this time without a record. None or inf: never. The option has no"
        " effect in AIOKafkaConsumer.",
        nullable=True,
        kafka=None,
        annotation="float | None",
    ),
    _choice(
        "isolation_level",
        "read_uncommitted",
        ("read_uncommitted", "read_committed"),
        "c",
        "Whether the consumer returns uncommitted records. read_committed skips the records of"
        " open and aborted transactions (KIP-98).",
    ),
)

_OFFSETS: tuple[Option, ...] = (
    Option(
        name="auto_offset_reset",
        kind="reset",
        default="latest",
        clients="c",
        doc="Where the consumer starts if no offset is committed. It also starts there if the log"
        " does not contain its position. Values: 'earliest', 'latest', 'none' (poll() raises an"
        " error), 'by_duration:PnDTnHnMn.nS' (this long ago, KIP-1106).",
        annotation="str | None",
    ),
    _flag(
        "enable_auto_commit",
        True,
        "c",
        "Whether the consumer commits positions automatically. It commits in poll(), before it"
        " gives up partitions, and in close(). None means False.",
        core=False,
    ),
    _ms(
        "auto_commit_interval_ms",
        5000,
        "c",
        "How often poll() commits positions if enable_auto_commit is True.",
        high=INT32_MAX,
        core=False,
    ),
    _flag(
        "auto_commit_marks",
        False,
        "c",
        "Whether auto-commit commits the records that you marked with mark(). If False, auto-commit"
        " commits the positions.",
        core=False,
    ),
    _object(
        "default_offset_commit_callback",
        "c",
        "Callback of commit_async() and of auto-commit. The client calls it with (offsets,"
        " response or exception) after each commit.",
        kafka=None,
        annotation="Callable[[Any, Any], object] | None",
    ),
)

_GROUP: tuple[Option, ...] = (
    _text(
        "group_id",
        "c",
        "The consumer's group. None: no group, so you cannot commit offsets.",
    ),
    _text("group_instance_id", "c", "Makes this consumer a static member of its group (KIP-345)."),
    _choice(
        "group_protocol",
        "classic",
        ("classic", "consumer"),
        "c",
        "The group protocol: 'consumer' is KIP-848's.",
        core=False,
    ),
    _text(
        "group_remote_assignor",
        "c",
        "The assignor that the broker uses if group_protocol is 'consumer'. Kafka has 'uniform' and"
        " 'range'. None: the broker chooses.",
        core=False,
    ),
    Option(
        name="partition_assignment_strategy",
        kind="list",
        default=("range", "cooperative-sticky"),
        clients="c",
        core=False,
        doc="Assignors in order of preference. They are 'range', 'roundrobin', 'sticky',"
        " 'cooperative-sticky', Java's names for these, or classes or instances of"
        " AbstractPartitionAssignor. Do not set it with group_protocol='consumer', where the broker"
        " decides.",
        annotation="str | Sequence[Any]",
        differs="Kafka has the same two assignors, under the names of their classes.",
    ),
    _ms(
        "session_timeout_ms",
        45000,
        "c",
        "Longest time between two heartbeats. After that the coordinator removes the member. Do not"
        " set it with group_protocol='consumer', where the broker decides.",
        high=INT32_MAX,
        core=False,
    ),
    _ms(
        "heartbeat_interval_ms",
        3000,
        "c",
        "How often a member sends a heartbeat. Must be less than session_timeout_ms. Do not set it"
        " with group_protocol='consumer', where the broker decides.",
        high=INT32_MAX,
        core=False,
    ),
    _ms(
        "max_poll_interval_ms",
        300000,
        "c",
        "Longest time between two polls. After that the consumer leaves its group.",
        low=1,
        high=INT32_MAX,
        core=False,
    ),
    _ms(
        "rebalance_timeout_ms",
        None,
        "c",
        "How long a rebalance waits for this member (aiokafka's option). None:"
        " max_poll_interval_ms, as in Kafka's own clients.",
        low=1,
        high=INT32_MAX,
        nullable=True,
        core=False,
        kafka=None,
    ),
    _flag(
        "block_rebalance_on_poll",
        False,
        "c",
        "Whether a poll that returns records blocks rebalances. The consumer then keeps its"
        " partitions until you call allow_rebalance().",
        core=False,
    ),
    _flag(
        "exclude_internal_topics",
        True,
        "c",
        "Whether patterns skip internal topics such as __consumer_offsets.",
        core=False,
    ),
)

_FETCHES: tuple[Option, ...] = (
    _size(
        "fetch_min_bytes",
        1,
        "c",
        "How many bytes a broker collects before it responds to a fetch. The broker waits for up to"
        " fetch_max_wait_ms.",
        high=INT32_MAX,
    ),
    _ms(
        "fetch_max_wait_ms",
        500,
        "c",
        "How long a broker waits for fetch_min_bytes. After that it responds with what it has.",
        high=INT32_MAX,
        aliases=("fetch.wait.max.ms",),
    ),
    _size(
        "fetch_max_bytes",
        52428800,
        "c",
        "Maximum bytes in a fetch response. If the first batch is larger, the broker sends it"
        " anyway. fetch_buffer_memory can lower this limit.",
        high=INT32_MAX,
    ),
    _size(
        "max_partition_fetch_bytes",
        1048576,
        "c",
        "Maximum bytes of one partition in a fetch response. If the first batch is larger, the"
        " broker sends it anyway.",
        high=INT32_MAX,
        aliases=("fetch.message.max.bytes",),
    ),
    _size(
        "fetch_buffer_memory",
        67108864,
        "c",
        "Memory for fetched records that no poll has returned yet. One batch may exceed this limit."
        " A fetch requests at most a quarter of this memory, or max_partition_fetch_bytes if that"
        " is more.",
        low=1,
        kafka=None,
    ),
    _flag(
        "enable_incremental_fetch_sessions",
        True,
        "c",
        "Whether a fetch names only the partitions that changed. If False, each fetch names all"
        " partitions (KIP-227).",
        kafka=None,
    ),
    _flag("check_crcs", True, "c", "Whether the consumer verifies the checksum of each batch."),
    _text(
        "client_rack",
        "c",
        "The rack of this client. The consumer then reads from replicas in the same rack, if there"
        " are any (KIP-392).",
        default="",
        nullable=False,
    ),
)

_HOOKS: tuple[Option, ...] = (
    Option(
        name="interceptor_classes",
        kind="interceptors",
        default=(),
        clients="pc",
        core=False,
        kafka="interceptor.classes",
        aliases=("interceptors",),
        doc="Interceptors in the order of their calls (KIP-42). They are instances, classes or"
        " dotted names 'package.module.Class'.",
        annotation="str | Sequence[Any]",
    ),
    _flag(
        "metrics_enabled",
        True,
        "pc",
        "Whether the client has metrics. If False, metrics() returns None, and the client calls"
        " neither metric_reporters nor stats_cb.",
        core=False,
        kafka=None,
    ),
    Option(
        name="metric_reporters",
        kind="interceptors",
        default=(),
        clients="pca",
        core=False,
        doc="Metrics reporters: instances, classes or dotted names. See thalweg.metrics.",
        ignored=_NO_METRICS,
        ignored_by="a",
        annotation="str | Sequence[Any]",
        differs="Kafka's default is a reporter for JMX, which needs Java.",
    ),
    _ms(
        "metrics_num_samples",
        2,
        "pca",
        "Number of time windows over which averages and rates are calculated.",
        low=1,
        high=1000,
        ignored=_NO_METRICS,
        ignored_by="a",
    ),
    _ms(
        "metrics_sample_window_ms",
        30000,
        "pca",
        "Length of each of the metrics_num_samples windows.",
        low=1,
        ignored=_NO_METRICS,
        ignored_by="a",
    ),
    _ms(
        "statistics_interval_ms",
        0,
        "pc",
        "How often the client calls stats_cb. 0: never.",
        core=False,
        kafka=None,
    ),
    _object(
        "stats_cb",
        "pc",
        "Function that gets a dict of all metrics every statistics_interval_ms. The callback"
        " thread calls it.",
        kafka=None,
        annotation="Callable[[dict[str, Any]], object] | None",
    ),
)

_WITHOUT_EFFECT: tuple[Option, ...] = (
    _object(
        "api_version",
        "pca",
        "Version of the brokers (kafka-python). To see the version, read"
        ' `client.config["api_version"]`.',
        kafka=None,
        ignored="the client negotiates the versions of each API with each broker",
    ),
    _object(
        "metrics_recording_level",
        "pca",
        "Level of detail of the metrics.",
        default="INFO",
        ignored=_METRICS,
    ),
    _object(
        "metric_group_prefix",
        "ca",
        "Prefix of the names of metric groups.",
        default="consumer",
        kafka=None,
        ignored="metric groups have the names of Kafka's Java clients",
    ),
    _object(
        "enable_metrics_push",
        "pca",
        "Client telemetry (KIP-714).",
        default=False,
        ignored="this version does not send telemetry",
        differs="This version does not send telemetry.",
    ),
    _object("metrics", "a", "A Metrics object.", kafka=None, ignored=_NO_METRICS),
    _object("selector", "pca", "A selectors class.", kafka=None, deprecated=_RUST_IO),
    _object("kafka_client", "pca", "A client class.", kafka=None, deprecated=_RUST_IO),
    _object("net", "pca", "A network class.", kafka=None, deprecated=_RUST_IO),
    _object(
        "wakeup_timeout_ms", "pca", "Timeout of the selector.", kafka=None, deprecated=_RUST_IO
    ),
    _object("sock_chunk_bytes", "pca", "Size of a read.", kafka=None, deprecated=_RUST_IO),
    _object("sock_chunk_buffer_count", "pca", "Number of reads.", kafka=None, deprecated=_RUST_IO),
    _object(
        "bootstrap_topics_filter",
        "p",
        "Topics that the first metadata request omits.",
        kafka=None,
        deprecated="the client requests only the metadata of topics in use",
    ),
    _object(
        "proxy_url",
        "pca",
        "URL of a proxy.",
        kafka=None,
        refused="the client does not support proxies yet. Remove the option",
    ),
    _object(
        "socks5_proxy",
        "pca",
        "URL of a SOCKS5 proxy.",
        kafka=None,
        refused="the client does not support proxies yet. Remove the option",
    ),
    *(
        _object(name, "pca", "Java's validation of tokens.", ignored=_VALIDATION)
        for name in (
            "sasl_oauthbearer_clock_skew_seconds",
            "sasl_oauthbearer_expected_audience",
            "sasl_oauthbearer_expected_issuer",
            "sasl_oauthbearer_jwks_endpoint_refresh_ms",
            "sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms",
            "sasl_oauthbearer_jwks_endpoint_retry_backoff_ms",
            "sasl_oauthbearer_jwks_endpoint_url",
            "sasl_oauthbearer_jwt_validator_class",
            "sasl_oauthbearer_scope_claim_name",
        )
    ),
    _object("security_providers", "pca", "Java's security providers.", ignored=_JVM),
    _object("ssl_provider", "pca", "Java's provider of TLS.", ignored=_JVM),
    _object("sasl_login_class", "pca", "Java class that logs in.", ignored=_JVM),
    _object(
        "ssl_engine_factory_class",
        "pca",
        "Java's class that makes TLS connections.",
        ignored=_JVM,
    ),
    _object(
        "ssl_keymanager_algorithm",
        "pca",
        "Java's algorithm for keys.",
        ignored=_JVM,
        differs="Kafka's default is an algorithm of Java. thalweg uses none.",
    ),
    _object(
        "ssl_trustmanager_algorithm",
        "pca",
        "Java's algorithm for trust.",
        ignored=_JVM,
        differs="Kafka's default is an algorithm of Java. thalweg uses none.",
    ),
    _object(
        "ssl_secure_random_implementation",
        "pca",
        "Java's source of random numbers.",
        ignored=_JVM,
    ),
    *(
        _object(name, "pca", doc, kafka=None, ignored=_OPENSSL)
        for name, doc in (
            ("ssl_engine_location", "Path of OpenSSL's engine."),
            ("ssl_engine_id", "Name of OpenSSL's engine."),
            ("ssl_providers", "OpenSSL's providers."),
        )
    ),
    _object(
        "ssl_ca_certificate_stores",
        "pca",
        "Names of Windows certificate stores.",
        kafka=None,
        ignored="without ssl_cafile the client trusts the authorities of the system",
    ),
)

# The table in the groups in which the reference page and `help()` list it.
GROUPS: Final[tuple[tuple[str, tuple[Option, ...]], ...]] = (
    ("Connections", _CONNECTION),
    ("Metadata", _METADATA),
    ("Security", _SECURITY),
    ("Tokens from an identity provider (OIDC)", _OIDC),
    ("AWS", _AWS),
    ("Kerberos", _KERBEROS),
    ("Values from the environment and files", _PROVIDERS),
    ("Serializers and partitions", _SENDING),
    ("Delivery and transactions", _DELIVERY),
    ("Batches and memory", _BATCHES),
    ("Records", _RECORDS),
    ("Offsets", _OFFSETS),
    ("Consumer group", _GROUP),
    ("Fetches", _FETCHES),
    ("Interceptors and metrics", _HOOKS),
    ("Accepted without effect, or refused", _WITHOUT_EFFECT),
)
ROWS: Final[tuple[Option, ...]] = tuple(row for _, rows in GROUPS for row in rows)

CLIENTS: Final = {"p": "KafkaProducer", "c": "KafkaConsumer", "a": "KafkaAdminClient"}
UNLIMITED: Final = inf
