"""Users of SCRAM on a real Kafka: creates them, and waits until they can log in."""

from __future__ import annotations

from typing import Any

from tests.support.kafka.cluster import RealKafka
from tests.support.waiting import wait_until
from thalweg import KafkaAdminClient
from thalweg.admin import UserScramCredentialUpsertion
from thalweg.errors import SaslAuthenticationFailedError

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def scram_options(
    kafka: RealKafka,
    user: str,
    password: str,
    mechanism: str = "SCRAM-SHA-512",
    protocol: str = "SASL_PLAINTEXT",
) -> dict[str, Any]:
    """Returns the options of a client that logs in."""
    options = {
        "bootstrap_servers": kafka.bootstrap(protocol),
        "security_protocol": protocol,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }
    if protocol == "SASL_SSL":
        options["ssl_cafile"] = str(kafka.certificates / "ca.pem")
    return options


def add_user(
    kafka: RealKafka,
    user: str,
    password: str,
    mechanism: str = "SCRAM-SHA-512",
    iterations: int = 4096,
) -> dict[str, Any]:
    """Creates a user by the admin client. Returns the options of a client that logs in."""
    upsertion = UserScramCredentialUpsertion(user, mechanism, password, iterations=iterations)
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        assert admin.alter_user_scram_credentials([upsertion]) == {user: None}
    options = scram_options(kafka, user, password, mechanism)
    wait_for_login(options)
    return options


def add_user_with_kafkas_tool(kafka: RealKafka, user: str, password: str) -> None:
    """Creates a user with a credential for each mechanism. Kafka's own code salts the password.

    The number of iterations is Kafka's lowest for one mechanism, and its highest for the other.
    """
    credentials = (
        f"SCRAM-SHA-256=[iterations=16384,password={password}]",
        f"SCRAM-SHA-512=[iterations=4096,password={password}]",
    )
    for each in credentials:  # Kafka accepts one credential of a user per request
        kafka.tool(
            "kafka.admin.ConfigCommand",
            *("--bootstrap-server", kafka.bootstrap_servers),
            *("--alter", "--entity-type", "users", "--entity-name", user),
            *("--add-config", each),
        )
    for mechanism in MECHANISMS:
        wait_for_login(scram_options(kafka, user, password, mechanism))


def wait_for_login(options: dict[str, Any]) -> None:
    """Waits until a client can log in at each broker. They learn of a user one after the other."""
    refusals: list[str] = []
    servers = options["bootstrap_servers"].split(",")

    def logs_in() -> bool:
        try:
            while servers:
                KafkaAdminClient(**{**options, "bootstrap_servers": servers[0]}).close()
                servers.pop(0)
        except SaslAuthenticationFailedError as error:
            refusals.append(str(error))
            return False
        return True

    wait_until(logs_in, 60, every=0.1, what=lambda: f"the login: {refusals[-1]}")
