"""Rules for the options of OAUTHBEARER with an identity provider (OpenID Connect)."""

import os
import re
from collections.abc import Mapping
from typing import Any, Final

from thalweg._config.aws_rules import has_botocore
from thalweg._config.findings import Findings, InsecureConnectionWarning
from thalweg._config.formats.pem import unreadable
from thalweg._config.oidc.metadata import azure_query, sts_settings
from thalweg._config.secret import Secret, revealed
from thalweg.auth.loopback import is_loopback

__all__ = ["OIDC", "OidcRules", "extensions_of", "has_assertion", "is_jwt_bearer"]

_URL: Final = "sasl_oauthbearer_token_endpoint_url"
_ID: Final = "sasl_oauthbearer_client_credentials_client_id"
_SECRET: Final = "sasl_oauthbearer_client_credentials_client_secret"  # the name of an option
_HANDLER: Final = "sasl_login_callback_handler_class"
_METHOD: Final = "sasl_oauthbearer_method"
_METADATA: Final = "sasl_oauthbearer_metadata_authentication_type"
_RETRIEVER: Final = "sasl_oauthbearer_jwt_retriever_class"
_CONFIG: Final = "sasl_oauthbearer_config"
_GRANT: Final = "sasl_oauthbearer_grant_type"
_ASSERTION: Final = "sasl_oauthbearer_assertion_"
_KEY: Final = f"{_ASSERTION}private_key_file"
_FILE: Final = f"{_ASSERTION}file"
_TEMPLATE: Final = f"{_ASSERTION}template_file"
# Kafka's classes that get tokens, and whether their token endpoint is a file.
_RETRIEVERS: Final = {
    "DefaultJwtRetriever": None,
    "ClientCredentialsJwtRetriever": False,
    "JwtBearerJwtRetriever": False,
    "FileJwtRetriever": True,
}
# The options that have an effect only with an identity provider.
OIDC: Final = (
    "https_ca_location",
    "https_ca_pem",
    _HANDLER,
    "sasl_login_connect_timeout_ms",
    "sasl_login_read_timeout_ms",
    "sasl_login_retry_backoff_max_ms",
    "sasl_login_retry_backoff_ms",
    _ID,
    _SECRET,
    f"{_ASSERTION}algorithm",
    f"{_ASSERTION}claim_aud",
    f"{_ASSERTION}claim_exp_seconds",
    f"{_ASSERTION}claim_iss",
    f"{_ASSERTION}claim_jti_include",
    f"{_ASSERTION}claim_nbf_seconds",
    f"{_ASSERTION}claim_sub",
    _FILE,
    _KEY,
    f"{_ASSERTION}private_key_passphrase",
    _TEMPLATE,
    _GRANT,
    _METADATA,
    _RETRIEVER,
    "sasl_oauthbearer_extensions",
    "sasl_oauthbearer_header_urlencode",
    _METHOD,
    "sasl_oauthbearer_scope",
    "sasl_oauthbearer_sub_claim_name",
    _URL,
)
# Entries of Java's login line, and the options for them.
_ENTRIES: Final = {
    "clientId": _ID,
    "clientSecret": _SECRET,
    "scope": "sasl_oauthbearer_scope",
    "ssl.truststore.location": "https_ca_location",
    "ssl.truststore.certificates": "https_ca_pem",
}
_EXTENSION: Final = "extension_"


def extensions_of(text: str | None) -> dict[str, str]:
    """Returns the extensions of 'name=value,name=value'."""
    parts = (part.strip().partition("=") for part in (text or "").split(",") if part.strip())
    return {name.strip(): value.strip() for name, _, value in parts}


def is_jwt_bearer(values: Mapping[str, Any]) -> bool:
    """Whether an assertion is the grant itself."""
    return str(values[_GRANT]).endswith("jwt-bearer")


def has_assertion(values: Mapping[str, Any]) -> bool:
    """Whether the client logs in with an assertion, as Kafka decides it (KIP-1258)."""
    names = (_FILE, f"{_ASSERTION}claim_iss")
    return is_jwt_bearer(values) or any(values[name] is not None for name in names)


class OidcRules:
    """The rules, for a client with OAUTHBEARER."""

    def __init__(self, values: dict[str, Any], explicit: frozenset[str], found: Findings) -> None:
        """Takes the coerced values, which the rules change, and the names that the user gave."""
        self.values, self.explicit, self.found = values, explicit, found

    @property
    def is_wanted(self) -> bool:
        """Whether the options say that an identity provider supplies the tokens."""
        if self.values[_METADATA] != "none":
            return True
        if self.values[_METHOD] != "auto":
            return bool(self.values[_METHOD] == "oidc")
        handler = self.values[_HANDLER] or ""
        return self.values[_URL] is not None or _is_javas(handler) or _URL in self.found.named

    def login_line(self, entries: dict[str, str]) -> dict[str, str]:
        """Takes what Java's login line says of an identity provider.

        Returns:
            The entries that belong to something else.
        """
        others: dict[str, str] = {}
        extensions: dict[str, str] = {}
        for name, value in entries.items():
            option = _ENTRIES.get(name)
            if name.startswith(_EXTENSION):
                extensions[name.removeprefix(_EXTENSION)] = value
            elif option is None:
                others[name] = value
            elif option not in self.explicit:
                is_secret = option in (_SECRET, "https_ca_pem")
                self.values[option] = Secret(value) if is_secret else value
        if extensions and "sasl_oauthbearer_extensions" not in self.explicit:
            pairs = ",".join(f"{name}={value}" for name, value in extensions.items())
            self.values["sasl_oauthbearer_extensions"] = pairs
        return others

    def handler(self) -> None:
        """Refuses Java's other classes that get tokens."""
        name = self.values[_HANDLER]
        if name is not None and not _is_javas(name):
            self.found.problem(
                f"{_HANDLER} names a Java class that this client does not have. Give its equivalent"
                " in Python as sasl_oauth_token_provider"
            )

    def check(self) -> None:
        """Checks that the token endpoint and the credentials for it are complete."""
        if _URL in self.found.named:
            return
        if self.values[_METADATA] == "aws_iam":
            self._aws()
        elif self.values[_METADATA] == "azure_imds":
            self._azure()
        else:
            self._endpoint()
        for name in (_ID, "sasl_oauthbearer_scope"):
            if not (self.values[name] or "").isprintable():
                self.found.problem(f"{name} has a character that cannot be printed")
        self._extensions()
        self._authorities()

    def _aws(self) -> None:
        try:
            endpoint = sts_settings(revealed(self.values[_CONFIG])).endpoint
        except ValueError as wrong:
            self.found.problem(f"{_CONFIG} {wrong}")
        else:
            self._sts_endpoint(endpoint or "")
        if not has_botocore():
            self.found.problem(f"{_METADATA}='aws_iam' needs botocore: install thalweg[aws]")

    def _sts_endpoint(self, url: str) -> None:
        from urllib.parse import urlsplit

        try:
            parts = urlsplit(url)
        except ValueError as wrong:
            self.found.problem(f"the sts_endpoint in {_CONFIG} is not a URL: {wrong}")
            return
        if parts.scheme == "http" and not is_loopback(parts.hostname or "", link_local=True):
            self.found.warn(
                f"the sts_endpoint in {_CONFIG} is not https, so anybody on the network can read"
                " the tokens",
                InsecureConnectionWarning,
            )

    def _azure(self) -> None:
        try:
            query = azure_query(revealed(self.values[_CONFIG]))
        except ValueError as wrong:
            self.found.problem(f"{_CONFIG} {wrong}")
            return
        if self.values[_URL] is not None:
            self._url(revealed(self.values[_URL]))
        elif query is None:
            self.found.problem(
                f"{_METADATA}='azure_imds' needs {_CONFIG}='query=api-version=...&resource=...'"
            )

    def _endpoint(self) -> None:
        if self.values[_URL] is None:
            self.found.problem(f"tokens from an identity provider need {_URL}")
        else:
            self._url(revealed(self.values[_URL]))
        self._retriever()
        if self.is_file:
            pass  # needs no credentials
        elif has_assertion(self.values):
            self._assertion()
        else:
            self._secret()

    @property
    def is_file(self) -> bool:
        """Whether the tokens come from a file."""
        return str(revealed(self.values[_URL]) or "").startswith("file:")

    def _retriever(self) -> None:
        """Maps the names of Kafka's classes that get tokens."""
        given = self.values[_RETRIEVER]
        if given is None:
            return
        name = given.rpartition(".")[2]
        if name not in _RETRIEVERS:
            self.found.problem(
                f"{_RETRIEVER} names a Java class that this client does not have. Give its"
                " equivalent in Python as sasl_oauth_token_provider"
            )
        elif _RETRIEVERS[name] not in (None, self.is_file):
            kind = "file:/absolute/path" if _RETRIEVERS[name] else "https://host[:port]/path"
            self.found.problem(f"{_RETRIEVER} {name} needs {_URL}={kind}")
        elif name == "JwtBearerJwtRetriever" and _GRANT not in self.explicit:
            self.values[_GRANT] = "jwt-bearer"

    def _secret(self) -> None:
        for name in (_ID, _SECRET):
            if self.values[name] in (None, "", Secret("")) and name not in self.found.named:
                self.found.problem(
                    f"{_URL} needs {name}, or an assertion ({_FILE}, {_ASSERTION}claim_iss)"
                )

    def _assertion(self) -> None:
        """Checks that there is an assertion, or what it takes to make one."""
        if self.values[_SECRET] is not None:
            self.found.warn(
                f"{_SECRET}: without effect, because the client logs in with an assertion"
            )
        for name in (_FILE, _TEMPLATE):
            place = self.values[name]
            if place is not None and not _is_readable(place):
                self.found.problem(f"{name} cannot be read from {place}")
        key = self.values[_KEY]
        if self.values[_FILE] is not None:
            others = [_KEY, _TEMPLATE]
            given = [name for name in others if self.values[name] is not None]
            self.found.without_effect(given, f"{_FILE} has the complete assertion")
        elif key is None and _KEY not in self.found.named:
            self.found.problem(f"an assertion needs {_KEY} or {_FILE}")
        elif key is not None and (problem := unreadable(revealed(key))) is not None:
            self.found.problem(f"{_KEY} {problem}")

    def _url(self, url: str) -> None:
        """Checks the URL, without showing it: it may contain a password by mistake."""
        from urllib.parse import urlsplit

        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            self.found.problem(f"{_URL} is not a valid URL")
            return
        if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path[:1] == "/":
            return  # the file may not be there yet
        if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
            self.found.problem(f"{_URL} must be https://host[:port]/path or file:/absolute/path")
        elif "@" in parts.netloc:
            self.found.problem(
                f"{_URL} contains a user name or a password. Set {_ID} and {_SECRET} instead"
            )
        elif "#" in url or not re.fullmatch(r"[!-~]+", url):
            self.found.problem(
                f"{_URL} contains a fragment, white space or a character that is not ASCII."
                " Percent-encode it, and write an international host name in Punycode"
            )
        elif parts.scheme == "http" and not is_loopback(parts.hostname, link_local=True):
            self.found.warn(
                f"{_URL} is not https, so anybody on the network can read the client's secret and"
                " the tokens",
                InsecureConnectionWarning,
            )

    def _extensions(self) -> None:
        text = self.values["sasl_oauthbearer_extensions"]
        for name, value in extensions_of(text).items():
            if not re.fullmatch(r"[A-Za-z]+", name) or name == "auth":
                self.found.problem(
                    "sasl_oauthbearer_extensions must be 'name=value,name=value'. A name has only"
                    " letters, and is not 'auth'"
                )
                return
            if not re.fullmatch(r"[ -~\t\r\n]+", value):
                self.found.problem(
                    f"sasl_oauthbearer_extensions has no value for {name!r}, or one with a"
                    " character that is not allowed"
                )

    def _authorities(self) -> None:
        location, pem = self.values["https_ca_location"], self.values["https_ca_pem"]
        if location is not None and pem is not None:
            self.found.problem("https_ca_location and https_ca_pem: set only one of them")
        elif location not in (None, "probe"):
            if not _is_readable(location):
                self.found.problem(f"https_ca_location cannot be read from {location}")
        elif pem is not None and "-----BEGIN CERTIFICATE-----" not in revealed(pem):
            self.found.problem(
                "https_ca_pem must be the text of certificates. To name a file, set"
                " https_ca_location"
            )


def _is_readable(path: str) -> bool:
    try:
        return os.access(path, os.R_OK)
    except ValueError:  # a path with a null character
        return False


def _is_javas(handler: str) -> bool:
    """Whether this is Kafka's own class that gets tokens from an identity provider."""
    return handler.rpartition(".")[2] == "OAuthBearerLoginCallbackHandler"
