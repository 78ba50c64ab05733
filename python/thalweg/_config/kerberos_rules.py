"""Rules for the options of GSSAPI, the mechanism of Kerberos."""

from collections.abc import Mapping
from typing import Any, Final

from thalweg._config.findings import Findings

__all__ = ["KERBEROS", "KerberosRules"]

# The options that have an effect only with this mechanism.
KERBEROS: Final = (
    "sasl_kerberos_domain_name",
    "sasl_kerberos_keytab",
    "sasl_kerberos_name",
    "sasl_kerberos_principal",
    "sasl_kerberos_service_name",
)
# Entries of Java's login line for Kerberos, and the options for them.
_ENTRIES: Final = {
    "keyTab": "sasl_kerberos_keytab",
    "principal": "sasl_kerberos_principal",
    "serviceName": "sasl_kerberos_service_name",
}
# Entries that say how Java logs in. The Kerberos library decides this here.
_WITHOUT_EFFECT: Final = (
    "clearPass",
    "debug",
    "doNotPrompt",
    "refreshKrb5Config",
    "renewTGT",
    "storeKey",
    "storePass",
    "tryFirstPass",
    "useFirstPass",
)


class KerberosRules:
    """The rules, for a client with GSSAPI."""

    def __init__(self, values: dict[str, Any], explicit: frozenset[str], found: Findings) -> None:
        """Takes the coerced values, which the rules change, and the names that the user gave."""
        self.values, self.explicit, self.found = values, explicit, found

    def login_line(self, entries: Mapping[str, str]) -> None:
        """Takes what Java's login line says."""
        for name, value in entries.items():
            if name in _ENTRIES:
                if _ENTRIES[name] not in self.explicit:
                    self.values[_ENTRIES[name]] = value
            elif name == "ticketCache":
                self.found.problem(
                    "sasl_jaas_config has ticketCache, which is not supported: set the environment"
                    " variable KRB5CCNAME"
                )
            elif name == "isInitiator" and value.lower() != "true":
                self.found.problem(
                    "sasl_jaas_config has isInitiator, but its value is not true. A client must"
                    " initiate the login: remove isInitiator, or set it to true"
                )
            elif name not in (*_WITHOUT_EFFECT, "isInitiator", "useKeyTab", "useTicketCache"):
                self.found.problem(
                    f"sasl_jaas_config has {name}, which the client does not support for GSSAPI."
                    " Remove it"
                )
        self._source(entries)

    def _source(self, entries: Mapping[str, str]) -> None:
        """Checks that the login line names a keytab or the ticket cache."""
        uses_keytab = entries.get("useKeyTab", "").lower() == "true"
        uses_cache = entries.get("useTicketCache", "").lower() == "true"
        if uses_keytab and self.values["sasl_kerberos_keytab"] is None:
            self.found.problem("sasl_jaas_config has useKeyTab, and must also have keyTab")
        elif "keyTab" in entries and not uses_keytab:
            self.found.problem("sasl_jaas_config has keyTab, and must also have useKeyTab=true")
        elif not uses_keytab and not uses_cache and self.values["sasl_kerberos_keytab"] is None:
            self.found.problem(
                "sasl_jaas_config must have useKeyTab=true or useTicketCache=true, because the"
                " client cannot ask for a password"
            )

    def check(self) -> None:
        """Checks the names. The core checks the Kerberos library and the keytab."""
        for name in KERBEROS:
            value = self.values[name]
            if value == "" or (value is not None and "\0" in value):
                self.found.problem(f"{name} must not be empty, and not contain a NUL character")
        if self.values["sasl_kerberos_service_name"] is None:
            self.found.problem("sasl_kerberos_service_name must be a str, not None")
        if self.values["sasl_kerberos_name"] is not None:
            parts = "sasl_kerberos_domain_name", "sasl_kerberos_service_name"
            given = [name for name in parts if name in self.explicit and self.values[name]]
            self.found.without_effect(given, "sasl_kerberos_name replaces it")
