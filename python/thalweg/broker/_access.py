"""Who may use an EmbeddedBroker, from where and for what: addresses, users, certificates, ACLs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from thalweg._config.secret import Secret
from thalweg.broker import _acls
from thalweg.broker._security import ClientCertificate

if TYPE_CHECKING:
    from thalweg import _core
    from thalweg.auth.token import Token
    from thalweg.broker._security import Jwks, Security

__all__ = ["Access"]


class Access:
    """Gives clients of an EmbeddedBroker what they need, and changes their permissions."""

    _security: Security
    _native: _core.EmbeddedBroker
    _guard: _core.BrokerSecurity
    _options: dict[str, str | Secret]
    _started: tuple[str, str | None] | None
    _pid: int

    @property
    def bootstrap_servers(self) -> str:
        """'host:port' of all nodes, with commas. Raises IllegalStateError before start()."""
        # A forked child's clients can reach the parent's broker.
        if self._started is not None and self._pid != os.getpid():
            return self._started[0]
        return self._native.bootstrap_servers

    def client_config(self, user: str | None = None) -> dict[str, Any]:
        """Returns the options with which a client connects as a user.

            KafkaProducer(**broker.client_config("alice"))

        The mechanism is the first of the broker's mechanisms that uses a password or a secret key.
        If the broker offers only OAUTHBEARER, the client creates a token for the user. With `jwks`
        it cannot: add `sasl_oauth_token_provider` to the dict. The dict contains the password as a
        `Secret`, which all clients of thalweg accept. With TLS, the dict contains the certificate
        of the broker's authority. If `ssl.client.auth` is not "none" and the broker
        creates its own certificates, the dict also contains a client certificate for the user.

        Args:
            user: The name of the user. None: the first one, or "client" without SASL.

        Raises:
            ValueError: If the broker has no such user or no users at all, or if a user is given and
                the protocol is PLAINTEXT.
            IllegalStateError: If the broker is not running.
        """
        authority = self.ca_pem
        options = self._security.client_options(user, authority)
        options = {"bootstrap_servers": self.bootstrap_servers, **options}
        if authority is not None and self._options.get("ssl.client.auth", "none") != "none":
            name = user or options.get("sasl_plain_username", "client")
            certificate = self.client_certificate(name)
            options["ssl_certfile"] = certificate.certificate
            options["ssl_keyfile"] = certificate.key
        return options

    @property
    def ca_pem(self) -> str | None:
        """The certificate of the broker's own authority, as PEM.

        None: the broker does not use TLS, or has other certificates. Raises IllegalStateError
        before start().
        """
        if self._started is not None and self._pid != os.getpid():
            return self._started[1]
        return self._guard.authority_pem()

    def client_certificate(self, name: str) -> ClientCertificate:
        """Creates a certificate and a key for a client.

        Pass them to the client as `ssl_certfile` and `ssl_keyfile`. Without SASL, the user is
        "User:CN=" and the name.

        Raises:
            KafkaConfigurationError: If the broker does not create its own certificates.
            IllegalStateError: If the broker is not running.
        """
        certificate, key = self._guard.client_certificate(name)
        return ClientCertificate(certificate, Secret(key))

    def revoke_certificate(self, certificate: ClientCertificate | str) -> None:
        """Revokes a certificate that `client_certificate` returned.

        The broker refuses new connections with it. Open connections stay open.

        Args:
            certificate: What `client_certificate` returned, or the certificate in it.

        Raises:
            KafkaConfigurationError: If this broker did not create the certificate, or the option
                `ssl.client.auth` is "none".
            IllegalStateError: If the broker is not running.
        """
        if isinstance(certificate, tuple):
            certificate = certificate[0]
        self._guard.revoke_certificate(certificate)

    def expire_sessions(self) -> None:
        """Ends the sessions of all clients that have logged in with SASL.

        A client may log in again on its connection (KIP-368). If it sends any other request first,
        the broker closes the connection, as Kafka does at the end of a session.

        Raises:
            KafkaConfigurationError: If clients do not log in.
            IllegalStateError: If the broker is not running.
        """
        self._guard.expire_sessions()

    def token(self, principal: str, expires_in: float = 300, **claims: Any) -> Token:
        """Creates a token for OAUTHBEARER, without a signature.

            KafkaProducer(sasl_oauth_token_provider=lambda _: broker.token("alice"), ...)

        Args:
            principal: The user.
            expires_in: The time until the token expires, in seconds. It may be negative.
            claims: More claims of the token. A value of None removes a claim.

        Raises:
            TypeError: If principal is not a str.
            KafkaConfigurationError: If the broker does not offer OAUTHBEARER, or accepts only
                signed tokens (`jwks`).
        """
        return self._security.token(principal, expires_in, claims)

    def set_jwks(self, jwks: Jwks) -> None:
        """Replaces the public keys of the identity provider, as when the provider rotates its keys.

        Connections stay open. Their next login needs a token that one of the new keys has signed.

        Args:
            jwks: The keys, as for the argument `jwks` of EmbeddedBroker.

        Raises:
            TypeError: If jwks has a wrong type.
            ValueError: If it is not a JSON Web Key Set, has no key of a supported type, or is in a
                file that cannot be read.
            KafkaConfigurationError: If the broker was started without `jwks`.
            IllegalStateError: If the broker is not running.
        """
        keys = self._security.checked_jwks(jwks)
        self._guard.set_jwks(keys)
        self._security.jwks = keys

    def add_user(self, name: str, password: str | Secret) -> None:
        """Adds a user of PLAIN and SCRAM, or changes the password of one.

        Connections of the user stay open. Their next login needs the new password.

        Raises:
            ValueError: If the name or the password is empty or contains a NUL character.
            IllegalStateError: If the broker is not running.
        """
        secret = self._security.checked(name, password)
        self._guard.set_user(name, secret.reveal())
        self._security.add(name, secret)

    def remove_user(self, name: str) -> bool:
        """Removes a user from PLAIN and SCRAM. Returns whether it existed.

        Connections of the user stay open until their sessions end (`connections.max.reauth.ms`).

        Raises:
            IllegalStateError: If the broker is not running.
        """
        existed = self._guard.remove_user(name)
        self._security.users.pop(name, None)
        return existed

    def allow(
        self,
        user: str,
        operation: str,
        *,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        cluster: bool = False,
        prefixed: bool = False,
        host: str = "*",
    ) -> None:
        """Creates an ACL that allows a user an operation on one resource.

            broker.allow("alice", "READ", topic="orders")

        Args:
            user: The name of the user, or "*" for all users.
            operation: Kafka's word, for example "READ", "WRITE", "DESCRIBE" or "ALL".
            topic: The name of a topic, or "*" for all topics.
            group: The name of a group, or "*" for all groups.
            transactional_id: A transactional ID, or "*" for all of them.
            cluster: True: the resource is the cluster.
            prefixed: Whether the ACL applies to all names that begin with the given name.
            host: The address of the client, or "*" for all addresses.

        Raises:
            ValueError: If Kafka has no such operation, or not exactly one resource is given.
            TypeError: If an argument has a wrong type.
            KafkaConfigurationError: If the broker has no authorizer.
            IllegalStateError: If the broker is not running.
        """
        resources = _resources(topic, group, transactional_id, cluster)
        _acls.create(self._guard, "ALLOW", user, operation, host, prefixed, resources)

    def deny(
        self,
        user: str,
        operation: str,
        *,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        cluster: bool = False,
        prefixed: bool = False,
        host: str = "*",
    ) -> None:
        """Creates an ACL that denies an operation, even if other ACLs allow it.

        The arguments and errors are those of `allow`.
        """
        resources = _resources(topic, group, transactional_id, cluster)
        _acls.create(self._guard, "DENY", user, operation, host, prefixed, resources)


def _resources(
    topic: str | None, group: str | None, transactional_id: str | None, cluster: bool
) -> dict[str, Any]:
    return {
        "topic": topic,
        "group": group,
        "transactional_id": transactional_id,
        "cluster": cluster,
    }
