"""KafkaAdminClient: all groups of admin calls on one native client."""

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from thalweg import _core, _logging
from thalweg._client import closing
from thalweg._client.arguments import keywords_only
from thalweg._config.concealment import concealed
from thalweg._config.option_help import options_listed
from thalweg._config.secret import Secret, hidden, revealed
from thalweg.admin.acls import AclRequests
from thalweg.admin.cluster import ClusterRequests
from thalweg.admin.configs import ConfigRequests
from thalweg.admin.groups import GroupRequests
from thalweg.admin.tokens import TokenRequests
from thalweg.admin.topics import TopicRequests
from thalweg.admin.transactions import TransactionRequests
from thalweg.admin.users import UserRequests
from thalweg.config import options_of, resolve

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from thalweg.typing import AdminConfig

__all__ = ["KafkaAdminClient"]


@options_listed("a")
class KafkaAdminClient(
    AclRequests,
    ConfigRequests,
    GroupRequests,
    TokenRequests,
    TopicRequests,
    TransactionRequests,
    ClusterRequests,  # after its subclass
    UserRequests,
):
    """Administers a cluster (`clients.admin.Admin`). Several threads may share one client.

        with KafkaAdminClient(bootstrap_servers="localhost:9092") as admin:
            admin.create_topics(["topic"])

    docs/configuration.md describes the options. If a broker refuses a call, the call raises the
    class of the broker's error, which is a subclass of BrokerResponseError. If no broker responds
    in time, the call raises KafkaTimeoutError.

    Raises:
        KafkaConfigurationError: If options are wrong. The error names all problems.
        NoBrokersAvailable: If no bootstrap server responds within `bootstrap_timeout_ms`.
        SaslAuthenticationFailedError: If the brokers refuse the login.
        KafkaConnectionError: If TLS fails in a way that no retry can change, for example because
            the client does not trust the brokers' certificate.
        TypeError: If you give the options as one dict: use `from_config`.
    """

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = {
        name: row.default for name, row in options_of("a").items()
    }

    if TYPE_CHECKING:

        def __init__(self, **configs: Unpack[AdminConfig]) -> None: ...

    else:

        @keywords_only
        def __init__(self, **configs):
            config = resolve("a", configs)
            config.name_client()
            self.config = config
            _logging.refresh()
            self._client = _core.Client(config.core())
            config.opened(self, KafkaAdminClient.api_versions)
            closing.watch(self, KafkaAdminClient.close)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Creates an admin client from a mapping, which may have Kafka's or librdkafka's names.

        Args:
            config: The options: {"bootstrap.servers": ..., ...}.

        Raises:
            KafkaConfigurationError: As in the constructor.
        """
        config = concealed(config)
        return cls(**config)

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._client.closed

    def bootstrap_connected(self) -> bool:
        """Whether a broker is connected."""
        return self._client.bootstrap_connected()

    def set_sasl_credentials(self, username: str, password: "str | Secret") -> None:
        """Changes the user name and the password of PLAIN or SCRAM for the next authentication.

        It does not close open connections. confluent-kafka has a method of the same name.

        Raises:
            IllegalStateError: If the client does not log in with PLAIN or SCRAM, or is closed.
            TypeError: If an argument is not a str.
            ValueError: If the mechanism cannot send a NUL character that one of them contains.
        """
        password = hidden(revealed(password))
        self.config.set_credentials(username, password, self._client)

    def close(self) -> None:
        """Closes all connections. A second call does nothing."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<KafkaAdminClient client_id={getattr(self, 'config', {}).get('client_id')}>"
