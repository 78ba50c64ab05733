"""Rules for the options of TLS: files, cipher suites, versions, and what the client verifies."""

import re
from typing import Any, Final

from thalweg._config.findings import Findings, InsecureConnectionWarning
from thalweg._config.formats.pem import unreadable
from thalweg._config.secret import revealed

__all__ = ["SUITES", "TlsRules"]

# The cipher suites by IANA's name, with OpenSSL's name. The native core has the same suites
# (crates/network/src/tls/suites.rs).
SUITES: Final = {
    "TLS_AES_256_GCM_SHA384": "TLS_AES_256_GCM_SHA384",
    "TLS_AES_128_GCM_SHA256": "TLS_AES_128_GCM_SHA256",
    "TLS_CHACHA20_POLY1305_SHA256": "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
_CURVES: Final = {
    "x25519": "X25519",
    "p-256": "P-256",
    "prime256v1": "P-256",
    "secp256r1": "P-256",
    "p-384": "P-384",
    "secp384r1": "P-384",
}
_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
# The words of OpenSSL's expressions that are not the name of a suite.
_EXPRESSION: Final = r"[!+-].*|.*[+@=].*|ALL|COMPLEMENTOF\w+|DEFAULT|HIGH|MEDIUM|LOW|[ak]?E?ECDHE?"


class TlsRules:
    """The rules, for a client whose security protocol has TLS."""

    def __init__(self, values: dict[str, Any], explicit: frozenset[str], found: Findings) -> None:
        """Takes the coerced values, which the rules change, and the names that the user gave."""
        self.values, self.explicit, self.found = values, explicit, found

    def check(self) -> None:
        """Checks the options and converts Kafka's spellings of them."""
        self._stores()
        self._verification()
        self._files()
        self._keylog()
        self._ciphers()
        self._curves()
        self._versions()

    def _verification(self) -> None:
        algorithm = self.values["ssl_endpoint_identification_algorithm"]
        if algorithm is not None and algorithm.lower() not in ("", "none", "https"):
            self.found.problem(
                "ssl_endpoint_identification_algorithm must be 'https', or '' or 'none' to accept"
                f" any host name, not {algorithm!r}"
            )
        elif algorithm is not None:
            checks = algorithm.lower() == "https"
            if (
                "ssl_check_hostname" in self.explicit
                and self.values["ssl_check_hostname"] != checks
            ):
                self.found.problem(
                    f"ssl_endpoint_identification_algorithm={algorithm!r} and ssl_check_hostname="
                    f"{self.values['ssl_check_hostname']} contradict each other: set only one of"
                    " them"
                )
            self.values["ssl_check_hostname"] = checks
        of_context = self.values["ssl_context"] is not None
        if not self.values["ssl_verify"]:
            what = "ssl_context has verify_mode=CERT_NONE" if of_context else "ssl_verify=False"
            self.found.warn(
                f"{what}: the client accepts every certificate, so anybody on the network"
                " can pretend to be a broker, and read and change everything. Set"
                f" {'verify_mode=CERT_REQUIRED' if of_context else 'ssl_cafile'} instead",
                InsecureConnectionWarning,
            )
            files = ("ssl_cafile", "ssl_crlfile")
            given = [name for name in files if self.values[name] is not None]
            self.found.without_effect(given, f"{what} accepts every certificate")
        elif not self.values["ssl_check_hostname"] and self.values["ssl_cafile"] in (None, "probe"):
            what = (
                "ssl_context has check_hostname=False" if of_context else "ssl_check_hostname=False"
            )
            self.found.warn(
                f"{what} with the system's authorities: anybody who has a"
                " certificate for any host can pretend to be a broker. Set ssl_cafile to the"
                " authority of your brokers",
                InsecureConnectionWarning,
            )

    def _files(self) -> None:
        if self.values["ssl_cafile"] == "probe":  # librdkafka's word for the system's
            self.values["ssl_cafile"] = None
        for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile"):
            value = self.values[name]
            if value is None:
                continue
            problem = unreadable(revealed(value), may_be_folder=name == "ssl_cafile")
            if problem is not None:
                self.found.problem(f"{name} {problem}")
        if self.values["ssl_keyfile"] is not None and self.values["ssl_certfile"] is None:
            self.found.problem("ssl_keyfile needs ssl_certfile")

    def _keylog(self) -> None:
        path = self.values["ssl_keylog_file"]
        if path is not None:
            self.found.warn(
                f"ssl_keylog_file: a person who can read {path} can decrypt everything that the"
                " client sends and receives, passwords included. Remove the option when you are"
                " done",
                InsecureConnectionWarning,
            )

    def _stores(self) -> None:
        for store, target in (("truststore", "ssl_cafile"), ("keystore", "ssl_certfile")):
            place, kind = self.values[f"ssl_{store}_location"], self.values[f"ssl_{store}_type"]
            if kind is not None and kind.upper() not in ("PEM", "PKCS12", "JKS"):
                self.found.problem(
                    f"ssl_{store}_type must be 'PEM', 'PKCS12' or 'JKS', not {kind!r}"
                )
            if place is None:
                continue
            if target in self.explicit and self.values[target] != place:
                self.found.problem(
                    f"ssl_{store}_location and {target} name different files: set only one of them"
                )
            else:
                self.values[target] = place

    def _ciphers(self) -> None:
        known = {name.lower(): iana for iana, other in SUITES.items() for name in (iana, other)}
        given = self._words("ssl_ciphers")
        expression = next((each for each in given if re.fullmatch(_EXPRESSION, each)), None)
        if expression is not None:
            self.found.problem(
                "ssl_ciphers must be a list of names of cipher suites, not an expression of OpenSSL"
                f" such as {expression!r}. The client supports {', '.join(SUITES)}"
            )
        else:
            self._chosen("ssl_ciphers", given, known)

    def _curves(self) -> None:
        self._chosen("ssl_curves_list", self._words("ssl_curves_list"), _CURVES)

    def _versions(self) -> None:
        protocol = self.values["ssl_protocol"]
        if protocol is not None and protocol not in ("TLS", *_VERSIONS):
            self.found.problem(
                f"ssl_protocol must be 'TLS', 'TLSv1.2' or 'TLSv1.3', not {protocol!r}. Older"
                " versions are not secure"
            )
        given = self._words("ssl_enabled_protocols")
        wrong = [each for each in given if each not in _VERSIONS]
        if wrong:
            self.found.problem(
                f"ssl_enabled_protocols must be 'TLSv1.2', 'TLSv1.3' or both, not {wrong[0]!r}."
                " Older versions are not secure"
            )
        elif not given and protocol == "TLSv1.2":
            given = [protocol]
        self.values["ssl_enabled_protocols"] = [] if wrong else given

    def _words(self, name: str) -> list[str]:
        """Returns the names in an option, which the user may separate by colons or commas."""
        given = self.values[name] or ()
        return [word for each in given for word in re.split(r"[:,\s]+", str(each)) if word]

    def _chosen(self, name: str, given: list[str], known: dict[str, str]) -> None:
        """Replaces an option by the names that the client has, in the order of the user."""
        chosen = [known[each.lower()] for each in given if each.lower() in known]
        lacks = [each for each in given if each.lower() not in known]
        self.values[name] = list(dict.fromkeys(chosen))
        has = ", ".join(dict.fromkeys(known.values()))
        if lacks and not chosen:
            self.found.problem(
                f"{name} contains no name that the client supports. Use one or more of {has}"
            )
        elif lacks:
            self.found.warn(
                f"{name}: the client ignores {', '.join(lacks)}, which it does not support. It"
                f" supports {has}"
            )
