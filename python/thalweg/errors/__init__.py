"""Every error that thalweg raises, and the other names of kafka-python's errors.

    KafkaError (a RuntimeError, as in kafka-python 2.x)
    ├── RetriableError ── InvalidMetadataError       a retry may succeed
    ├── BrokerResponseError                          one class per error code of Kafka's protocol
    │   └── AuthorizationError, OffsetOutOfRangeError, ...
    ├── AbortableTransactionError                    call abort_transaction()
    ├── FatalTransactionError                        close the transactional producer
    └── KafkaTimeoutError, KafkaConfigurationError,  the client itself found the error
        IllegalStateError, ...

`_base.py` and `_client.py` are written by hand. `_broker.py` is generated from the error table of
the protocol crate. Each class has `errno`, `retriable` and `invalid_metadata`. `for_code(code)`
returns the class of a protocol error code.
"""

from functools import lru_cache
from typing import Any

from thalweg.errors import _base, _broker, _client
from thalweg.errors._base import *  # noqa: F403
from thalweg.errors._base import BrokerResponseError, UnknownError
from thalweg.errors._broker import *  # noqa: F403
from thalweg.errors._broker import kafka_errors
from thalweg.errors._client import *  # noqa: F403

__all__ = [*_base.__all__, *_broker.__all__, *_client.__all__, "for_code", "kafka_errors"]


def for_code(error_code: int) -> type[BrokerResponseError]:
    """Returns the class of a protocol error code (`org.apache.kafka.common.protocol.Errors`).

    Args:
        error_code: A code of Kafka's error table. 0 returns `NoError`.

    Returns:
        The class. For a code that this version does not know, a subclass of `UnknownError` with
        that code as `errno`.
    """
    return kafka_errors.get(error_code) or _unrecognized(error_code)


@lru_cache(maxsize=64)
def _unrecognized(error_code: int) -> type[BrokerResponseError]:
    fields = {"errno": error_code, "__reduce__": _reduce_unrecognized}
    return type("UnrecognizedBrokerError", (UnknownError,), fields)


def _reduce_unrecognized(error: BrokerResponseError) -> tuple[Any, ...]:
    # Pickle the code: no module has the class under its name.
    return _made, (error.errno, error.args), error.__dict__


def _made(error_code: int, args: tuple[object, ...]) -> BrokerResponseError:
    return for_code(error_code)(*args)


# Tracebacks, reprs and pickles name the public module thalweg.errors for every class.
for _module in (_base, _broker, _client):
    for _name in _module.__all__:
        _item = getattr(_module, _name)
        if isinstance(_item, type):
            _item.__module__ = __name__
