"""SCRAM credentials: set, described, used by a client to log in, deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.admin.conftest import Node
from tests.support.scram import scram_options, wait_for_login
from tests.support.waiting import wait_until
from thalweg import KafkaAdminClient
from thalweg.admin import (
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from thalweg.errors import KafkaTimeoutError, SaslAuthenticationFailedError

TOOL = "org.apache.kafka.tools.TopicCommand"


def _credentials(node: Node, user: str) -> dict[ScramMechanism, int]:
    """Returns {mechanism: iterations} of a user."""
    found = node.admin.describe_user_scram_credentials([user])[user]["credential_infos"]
    return {row["mechanism"]: row["iterations"] for row in found}


def test_credentials_are_set_described_and_deleted(node: Node) -> None:
    user = node.name("user")
    first = UserScramCredentialUpsertion(user, "SCRAM-SHA-256", "secret", iterations=5000)
    second = UserScramCredentialUpsertion(user, ScramMechanism.SCRAM_SHA_512, b"secret")
    for each in (first, second):  # Kafka accepts one credential of a user per request
        assert node.admin.alter_user_scram_credentials([each]) == {user: None}
    # A broker learns a change from its controller a moment later.
    both = {ScramMechanism.SCRAM_SHA_256: 5000, ScramMechanism.SCRAM_SHA_512: 4096}
    wait_until(lambda: _credentials(node, user) == both, 20)
    assert user in node.admin.describe_user_scram_credentials()

    deletion = UserScramCredentialDeletion(user, "SCRAM-SHA-512")
    assert node.admin.alter_user_scram_credentials([deletion]) == {user: None}
    wait_until(lambda: _credentials(node, user) == {ScramMechanism.SCRAM_SHA_256: 5000}, 20)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_client_logs_in_with_them(modern_node: Node, mechanism: str, tmp_path: Path) -> None:
    """Uses a Java client, so that Kafka's own code checks the salted password."""
    node = modern_node
    user, topic = node.name("user"), node.topic()
    upsertion = UserScramCredentialUpsertion(user, mechanism, "the secret")
    assert node.admin.alter_user_scram_credentials([upsertion]) == {user: None}
    wait_until(lambda: bool(_credentials(node, user)), 20)
    options = tmp_path / "client.properties"
    options.write_text(
        "security.protocol=SASL_PLAINTEXT\n"
        f"sasl.mechanism={mechanism}\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required"
        f' username="{user}" password="the secret";\n'
    )
    servers = node.kafka.bootstrap("SASL_PLAINTEXT")
    arguments = "--bootstrap-server", servers, "--command-config", str(options), "--list"
    assert topic in node.kafka.tool(TOOL, *arguments)


def test_a_client_logs_in_with_its_new_password(node: Node) -> None:
    user = node.name("user")
    _set_password(node, user, "first")
    options = scram_options(node.kafka, user, "first")
    options.update(connections_max_idle_ms=2500, request_timeout_ms=2000)
    with KafkaAdminClient(**options) as client:
        _connect(client)
        _set_password(node, user, "second")
        client.set_sasl_credentials(user, "second")
        _wait_for_close(client)
        _connect(client)
        client.set_sasl_credentials(user, "first")
        _wait_for_close(client)
        with pytest.raises(SaslAuthenticationFailedError):
            _connect(client)


def _connect(client: KafkaAdminClient) -> None:
    """Sends a request, again if it took longer than the short timeout of the requests."""

    def responds() -> bool:
        try:
            return bool(client.describe_cluster())
        except KafkaTimeoutError:
            return False

    wait_until(responds, 60)


def _wait_for_close(client: KafkaAdminClient) -> None:
    wait_until(lambda: not client.bootstrap_connected(), 60, what="the end of idle connections")


def _set_password(node: Node, user: str, password: str) -> None:
    upsertion = UserScramCredentialUpsertion(user, "SCRAM-SHA-512", password)
    assert node.admin.alter_user_scram_credentials([upsertion]) == {user: None}
    wait_for_login(scram_options(node.kafka, user, password))


def test_what_is_refused_is_told_for_each_user(node: Node) -> None:
    user, nobody = node.name("user"), node.name("nobody")
    weak = UserScramCredentialUpsertion(user, "SCRAM-SHA-256", "secret", iterations=10)
    deletion = UserScramCredentialDeletion(nobody, "SCRAM-SHA-256")
    result = node.admin.alter_user_scram_credentials([weak, deletion])
    assert "iterations" in str(result[user]).lower()
    assert result[nobody]
    described = node.admin.describe_user_scram_credentials([user])[user]
    assert described["error"]
    assert described["credential_infos"] == []
