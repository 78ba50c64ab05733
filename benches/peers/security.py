"""How each client connects: without encryption, over TLS, or over TLS with a SCRAM login.

The listeners are those of one broker, so that ratios of a client to its own figures without
encryption come from the same run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benches.peers.settings import Case

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_SSL")
MECHANISM = "SCRAM-SHA-512"
USER, PASSWORD = "alice", "alice-secret"


def connection_options(client: str, case: Case) -> dict[str, Any]:
    """Returns the options for the broker's address and for the login, with the client's names.

    Raises:
        ValueError: If a client without TLS should use it.
    """
    make = _MAKERS.get(client)
    if make is None:
        raise ValueError(f"{client} has no options for {case.security}")
    return make(case)


def _dotted(case: Case) -> dict[str, Any]:
    """Names of librdkafka."""
    found = {"bootstrap.servers": case.address}
    if case.security != "PLAINTEXT":
        found |= {"security.protocol": case.security, "ssl.ca.location": case.cafile}
    if case.security == "SASL_SSL":
        found |= {"sasl.mechanism": MECHANISM, "sasl.username": USER, "sasl.password": PASSWORD}
    return found


def _java(case: Case) -> dict[str, Any]:
    """Names of Java, without the address, which is an argument of its tools."""
    found: dict[str, Any] = {}
    if case.security != "PLAINTEXT":
        found |= {
            "security.protocol": case.security,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": case.cafile,
        }
    if case.security == "SASL_SSL":
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
        found |= {
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": f'{login} username="{USER}" password="{PASSWORD}";',
        }
    return found


def _python(case: Case) -> dict[str, Any]:
    """Names of kafka-python, which aiokafka and thalweg share, but for aiokafka's context."""
    found = {"bootstrap_servers": case.address}
    if case.security != "PLAINTEXT":
        found |= {"security_protocol": case.security, "ssl_cafile": case.cafile}
    if case.security == "SASL_SSL":
        found |= {
            "sasl_mechanism": MECHANISM,
            "sasl_plain_username": USER,
            "sasl_plain_password": PASSWORD,
        }
    return found


def _aiokafka(case: Case) -> dict[str, Any]:
    found = _python(case)
    cafile = found.pop("ssl_cafile", None)
    if cafile is not None:
        from aiokafka.helpers import create_ssl_context

        found["ssl_context"] = create_ssl_context(cafile=cafile)
    return found


_MAKERS: dict[str, Callable[[Case], dict[str, Any]]] = {
    "confluent-kafka": _dotted,
    "java": _java,
    "kafka-python": _python,
    "aiokafka": _aiokafka,
    "thalweg": _python,
    "thalweg-aio": _python,
}
