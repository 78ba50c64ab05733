"""Faults of an EmbeddedBroker: `broker.faults.on("Produce").then_disconnect()`."""

from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self

from thalweg._client.arguments import int_given, shown
from thalweg._config.suggestions import did_you_mean
from thalweg.errors import BrokerResponseError, KafkaError, kafka_errors

if TYPE_CHECKING:
    from thalweg import _core
    from thalweg._core import _FaultAction

__all__ = ["Fault", "FaultRule", "Faults", "checked_api"]

_CODES: Final = {str(kind.message): code for code, kind in kafka_errors.items() if code != 0}
_INT32_MAX: Final = 2**31 - 1
# Longer than any client waits.
_DELAY_MS_MAX: Final = 24 * 60 * 60 * 1000


def _code(error: int | str | type[BrokerResponseError]) -> int:
    """Returns the error code for a code, for Kafka's name of an error, or for an error class."""
    if isinstance(error, str):
        if error not in _CODES:
            hint = did_you_mean(error, _CODES)
            raise ValueError(f"Kafka's protocol has no error named {error!r}{hint}")
        return _CODES[error]
    if isinstance(error, type) and issubclass(error, KafkaError):
        code = getattr(error, "errno", None)
        if code is None:
            raise ValueError(f"{error.__name__} has no error code: a broker cannot send it")
        return _code(code)
    if not hasattr(error, "__index__") or isinstance(error, bool):
        raise TypeError(
            "error must be an error code, Kafka's name of one, or a class of thalweg.errors,"
            f" got {shown(error)}"
        )
    if error not in _CODES.values():
        raise ValueError(f"Kafka's protocol has no error with the code {error}")
    return error


def checked_api(api: str | None, native: "_core.EmbeddedBroker") -> str | None:
    """Returns the name of an API. Raises TypeError or ValueError if there is none of this name."""
    if api is None:
        return None
    if not isinstance(api, str):
        raise TypeError(f"api must be the name of a Kafka API, or None, got {shown(api)}")
    known = native.api_names()
    if api not in known:
        raise ValueError(f"there is no Kafka API named {api!r}{did_you_mean(api, known)}")
    return api


class Fault:
    """A fault that is set. As a context manager, it is removed at the end of the block."""

    def __init__(self, native: "_core.BrokerFaults", number: int) -> None:
        self._native = native
        self._number = number

    @property
    def hits(self) -> int:
        """The number of requests to which the fault has applied."""
        return self._native.hits(self._number)

    def remove(self) -> None:
        """Removes the fault. You may also call it when the fault is used up."""
        self._native.remove(self._number)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()


def _check_node(node: int | None, native: "_core.EmbeddedBroker") -> None:
    if node is not None:
        nodes = native.nodes
        int_given(node, "node", nodes[0], nodes[-1])


def _times(times: int | None) -> int | None:
    return None if times is None else int_given(times, "times", 1, _INT32_MAX)


class FaultRule:
    """Selects requests for a fault. Call one of its methods to set what happens to them.

    In every method, `times` is the number of requests to which the fault applies. None: all
    requests, until you remove the fault.
    """

    def __init__(
        self,
        native: "_core.EmbeddedBroker",
        api: str | None,
        node: int | None,
        topic: str | None,
    ) -> None:
        _check_node(node, native)
        if topic is not None and not isinstance(topic, str):
            raise TypeError(f"topic must be a str or None, got {shown(topic)}")
        self._native = native.faults()
        self._api, self._node, self._topic = checked_api(api, native), node, topic

    def _add(
        self,
        action: "_FaultAction",
        times: int | None,
        error_code: int = 0,
        delay_ms: int = 0,
    ) -> Fault:
        number = self._native.add(
            self._api, action, self._node, self._topic, error_code, delay_ms, _times(times)
        )
        return Fault(self._native, number)

    def then_fail(
        self, error: int | str | type[BrokerResponseError], times: int | None = 1
    ) -> Fault:
        """Responds with an error, without executing the request.

        Args:
            error: An error code, Kafka's name of it, or a class of thalweg.errors.
            times: How many requests. None: all, until you remove the fault.

        Raises:
            ValueError: If Kafka has no such error, or times is below 1.
            TypeError: If an argument has a wrong type.
        """
        return self._add("fail", times, error_code=_code(error))

    def then_delay(self, ms: int, times: int | None = 1) -> Fault:
        """Delays the response by `ms` milliseconds, at most one day."""
        return self._add("delay", times, delay_ms=int_given(ms, "ms", 0, _DELAY_MS_MAX))

    def then_disconnect(self, times: int | None = 1) -> Fault:
        """Closes the connection without executing the request."""
        return self._add("disconnect", times)

    def apply_then_disconnect(self, times: int | None = 1) -> Fault:
        """Executes the request, then closes the connection without a response."""
        return self._add("apply_then_disconnect", times)

    def then_silence(self, times: int | None = 1) -> Fault:
        """Ignores the request and all later requests on its connection, and never responds."""
        return self._add("silence", times)


class Faults:
    """The faults of a broker. They apply in the order in which you set them."""

    def __init__(self, native: "_core.EmbeddedBroker") -> None:
        self._native = native
        self._faults = native.faults()

    def on(
        self, api: str | None = None, node: int | None = None, topic: str | None = None
    ) -> FaultRule:
        """Selects the requests to which a fault applies.

        Args:
            api: Kafka's name of an API ("Produce"). None: all requests. A fault on
                "WriteTxnMarkers" also applies when the coordinator writes transaction markers
                without a request. With `then_delay(ms, times=None)`, each transaction stays
                incomplete for this time. With another fault, it stays incomplete for a moment.
            node: Only requests to this node. None: all nodes.
            topic: Only requests that name this topic. None: all requests.

        Raises:
            ValueError: If Kafka has no such API, or the broker has no such node.
            TypeError: If an argument has a wrong type.
        """
        return FaultRule(self._native, api, node, topic)

    def _add(
        self,
        action: "_FaultAction",
        times: int | None,
        node: int | None,
        iterations: int = 0,
    ) -> Fault:
        _check_node(node, self._native)
        number = self._faults.add(
            None, action, node, None, 0, 0, _times(times), iterations=iterations
        )
        return Fault(self._faults, number)

    def bad_server_signature(self, times: int | None = 1, node: int | None = None) -> Fault:
        """SCRAM: accepts a login, but with a wrong signature.

        So the broker does not prove that it knows the password, and a client must refuse it.

        Args:
            times: For how many logins. None: for all, until you remove the fault.
            node: Only on this node. None: on all nodes.

        Raises:
            ValueError: If times is below 1, or the broker has no such node.
        """
        return self._add("bad_server_signature", times, node)

    def scram_iterations(
        self, iterations: int, times: int | None = 1, node: int | None = None
    ) -> Fault:
        """SCRAM: requests this number of iterations. The login fails, whatever the number is.

        A client must refuse fewer than 4096. Otherwise it derives its keys, and the broker then
        refuses its proof.

        Raises:
            ValueError: If iterations or times is out of range, or the broker has no such node.
        """
        iterations = int_given(iterations, "iterations", 0, 2**32 - 1)
        return self._add("scram_iterations", times, node, iterations)

    def close_in_handshake(self, times: int | None = 1, node: int | None = None) -> Fault:
        """TLS: closes the connection after the client's first message of the handshake."""
        return self._add("close_in_tls_handshake", times, node)

    def tls_version(
        self,
        version: Literal["TLSv1.2", "TLSv1.3"],
        times: int | None = None,
        node: int | None = None,
    ) -> Fault:
        """TLS: accepts only this version.

        The default is all connections, until you remove the fault.

        Raises:
            ValueError: If the broker does not have the version.
        """
        actions: dict[str, _FaultAction] = {"TLSv1.2": "only_tls_1_2", "TLSv1.3": "only_tls_1_3"}
        if version not in actions:
            raise ValueError(f"version must be one of {', '.join(actions)}, got {shown(version)}")
        return self._add(actions[version], times, node)

    def clear(self) -> None:
        """Removes all faults."""
        self._faults.clear()
