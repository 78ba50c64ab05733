"""Faults of logins and of TLS, for users' tests: what they do, and how our clients react."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.support.clients import within
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker, KafkaAdminClient, KafkaProducer
from thalweg.auth import Token
from thalweg.errors import (
    IllegalStateError,
    KafkaConfigurationError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
)

USERS = {"alice": "s3cret-of-alice"}
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
FAST: dict[str, Any] = {"bootstrap_timeout_ms": 2000}


@pytest.fixture(scope="module", params=SCRAM)
def scram(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(
        security_protocol="SASL_PLAINTEXT", users=USERS, sasl_mechanisms=[request.param]
    ) as broker:
        yield broker


@pytest.fixture(scope="module")
def tls() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(security_protocol="SSL") as broker:
        yield broker


def test_a_broker_that_does_not_know_the_password_is_refused(scram: EmbeddedBroker) -> None:
    with scram.faults.bad_server_signature(times=None) as fault:
        with within(20), pytest.raises(SaslAuthenticationFailedError, match="signature") as caught:
            KafkaAdminClient(**scram.client_config())
        assert caught.value.by_client
        assert fault.hits >= 1
    KafkaAdminClient(**scram.client_config()).close()


@pytest.mark.parametrize("iterations", [0, 1, 4095, 131_073, 2**32 - 1])
def test_absurd_iterations_are_refused_at_once(scram: EmbeddedBroker, iterations: int) -> None:
    with scram.faults.scram_iterations(iterations, times=None) as fault:
        with within(20), pytest.raises(SaslAuthenticationFailedError) as caught:
            KafkaAdminClient(**scram.client_config())
        assert caught.value.by_client
        assert f"{iterations} iterations" in str(caught.value)
        assert fault.hits >= 1


def test_other_iterations_do_not_fit_the_keys(scram: EmbeddedBroker) -> None:
    with scram.faults.scram_iterations(8192, times=None):
        with within(20), pytest.raises(SaslAuthenticationFailedError) as caught:
            KafkaAdminClient(**scram.client_config())
        assert not caught.value.by_client


def test_faults_of_requests_apply_to_logins(scram: EmbeddedBroker) -> None:
    slow = scram.faults.on("SaslAuthenticate").then_delay(300)
    began = time.monotonic()
    KafkaAdminClient(**scram.client_config()).close()
    assert time.monotonic() - began >= 0.28
    assert slow.hits == 1
    with scram.faults.on("SaslAuthenticate").then_silence(times=None):
        options = scram.client_config() | {"socket_connection_setup_timeout_ms": 300}
        text = ""
        for timeout_ms in (2000, 5000, 20_000):  # a machine that pauses needs more time
            with within(timeout_ms / 1000 + 20), pytest.raises(KafkaError) as caught:
                KafkaAdminClient(**options, bootstrap_timeout_ms=timeout_ms)
            if "authentic" in (text := str(caught.value)):
                break
        assert "authentic" in text


def test_a_connection_that_closes_in_the_handshake_is_tried_again(tls: EmbeddedBroker) -> None:
    fault = tls.faults.close_in_handshake()
    KafkaAdminClient(**tls.client_config()).close()
    assert fault.hits == 1
    with tls.faults.close_in_handshake(times=None), within(20), pytest.raises(KafkaError):
        KafkaAdminClient(**tls.client_config(), **FAST)


@pytest.mark.parametrize("version, other", [("TLSv1.2", "TLSv1.3"), ("TLSv1.3", "TLSv1.2")])
def test_a_broker_may_have_only_one_version_of_tls(
    tls: EmbeddedBroker, version: Any, other: str
) -> None:
    with tls.faults.tls_version(version) as fault:
        for offered in (version, [version, other]):
            options = tls.client_config() | {"ssl_enabled_protocols": offered}
            KafkaAdminClient(**options).close()
        assert fault.hits >= 2
        with within(20), pytest.raises(KafkaError, match="TLS"):
            KafkaAdminClient(**tls.client_config(), ssl_enabled_protocols=other, **FAST)
    KafkaAdminClient(**tls.client_config(), ssl_enabled_protocols=other).close()


def test_a_revoked_certificate_opens_no_new_connection() -> None:
    with EmbeddedBroker(security_protocol="SSL", configs={"ssl.client.auth": "required"}) as broker:
        alice, bob = broker.client_certificate("alice"), broker.client_certificate("bob")

        def options(certificate: Any) -> dict[str, Any]:
            files = {"ssl_certfile": certificate.certificate, "ssl_keyfile": certificate.key}
            return broker.client_config() | files

        with KafkaAdminClient(**options(alice)) as connected:
            broker.revoke_certificate(alice)
            broker.revoke_certificate(alice.certificate)  # a second time changes nothing
            connected.describe_cluster()
            with within(20), pytest.raises(KafkaError, match=r"(?i)revoked"):
                KafkaAdminClient(**options(alice))
        KafkaAdminClient(**options(bob)).close()
        broker.revoke_certificate(bob)
        for each in (alice, bob):
            with within(20), pytest.raises(KafkaError, match=r"(?i)revoked"):
                KafkaAdminClient(**options(each))
        with pytest.raises(KafkaConfigurationError, match="has not made the certificate"):
            broker.revoke_certificate(broker.ca_pem or "")


def test_sessions_can_be_ended_while_clients_work(scram: EmbeddedBroker) -> None:
    with KafkaProducer(**scram.client_config(), linger_ms=0) as producer:
        for number in range(3):
            assert producer.send("ended", b"%d" % number).get(30).offset is not None
            logins = scram.requests("SaslAuthenticate")["SaslAuthenticate"]
            scram.expire_sessions()
            producer.send("ended", b"after").get(30)
            after = scram.requests("SaslAuthenticate")["SaslAuthenticate"]
            assert after > logins


def test_a_removed_user_is_cut_off_with_its_session() -> None:
    """The next request of the connection closes it."""
    with EmbeddedBroker(security_protocol="SASL_PLAINTEXT", users=USERS | {"bob": "b"}) as broker:
        with KafkaAdminClient(**broker.client_config("bob"), retry_backoff_ms=10) as bob:
            bob.describe_cluster()
            broker.remove_user("bob")
            bob.describe_cluster()
            broker.expire_sessions()

            def is_refused() -> bool:
                try:
                    bob.describe_cluster()
                except SaslAuthenticationFailedError:
                    return True
                except (KafkaConnectionError, KafkaTimeoutError):
                    pass
                return False

            wait_until(is_refused, 60)
        KafkaAdminClient(**broker.client_config("alice")).close()


def test_tokens_are_made_with_claims_and_may_have_expired() -> None:
    with EmbeddedBroker(
        security_protocol="SASL_PLAINTEXT", sasl_mechanisms=["OAUTHBEARER"]
    ) as broker:

        def options(token: Token) -> dict[str, Any]:
            return {
                "bootstrap_servers": broker.bootstrap_servers,
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauth_token_provider": lambda _: token,
            }

        token = broker.token("alice", 60, scope="orders", nbf=None)
        assert token.principal == "alice"
        assert token.value not in repr(token)
        KafkaAdminClient(**options(token)).close()
        for wrong in (
            Token(broker.token("alice", -10).value, time.time() + 60),
            Token(broker.token("alice", 60, sub=None).value, time.time() + 60),
        ):
            with within(20), pytest.raises(SaslAuthenticationFailedError, match="invalid_token"):
                KafkaAdminClient(**options(wrong))


def test_what_has_no_effect_is_refused(scram: EmbeddedBroker, tls: EmbeddedBroker) -> None:
    with pytest.raises(KafkaConfigurationError, match="OAUTHBEARER"):
        scram.token("alice")
    with pytest.raises(KafkaConfigurationError, match="SASL"):
        tls.expire_sessions()
    with pytest.raises(
        KafkaConfigurationError, match="revoke_certificate: this broker has no authority"
    ):
        scram.revoke_certificate("x")
    with pytest.raises(KafkaConfigurationError, match=r"ssl\.client\.auth"):
        tls.revoke_certificate(tls.client_certificate("alice"))
    with pytest.raises(ValueError, match=r"TLSv1\.2, TLSv1\.3"):
        tls.faults.tls_version("TLSv1.1")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="iterations"):
        scram.faults.scram_iterations(-1)
    with pytest.raises(ValueError, match="node"):
        scram.faults.bad_server_signature(node=2)
    new = EmbeddedBroker(security_protocol="SASL_PLAINTEXT", users=USERS)
    with pytest.raises(IllegalStateError):
        new.expire_sessions()
