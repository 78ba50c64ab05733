"""Reads an `ssl.SSLContext`, and makes one that remembers what it was given.

TLS runs in the native core, so the client takes what it can read from the context. It refuses what
it cannot read but can notice. It cannot notice a client certificate: only a context of
`thalweg.helpers.create_ssl_context` remembers its own.
"""

import ssl
from typing import Any, Final

__all__ = ["RememberingContext", "read_context"]

_NO: Final = {
    "TLSv1.2": (ssl.TLSVersion.TLSv1_2, ssl.Options.OP_NO_TLSv1_2),
    "TLSv1.3": (ssl.TLSVersion.TLSv1_3, ssl.Options.OP_NO_TLSv1_3),
}


class RememberingContext(ssl.SSLContext):
    """A context with the options of the clients from which it was made."""

    thalweg_options: dict[str, Any]
    thalweg_is_made = False
    thalweg_has_more = False

    def load_verify_locations(self, *given: Any, **named: Any) -> None:
        """Notes that the context has authorities that the client cannot read."""
        super().load_verify_locations(*given, **named)
        self.thalweg_has_more = self.thalweg_is_made

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(self.thalweg_options)}>"


def read_context(context: ssl.SSLContext) -> tuple[dict[str, Any], list[str]]:
    """Returns the options that mean the same as a context, and what is wrong with it.

    Args:
        context: A context for the client's side of connections.

    Returns:
        The `ssl_*` options. And ends of sentences that begin with "ssl_context".
    """
    verifies = context.verify_mode != ssl.CERT_NONE
    found: dict[str, Any] = {
        "ssl_verify": verifies,
        "ssl_check_hostname": context.check_hostname,
        "ssl_enabled_protocols": _versions(context),
        "ssl_ciphers": _suites(context),
    }
    if context.keylog_filename:
        found["ssl_keylog_file"] = context.keylog_filename
    problems = _refused(context)
    if isinstance(context, RememberingContext):
        found |= context.thalweg_options
        if context.thalweg_has_more:
            problems.append(
                "has authorities that load_verify_locations() added after create_ssl_context(), and"
                " the client cannot read them. Pass them to create_ssl_context() instead"
            )
    elif verifies:
        authorities = context.get_ca_certs(binary_form=True)
        if context.cert_store_stats()["x509"] != len(authorities):
            problems.append(
                "contains certificates to trust that are not authorities, which cannot be read."
                " Set ssl_cafile instead"
            )
        elif authorities:
            found["ssl_cafile"] = "".join(map(ssl.DER_cert_to_PEM_cert, authorities))
        else:
            # OpenSSL reads a folder only when it needs one of its certificates. So this may be the
            # folder of the system, another one, or none.
            problems.append(
                "has no authorities that can be read. Set ssl_cafile, which may also be a folder."
                " To trust the system's authorities, give no ssl_context"
            )
    if not found["ssl_enabled_protocols"]:
        problems.append(
            "allows neither TLS 1.2 nor TLS 1.3. Set its maximum_version to"
            " ssl.TLSVersion.TLSv1_3, and remove ssl.OP_NO_TLSv1_3 from its options"
        )
    if not found["ssl_ciphers"]:
        problems.append(
            "allows no cipher suite that the client supports. Remove the call of set_ciphers()"
        )
    return found, problems


def _versions(context: ssl.SSLContext) -> list[str]:
    def allows(version: ssl.TLSVersion, switched_off: ssl.Options) -> bool:
        lowest, highest = context.minimum_version, context.maximum_version
        return (
            (lowest == ssl.TLSVersion.MINIMUM_SUPPORTED or lowest <= version)
            and (highest == ssl.TLSVersion.MAXIMUM_SUPPORTED or version <= highest)
            and not context.options & switched_off
        )

    return [name for name, (version, off) in _NO.items() if allows(version, off)]


def _suites(context: ssl.SSLContext) -> list[str]:
    from thalweg._config.tls_rules import SUITES

    known = {name: iana for iana, openssl in SUITES.items() for name in (iana, openssl)}
    return [known[each["name"]] for each in context.get_ciphers() if each["name"] in known]


def _refused(context: ssl.SSLContext) -> list[str]:
    problems = []
    crl = ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF | ssl.VerifyFlags.VERIFY_CRL_CHECK_CHAIN
    if context.verify_flags & crl or context.cert_store_stats()["crl"]:
        problems.append(
            "checks revocation lists, which cannot be read. Set ssl_crlfile and the other ssl_*"
            " options instead"
        )
    if context.sni_callback is not None:
        problems.append("has an sni_callback, which the client cannot call. Remove it")
    if context.post_handshake_auth:
        problems.append(
            "has post_handshake_auth, which Kafka's brokers do not use. Set it to False"
        )
    return problems
