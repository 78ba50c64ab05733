"""The one table of options of producers, consumers and admin clients.

    ROWS ──> config.py          checks and coerces what the user gave
         ──> _config_types.py   TypedDicts (tools/generate_config.py)
         ──> docs/configuration.md
         ──> _option_help.py    what `help()` lists

A row is an option of the clients whose letters it carries (p producer, c consumer, a admin).
Its Kafka name is its own with dots, unless `kafka` says otherwise (None: Kafka has no such
option). Times are milliseconds, sizes bytes. What no row says, _rules.py says.

What is deliberately absent: topic and broker options, which admin calls pass through.
"""

from math import inf
from typing import Any, Final, NamedTuple

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
_SAME: Final = "<the name with dots>"


class Option(NamedTuple):
    """One row.

    Attributes:
        name: kafka-python's keyword, or Kafka's name with underscores.
        kind: How values are coerced: see _coerce.py's `COERCE`.
        default: After coercion.
        clients: Letters of p, c, a.
        doc: One or two sentences for the reference page.
        low: Least value.
        high: Greatest value.
        choices: Allowed values, in canonical spelling.
        kafka: Kafka's dotted name; None if Kafka has none.
        aliases: Further names, dotted ones of librdkafka among them.
        nullable: Whether None is a value of its own.
        core: Whether the native core is told.
        secret: Whether the value must never be shown.
        ignored: Why a value has no effect (IgnoredOptionWarning).
        ignored_by: Letters of the clients where it has none; empty: everywhere.
        deprecated: Why the option makes no sense here (DeprecationWarning).
        refused: Why a value other than the default cannot be honoured (an error).
        annotation: The type in the generated TypedDict, if the kind does not say it.
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

    def is_ignored(self, client: str) -> bool:
        """Whether a client of that letter takes it without effect."""
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


_RUST_IO = "sockets are driven by thalweg's native core, not by Python"
_METRICS = "metrics are read with metrics(), and all of them are kept"
_NO_METRICS = "this client has no metrics"
_KERBEROS = "GSSAPI is not offered by this version"
_JVM = "it names something of the Java virtual machine"

_CONNECTION: tuple[Option, ...] = (
    Option(
        name="bootstrap_servers",
        kind="servers",
        default=("localhost:9092",),
        clients="pca",
        doc="Brokers to ask for the cluster's metadata first: 'host[:port]', several of them"
        " joined by commas or in a list. IPv6 addresses in brackets. The default port is 9092.",
        aliases=("metadata.broker.list",),
        annotation="str | Sequence[str]",
        differs="Kafka has no default; kafka-python's is localhost.",
    ),
    _text(
        "client_id",
        "pca",
        "A name for this client in the brokers' logs, quotas and metrics. None:"
        " 'thalweg-producer-1' and so on.",
    ),
    _choice(
        "client_dns_lookup",
        "use_all_dns_ips",
        ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        "pca",
        "Whether bootstrap names are first expanded to the names of all their addresses (KIP-235)."
        " All addresses of a name are tried in turn either way (KIP-602).",
    ),
    _ms(
        "bootstrap_timeout_ms",
        30000,
        "pca",
        "How long a constructor tries to reach a bootstrap server before it raises"
        " NoBrokersAvailable.",
        kafka=None,
    ),
    _ms(
        "request_timeout_ms",
        30000,
        "pca",
        "How long one try of a request may take before the connection is given up.",
        high=INT32_MAX,
        aliases=("socket.timeout.ms",),
    ),
    _ms(
        "default_api_timeout_ms",
        60000,
        "ca",
        "Limit of blocking calls that are given no timeout of their own.",
        high=INT32_MAX,
        core=False,
    ),
    _ms(
        "connections_max_idle_ms",
        540000,
        "pca",
        "Idle connections are closed after this time, a second at least; -1: never.",
        low=-1,
        differs="Kafka's admin client has 300000; one value for all clients, as kafka-python.",
    ),
    _ms(
        "reconnect_backoff_ms",
        50,
        "pca",
        "First wait before connecting again to a node that failed; doubles each time.",
    ),
    _ms(
        "reconnect_backoff_max_ms",
        1000,
        "pca",
        "Greatest wait before connecting again; 20% of jitter on top.",
    ),
    _ms("retry_backoff_ms", 100, "pca", "First wait before a request is tried again; doubles."),
    _ms("retry_backoff_max_ms", 1000, "pca", "Greatest wait before a request is tried again."),
    _ms(
        "socket_connection_setup_timeout_ms",
        10000,
        "pca",
        "How long a connection may take to be made, handshakes included (KIP-601); doubles with"
        " each failure in a row.",
    ),
    _ms(
        "socket_connection_setup_timeout_max_ms",
        30000,
        "pca",
        "Upper limit of socket_connection_setup_timeout_ms as it doubles.",
    ),
    Option(
        name="max_in_flight_requests_per_connection",
        kind="int",
        default=5,
        low=1,
        high=INT32_MAX,
        clients="pca",
        aliases=("max.in.flight",),
        doc="Requests sent on one connection before the first is answered; a broker that falls"
        " behind with the batches of several partitions gets a second connection. Above 5 there is"
        " no idempotence; without idempotence, above 1 a retry may reorder records, and at 1 a lost"
        " connection still may: what the broker had of it may be written late.",
        ignored="it limits requests that write records",
        ignored_by="ca",
    ),
    _size(
        "receive_message_max_bytes",
        100_000_000,
        "pca",
        "Largest frame accepted from a broker, checked before memory is taken for it. A consumer"
        " raises it to fetch_max_bytes + max_partition_fetch_bytes; if given, with a warning.",
        low=1000,
        high=INT32_MAX,
        kafka=None,
    ),
    _size(
        "receive_buffer_bytes",
        None,
        "pca",
        "SO_RCVBUF; None or -1: the system's choice.",
        low=-1,
        high=INT32_MAX,
        nullable=True,
        aliases=("socket.receive.buffer.bytes",),
        differs="The system tunes the buffer by itself; Java's 32 or 64 KiB limits throughput.",
    ),
    _size(
        "send_buffer_bytes",
        None,
        "pca",
        "SO_SNDBUF; None or -1: the system's choice.",
        low=-1,
        high=INT32_MAX,
        nullable=True,
        aliases=("socket.send.buffer.bytes",),
        differs="The system tunes the buffer by itself; Java's 128 KiB limits throughput.",
    ),
    Option(
        name="socket_options",
        kind="socket_options",
        default=((6, 1, 1),),
        clients="pca",
        kafka=None,
        doc="(level, option, value) for setsockopt on each connection; the default is TCP_NODELAY.",
        annotation="Sequence[tuple[int, int, int]]",
    ),
    _ms(
        "metadata_max_age_ms",
        300000,
        "pca",
        "Metadata is refreshed at least this often.",
        aliases=("topic.metadata.refresh.interval.ms",),
    ),
    _ms(
        "metadata_max_idle_ms",
        300000,
        "p",
        "A topic that was not sent to for so long is forgotten.",
        low=5000,
    ),
    _choice(
        "metadata_recovery_strategy",
        "rebootstrap",
        ("rebootstrap", "none"),
        "pca",
        "What to do when no known broker can be reached: start anew from bootstrap_servers"
        " (KIP-899), or fail.",
    ),
    _ms(
        "metadata_recovery_rebootstrap_trigger_ms",
        300000,
        "pca",
        "Start anew after so long without metadata (KIP-1102), a second at least.",
    ),
    _flag(
        "allow_auto_create_topics",
        True,
        "pc",
        "Whether asking for a topic's metadata may create it, if the brokers allow that."
        " Kafka's own producer has no such option: it always may.",
    ),
)

_SECURITY: tuple[Option, ...] = (
    _choice(
        "security_protocol",
        "PLAINTEXT",
        ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "pca",
        "Encryption and authentication of connections.",
    ),
    _flag(
        "ssl_check_hostname",
        True,
        "pca",
        "Whether the brokers' certificates must name the host connected to.",
        kafka=None,
    ),
    _pem(
        "ssl_cafile",
        "pca",
        "PEM file of the certificate authorities to trust, or its text; None: the system's.",
        kafka=None,
        aliases=("ssl.ca.location",),
    ),
    _pem(
        "ssl_certfile",
        "pca",
        "PEM file of the client's certificate and its chain, or its text.",
        kafka=None,
        aliases=("ssl.certificate.location",),
    ),
    _pem(
        "ssl_keyfile",
        "pca",
        "PEM file of the client's private key, or its text, which is never shown; None: it is in"
        " ssl_certfile.",
        kafka=None,
        aliases=("ssl.key.location",),
    ),
    _object(
        "ssl_password",
        "pca",
        "Password of the private key.",
        kafka="ssl.key.password",
        secret=True,
        refused="encrypted private keys are not offered by this version; decrypt the key with"
        " openssl pkcs8 -topk8 -nocrypt",
    ),
    _pem(
        "ssl_crlfile",
        "pca",
        "PEM file of certificate revocation lists that have not expired, or its text.",
        kafka=None,
        aliases=("ssl.crl.location",),
    ),
    _object(
        "ssl_ciphers",
        "pca",
        "Names of allowed cipher suites, joined by colons or commas.",
        kafka="ssl.cipher.suites",
        refused="the suites are the TLS library's: those of TLS 1.3, and ECDHE with AEAD of 1.2",
    ),
    _object(
        "ssl_context",
        "pca",
        "What thalweg.aio.helpers.create_ssl_context() gives; an ssl.SSLContext is refused.",
        kafka=None,
        refused="TLS runs in the native core, which cannot use a Python SSLContext; give"
        " ssl_cafile, ssl_certfile, ssl_keyfile, ssl_check_hostname instead",
    ),
    _text(
        "ssl_endpoint_identification_algorithm",
        "pca",
        "Kafka's spelling of ssl_check_hostname: 'https', or '' for no check.",
        core=False,
        differs="None leaves it to ssl_check_hostname, whose default is the same.",
    ),
    _pem(
        "ssl_truststore_location",
        "pca",
        "Kafka's spelling of ssl_cafile; with ssl_truststore_type PEM.",
        core=False,
    ),
    _text(
        "ssl_truststore_type",
        "pca",
        "Type of ssl_truststore_location; only PEM can be read.",
        core=False,
        differs="Java's key stores (JKS) cannot be read without Java.",
    ),
    _text(
        "ssl_truststore_password",
        "pca",
        "Password of a key store.",
        core=False,
        secret=True,
        ignored="PEM files of certificates have no password",
    ),
    _pem(
        "ssl_keystore_location",
        "pca",
        "Kafka's spelling of ssl_certfile; with ssl_keystore_type PEM.",
        core=False,
    ),
    _text(
        "ssl_keystore_type",
        "pca",
        "Type of ssl_keystore_location; only PEM can be read.",
        core=False,
        differs="Java's key stores (JKS) cannot be read without Java.",
    ),
    _text(
        "ssl_keystore_password",
        "pca",
        "Password of a key store.",
        core=False,
        secret=True,
        ignored="a PEM file is no key store, and has no password of its own",
    ),
    _text(
        "sasl_mechanism",
        "pca",
        "How to authenticate under SASL_PLAINTEXT and SASL_SSL: PLAIN.",
        aliases=("sasl.mechanisms",),
        differs="Kafka's is GSSAPI, which needs Kerberos; here the mechanism must be named.",
    ),
    _text(
        "sasl_plain_username",
        "pca",
        "User name for PLAIN.",
        kafka=None,
        aliases=("sasl.username",),
    ),
    _text(
        "sasl_plain_password",
        "pca",
        "Password for PLAIN.",
        kafka=None,
        aliases=("sasl.password",),
        secret=True,
    ),
    _text(
        "sasl_jaas_config",
        "pca",
        "Java's login module line; user name and password are taken from it.",
        core=False,
        secret=True,
    ),
    _object(
        "sasl_oauth_token_provider",
        "pca",
        "Object whose token() gives a bearer token.",
        kafka=None,
        secret=True,
        refused="OAUTHBEARER is not offered by this version",
    ),
    _object("sasl_kerberos_name", "pca", "Kerberos name.", kafka=None, ignored=_KERBEROS),
    _object(
        "sasl_kerberos_service_name",
        "pca",
        "Kerberos service name.",
        default="kafka",
        ignored=_KERBEROS,
        differs="kafka-python's default; without effect.",
    ),
    _object("sasl_kerberos_domain_name", "pca", "Kerberos domain.", kafka=None, ignored=_KERBEROS),
)

_PRODUCER: tuple[Option, ...] = (
    _object(
        "key_serializer",
        "p",
        "Serializer, or callable, that makes bytes of keys. None: keys are bytes already.",
        annotation="Serializer[Any] | Callable[[Any], bytes | None] | None",
        differs="Kafka's must be set.",
    ),
    _object(
        "value_serializer",
        "p",
        "Serializer, or callable, that makes bytes of values. None: values are bytes already.",
        annotation="Serializer[Any] | Callable[[Any], bytes | None] | None",
        differs="Kafka's must be set.",
    ),
    Option(
        name="acks",
        kind="acks",
        default=-1,
        clients="p",
        aliases=("request.required.acks",),
        doc="Whom to wait for: 'all' or -1 (all replicas in sync), 1 (the leader), 0 (nobody:"
        " offsets are then -1).",
        annotation="Literal[-1, 0, 1, 'all', '-1', '0', '1']",
    ),
    _flag(
        "enable_idempotence",
        True,
        "p",
        "Whether brokers drop what a retry sends twice (KIP-98). Needs acks=all, retries and at"
        " most 5 requests in flight: if one of these contradicts it, it is an error when set"
        " explicitly, and else switched off with a warning (KIP-679).",
    ),
    _text(
        "transactional_id",
        "p",
        "Name of this producer across restarts; makes it transactional.",
    ),
    _ms(
        "transaction_timeout_ms",
        60000,
        "p",
        "The coordinator aborts a transaction open for longer.",
        low=1,
        high=INT32_MAX,
    ),
    _ms(
        "delivery_timeout_ms",
        120000,
        "p",
        "Limit from send() to the record's outcome: linger, retries and flight together. At"
        " least linger_ms + request_timeout_ms.",
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
        doc="How often a batch is tried again; usually left alone, as delivery_timeout_ms ends"
        " the retries.",
        annotation="float",
    ),
    Option(
        name="compression_type",
        kind="choice",
        default="none",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        nullable=True,
        clients="p",
        aliases=("compression.codec",),
        doc="Codec of whole batches; None means 'none'.",
    ),
    Option(
        name="compression_level",
        kind="int",
        default=None,
        nullable=True,
        clients="p",
        kafka=None,
        aliases=("compression.level",),
        doc="Level of the codec (KIP-390): gzip 1 to 9, lz4 1 to 17, zstd -131072 to 22. None:"
        " the codec's own default.",
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
        doc="Level used if compression_type is gzip; -1: its default.",
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
        doc="Level used if compression_type is lz4.",
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
        doc="Level used if compression_type is zstd.",
    ),
    _size(
        "batch_size",
        16384,
        "p",
        "Upper bound of a batch after compression; 0 sends each record alone.",
        high=INT32_MAX,
        aliases=("max_batch_size",),
    ),
    _ms(
        "linger_ms",
        5,
        "p",
        "How long a batch that is not full waits for more records. A batch does not linger while a"
        " thread or task waits for one of its records.",
        aliases=("queue.buffering.max.ms",),
    ),
    _size(
        "buffer_memory",
        33554432,
        "p",
        "All memory for records not yet acknowledged. send() waits up to max_block_ms for some"
        " to come free, then raises BufferExhaustedError. With a codec up to a quarter is set aside"
        " for what it makes.",
    ),
    _ms(
        "max_block_ms",
        60000,
        "p",
        "How long send() and partitions_for() may wait, for metadata and memory together.",
    ),
    _size(
        "max_request_size",
        1048576,
        "p",
        "Largest request, and so the largest record (RecordTooLargeError).",
        high=INT32_MAX,
        aliases=("message.max.bytes",),
    ),
    Option(
        name="partitioner",
        kind="partitioner",
        default="default",
        clients="p",
        kafka="partitioner.class",
        aliases=("partitioner",),
        doc="A Partitioner, kafka-python 2.x's callable (key, all, available), or a name:"
        " 'default' (murmur2 of the key, else sticky by load: KIP-480, KIP-794),"
        " 'round_robin', 'consistent_random' (librdkafka's CRC-32), 'murmur2_random'.",
        annotation="Partitioner | str | Callable[[bytes | None, list[int], list[int]], int]",
        differs="null stands for the same in Kafka.",
    ),
    _flag(
        "partitioner_ignore_keys",
        False,
        "p",
        "Whether records with a key go to sticky partitions too.",
    ),
    _flag(
        "partitioner_adaptive_partitioning_enable",
        True,
        "p",
        "Whether faster brokers get more of the records without key (KIP-794).",
    ),
    _ms(
        "partitioner_availability_timeout_ms",
        0,
        "p",
        "A partition whose broker takes nothing for so long is passed over; 0: never.",
    ),
)

_CONSUMER: tuple[Option, ...] = (
    _text("group_id", "c", "The consumer's group; None: no group, and nothing to commit to."),
    _text("group_instance_id", "c", "Makes this a static member of the group (KIP-345)."),
    _text(
        "client_rack",
        "c",
        "Where this client is, for reading from replicas nearby (KIP-392).",
        default="",
        nullable=False,
    ),
    _object(
        "key_deserializer",
        "c",
        "Deserializer, or callable, for keys. None: keys stay bytes.",
        annotation="Deserializer[Any] | Callable[[Any], Any] | None",
        differs="Kafka's must be set.",
    ),
    _object(
        "value_deserializer",
        "c",
        "Deserializer, or callable, for values. None: values stay bytes.",
        annotation="Deserializer[Any] | Callable[[Any], Any] | None",
        differs="Kafka's must be set.",
    ),
    Option(
        name="auto_offset_reset",
        kind="reset",
        default="latest",
        clients="c",
        doc="Where to start without a committed offset, and after one that is out of range:"
        " 'earliest', 'latest', 'none' (raises), or 'by_duration:PnDTnHnMn.nS' (KIP-1106).",
        annotation="str | None",
    ),
    _flag(
        "enable_auto_commit",
        True,
        "c",
        "Whether poll() commits positions by itself; None: False.",
        core=False,
    ),
    _ms(
        "auto_commit_interval_ms",
        5000,
        "c",
        "How often poll() commits positions by itself, with enable_auto_commit.",
        high=INT32_MAX,
        core=False,
    ),
    _flag(
        "auto_commit_marks",
        False,
        "c",
        "Auto-commit commits what mark() has marked, in place of the positions.",
        core=False,
    ),
    _flag(
        "block_rebalance_on_poll",
        False,
        "c",
        "After a poll gave records, no partition goes before allow_rebalance() is called.",
        core=False,
    ),
    _object(
        "default_offset_commit_callback",
        "c",
        "Called as f(offsets, response or exception) after each commit_async() and auto-commit.",
        kafka=None,
        annotation="Callable[[Any, Any], object] | None",
    ),
    _choice(
        "isolation_level",
        "read_uncommitted",
        ("read_uncommitted", "read_committed"),
        "c",
        "Whether records of open and aborted transactions are left out (KIP-98).",
    ),
    _flag("check_crcs", True, "c", "Whether the checksum of each batch is verified."),
    _size(
        "fetch_min_bytes",
        1,
        "c",
        "How many bytes a broker waits for before it answers a fetch, for at most"
        " fetch_max_wait_ms.",
        high=INT32_MAX,
    ),
    _ms(
        "fetch_max_wait_ms",
        500,
        "c",
        "How long a broker waits for fetch_min_bytes before it answers a fetch.",
        high=INT32_MAX,
        aliases=("fetch.wait.max.ms",),
    ),
    _size(
        "fetch_max_bytes",
        52428800,
        "c",
        "Most that a broker puts into one fetch; a first batch larger than that is still sent. Less"
        " is asked for where `fetch_buffer_memory` is not four times as large.",
        high=INT32_MAX,
    ),
    _size(
        "max_partition_fetch_bytes",
        1048576,
        "c",
        "Most that a broker puts into one fetch for one partition; a first batch larger than"
        " that is still sent.",
        high=INT32_MAX,
        aliases=("fetch.message.max.bytes",),
    ),
    _size(
        "fetch_buffer_memory",
        67108864,
        "c",
        "Memory for records fetched and not yet handed out; one batch may exceed it. A fetch asks"
        " for a quarter of it at most, or for one partition's.",
        low=1,
        kafka=None,
    ),
    _size(
        "poll_arrow_max_bytes",
        4194304,
        "c",
        "Most that one poll_arrow() returns if it is not told otherwise.",
        low=1,
        kafka=None,
    ),
    _flag(
        "enable_incremental_fetch_sessions",
        True,
        "c",
        "Whether fetches name only the partitions that changed (KIP-227).",
        kafka=None,
    ),
    Option(
        name="max_poll_records",
        kind="int",
        default=500,
        low=1,
        high=INT32_MAX,
        clients="c",
        doc="Most records that one poll() returns.",
    ),
    _ms(
        "consumer_timeout_ms",
        None,
        "c",
        "Iteration ends after so long without a record; None or inf: never. AIOKafkaConsumer takes"
        " it without effect.",
        nullable=True,
        kafka=None,
        annotation="float | None",
    ),
    _ms(
        "max_poll_interval_ms",
        300000,
        "c",
        "A member that does not poll for longer leaves the group.",
        low=1,
        high=INT32_MAX,
        core=False,
    ),
    _ms(
        "rebalance_timeout_ms",
        None,
        "c",
        "How long the group waits for this member in a rebalance (aiokafka); None:"
        " max_poll_interval_ms, as in Kafka's own clients.",
        low=1,
        high=INT32_MAX,
        nullable=True,
        core=False,
        kafka=None,
    ),
    _ms(
        "session_timeout_ms",
        45000,
        "c",
        "A member not heard of for longer is removed from the group.",
        high=INT32_MAX,
        core=False,
    ),
    _ms(
        "heartbeat_interval_ms",
        3000,
        "c",
        "How often a member is heard of; less than session_timeout_ms.",
        high=INT32_MAX,
        core=False,
    ),
    _choice(
        "group_protocol",
        "classic",
        ("classic", "consumer"),
        "c",
        "'consumer' is the protocol of KIP-848.",
        core=False,
    ),
    _text(
        "group_remote_assignor",
        "c",
        "The broker's assignor under group_protocol='consumer'.",
        core=False,
    ),
    Option(
        name="partition_assignment_strategy",
        kind="list",
        default=("range", "cooperative-sticky"),
        clients="c",
        core=False,
        doc="Assignors that this member supports, the preferred one first: 'range',"
        " 'roundrobin', 'sticky', 'cooperative-sticky', Java's names of these, or classes and"
        " instances of AbstractPartitionAssignor.",
        annotation="str | Sequence[Any]",
        differs="The same two assignors, by their short names.",
    ),
    _flag(
        "exclude_internal_topics",
        True,
        "c",
        "Whether patterns leave out internal topics such as __consumer_offsets.",
        core=False,
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
        doc="Interceptors in the order in which they are called: instances, classes or dotted"
        " names 'package.module.Class' (KIP-42).",
        annotation="str | Sequence[Any]",
    ),
    _flag(
        "metrics_enabled",
        True,
        "pc",
        "Whether metrics() gives something, and whether reporters and stats_cb are called.",
        core=False,
        kafka=None,
    ),
    Option(
        name="metric_reporters",
        kind="interceptors",
        default=(),
        clients="pca",
        core=False,
        doc="Reporters of metrics: instances, classes or dotted names; see thalweg.metrics.",
        ignored=_NO_METRICS,
        ignored_by="a",
        annotation="str | Sequence[Any]",
        differs="There is no JMX.",
    ),
    _ms(
        "metrics_num_samples",
        2,
        "pca",
        "How many windows of time averages and rates are taken over.",
        low=1,
        high=1000,
        ignored=_NO_METRICS,
        ignored_by="a",
    ),
    _ms(
        "metrics_sample_window_ms",
        30000,
        "pca",
        "How long each of the metrics_num_samples windows is.",
        low=1,
        ignored=_NO_METRICS,
        ignored_by="a",
    ),
    _ms(
        "statistics_interval_ms",
        0,
        "pc",
        "How often stats_cb is called; 0: never.",
        core=False,
        kafka=None,
    ),
    _object(
        "stats_cb",
        "pc",
        "Called with a dict of all metrics every statistics_interval_ms, on the thread of"
        " callbacks.",
        kafka=None,
        annotation="Callable[[dict[str, Any]], object] | None",
    ),
)

_WITHOUT_EFFECT: tuple[Option, ...] = (
    _object(
        "api_version",
        "pca",
        "kafka-python's broker version; the client's `config` shows the one it infers.",
        kafka=None,
        ignored="the versions of each API are negotiated with each broker",
    ),
    _object(
        "metrics_recording_level",
        "pca",
        "Detail of the metrics.",
        default="INFO",
        ignored=_METRICS,
    ),
    _object(
        "metric_group_prefix",
        "ca",
        "Prefix of the metrics' groups.",
        default="consumer",
        kafka=None,
        ignored=_METRICS,
    ),
    _object(
        "enable_metrics_push",
        "pca",
        "Client telemetry (KIP-714).",
        default=False,
        ignored="telemetry is not pushed by this version",
        differs="Telemetry is not pushed by this version.",
    ),
    _object("metrics", "a", "A Metrics object.", kafka=None, ignored=_NO_METRICS),
    _object("selector", "pca", "A selectors class.", kafka=None, deprecated=_RUST_IO),
    _object("kafka_client", "pca", "A client class.", kafka=None, deprecated=_RUST_IO),
    _object("net", "pca", "A network class.", kafka=None, deprecated=_RUST_IO),
    _object("wakeup_timeout_ms", "pca", "Of the selector.", kafka=None, deprecated=_RUST_IO),
    _object("sock_chunk_bytes", "pca", "Size of reads.", kafka=None, deprecated=_RUST_IO),
    _object("sock_chunk_buffer_count", "pca", "Number of reads.", kafka=None, deprecated=_RUST_IO),
    _object(
        "bootstrap_topics_filter",
        "p",
        "Topics left out of the first metadata.",
        kafka=None,
        deprecated="only the topics in use are asked for",
    ),
    _object(
        "api_version_auto_timeout_ms",
        "pca",
        "kafka-python 2.x's name of bootstrap_timeout_ms.",
        kafka=None,
        deprecated="it is called bootstrap_timeout_ms now, and is taken as that",
    ),
    _object(
        "proxy_url",
        "pca",
        "URL of a proxy.",
        kafka=None,
        refused="proxies are not offered by this version",
    ),
    _object(
        "socks5_proxy",
        "pca",
        "URL of a SOCKS5 proxy.",
        kafka=None,
        refused="proxies are not offered by this version",
    ),
    _object("security_providers", "pca", "Java's.", ignored=_JVM),
    _object("ssl_provider", "pca", "Java's.", ignored=_JVM),
    _object(
        "ssl_protocol",
        "pca",
        "TLS version.",
        ignored="TLS 1.3 and 1.2 are both offered to the broker",
        differs="Both versions are always offered.",
    ),
    _object(
        "ssl_enabled_protocols",
        "pca",
        "TLS versions.",
        ignored="TLS 1.3 and 1.2 are both offered to the broker",
        differs="Both versions are always offered.",
    ),
)

# The table in the groups in which the reference page and `help()` list it.
GROUPS: Final[tuple[tuple[str, tuple[Option, ...]], ...]] = (
    ("Connections and metadata", _CONNECTION),
    ("Security", _SECURITY),
    ("Producers", _PRODUCER),
    ("Consumers", _CONSUMER),
    ("Interceptors and metrics", _HOOKS),
    ("Accepted without effect, or refused", _WITHOUT_EFFECT),
)
ROWS: Final[tuple[Option, ...]] = tuple(row for _, rows in GROUPS for row in rows)

CLIENTS: Final = {"p": "KafkaProducer", "c": "KafkaConsumer", "a": "KafkaAdminClient"}
UNLIMITED: Final = inf
