"""Rules for the options of SASL: the mechanism, its credentials, and Java's login line (JAAS)."""

import re
from typing import Any, Final

from thalweg._config.aws_rules import AWS, OF_STS, AwsRules
from thalweg._config.findings import Findings, InsecureConnectionWarning
from thalweg._config.formats.jaas import Login, read_login
from thalweg._config.kerberos_rules import KERBEROS, KerberosRules
from thalweg._config.oidc.rules import OIDC, OidcRules
from thalweg._config.secret import Secret, revealed
from thalweg.auth.loopback import is_loopback

__all__ = ["SaslRules"]

_SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_MECHANISMS: Final = ("PLAIN", *_SCRAM, "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI")
# Those that log in without sasl_plain_username and sasl_plain_password.
_WITHOUT_PASSWORD: Final = ("OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI")
# Java's login modules, and the mechanisms that they log in with.
_LOGIN_MODULES: Final = {
    "PlainLoginModule": ("PLAIN",),
    "ScramLoginModule": _SCRAM,
    "OAuthBearerLoginModule": ("OAUTHBEARER",),
    "IAMLoginModule": ("AWS_MSK_IAM",),
    "Krb5LoginModule": ("GSSAPI",),
}
# Entries of Java's login line for tokens without a signature, and librdkafka's names for them.
_UNSECURED: Final = {
    "unsecuredLoginStringClaim_sub": "principal",
    "unsecuredLoginLifetimeSeconds": "lifeSeconds",
    "unsecuredLoginStringClaim_scope": "scope",
}
_UNSECURED_EXTENSION: Final = "unsecuredLoginExtension_"
_URL: Final = "sasl_oauthbearer_token_endpoint_url"
_OAUTH: Final = (
    "enable_sasl_oauthbearer_unsecure_jwt",
    "sasl_login_refresh_buffer_seconds",
    "sasl_login_refresh_min_period_seconds",
    "sasl_login_refresh_window_factor",
    "sasl_login_refresh_window_jitter",
    "sasl_oauth_token_provider",
    "sasl_oauthbearer_config",
)


def _listed(names: tuple[str, ...]) -> str:
    *others, last = map(repr, names)
    return f"{', '.join(others)} or {last}" if others else last


class SaslRules:
    """The rules, for a client whose security protocol has SASL."""

    def __init__(self, values: dict[str, Any], explicit: frozenset[str], found: Findings) -> None:
        """Takes the coerced values, which the rules change, and the names that the user gave."""
        self.values, self.explicit, self.found = values, explicit, found
        self._oidc = OidcRules(values, explicit, found)
        self._aws = AwsRules(values, explicit, found)
        self._kerberos = KerberosRules(values, explicit, found)

    def check(self) -> None:
        """Checks that SASL has what it needs."""
        self._jaas()
        mechanism = self.values["sasl_mechanism"]
        if mechanism is None:
            self.found.problem(
                f"security_protocol={self.values['security_protocol']!r} needs sasl_mechanism"
            )
        elif mechanism.upper() not in _MECHANISMS:
            self.found.problem(f"sasl_mechanism must be {_listed(_MECHANISMS)}, not {mechanism!r}")
        else:
            mechanism = self.values["sasl_mechanism"] = mechanism.upper()
            if mechanism == "OAUTHBEARER":
                self._token_provider()
            elif mechanism == "AWS_MSK_IAM":
                self._aws.check()
            elif mechanism == "GSSAPI":
                self._kerberos.check()
            else:
                self._credentials(mechanism)
            self._of_other_mechanisms(mechanism)
            self._readable(mechanism)

    def _credentials(self, mechanism: str) -> None:
        """Checks the user and the password for PLAIN and SCRAM."""
        for name in ("sasl_plain_username", "sasl_plain_password"):
            value = revealed(self.values[name])
            if value is None and name in self.found.named:
                continue  # the problem of sasl_jaas_config says enough
            if value is None:
                self.found.problem(f"sasl_mechanism={mechanism!r} needs {name}")
            elif (
                not callable(value)
                and "\0" in value
                and (mechanism == "PLAIN" or name == "sasl_plain_username")
            ):
                self.found.problem(f"{name} must not contain a NUL character")

    def _token_provider(self) -> None:
        """Checks that tokens for OAUTHBEARER come from exactly one place."""
        provider = self.values["sasl_oauth_token_provider"]
        unsecured = self.values["enable_sasl_oauthbearer_unsecure_jwt"]
        oidc = self._oidc.is_wanted
        self._oidc.handler()
        if unsecured and (provider is not None or oidc):
            other = "sasl_oauth_token_provider" if provider is not None else _URL
            self.found.problem(
                f"{other} and enable_sasl_oauthbearer_unsecure_jwt both supply tokens: set only one"
                " of them"
            )
        elif provider is not None:
            self._unused_oidc("sasl_oauth_token_provider supplies the tokens")
        elif unsecured:
            self._unused_oidc("the client creates tokens without a signature")
            self._unsecured_tokens()
        elif oidc:
            self._oidc.check()
        elif "sasl_oauth_token_provider" not in self.found.named:
            self.found.problem(
                "sasl_mechanism='OAUTHBEARER' needs sasl_oauth_token_provider, or"
                f" {_URL} of an identity provider"
            )

    def _unused_oidc(self, reason: str) -> None:
        given = sorted(self.explicit & set(OIDC) - self.found.named)
        unused = [name for name in given if self.values[name] not in (None, "auto", "default")]
        self.found.without_effect(unused, reason)

    def _unsecured_tokens(self) -> None:
        """Checks what tokens without a signature are to contain."""
        from thalweg.auth.unsecured import problem

        config = self.values["sasl_oauthbearer_config"]
        wrong = "must be a str" if callable(config) else problem(revealed(config) or "")
        if wrong is not None:
            self.found.problem(f"sasl_oauthbearer_config {wrong}")
        self.found.warn(
            "enable_sasl_oauthbearer_unsecure_jwt: the tokens have no signature, so anybody can"
            " make them. Use them only for tests",
            InsecureConnectionWarning,
        )

    def _of_other_mechanisms(self, mechanism: str) -> None:
        """Warns of options that belong to another mechanism."""
        names: list[str] = []
        if mechanism not in _SCRAM:
            names += ["sasl_scram_iterations_max", "sasl_scram_tokenauth"]
        if mechanism in _WITHOUT_PASSWORD:
            names += ["sasl_plain_password", "sasl_plain_username"]
        if mechanism != "GSSAPI":
            names += KERBEROS
        if mechanism != "OAUTHBEARER":
            names += (*_OAUTH, *OIDC)
        if mechanism != "AWS_MSK_IAM":
            is_sts = self.values["sasl_oauthbearer_metadata_authentication_type"] == "aws_iam"
            names += (each for each in AWS if not (is_sts and each in OF_STS))
        given = sorted(name for name in names if name in self.explicit - self.found.named)
        self.found.without_effect(
            [name for name in given if self.values[name] is not None],
            f"sasl_mechanism is {mechanism!r}",
        )

    def _readable(self, mechanism: str) -> None:
        """Warns if the network can read credentials that log in again."""
        readable = mechanism in ("PLAIN", "OAUTHBEARER")
        if not readable or self.values["security_protocol"] != "SASL_PLAINTEXT":
            return
        servers = [each for each in self.values["bootstrap_servers"] if not _is_local(each)]
        if servers:
            what = "the password" if mechanism == "PLAIN" else "the token"
            self.found.warn(
                f"security_protocol='SASL_PLAINTEXT' sends {what} unencrypted to"
                f" {', '.join(servers)}, so anybody on the network can log in with it. Set"
                " security_protocol to SASL_SSL",
                InsecureConnectionWarning,
            )

    def _jaas(self) -> None:
        line = self.values["sasl_jaas_config"]
        if line is None:
            return
        if callable(line):
            self.found.problem(
                "sasl_jaas_config must be a str. To supply the password when it is needed, set"
                " sasl_plain_password to a function"
            )
            return
        try:
            login = read_login(line.reveal())
        except ValueError as wrong:
            self.found.problem(f"sasl_jaas_config {wrong}")
            self.found.named.update(("sasl_plain_username", "sasl_plain_password"))
            return
        entries = login.options
        self._login_module(login)
        if login.module == "OAuthBearerLoginModule":
            if self._oidc.is_wanted:
                entries = self._oidc.login_line(entries)
            self._unsecured(entries)
            return
        if login.module == "IAMLoginModule":
            self._aws.login_line(entries)
            return
        if login.module == "Krb5LoginModule":
            self._kerberos.login_line(entries)
            return
        for entry, option in (
            ("username", "sasl_plain_username"),
            ("password", "sasl_plain_password"),
        ):
            if entry not in entries:
                continue
            if option not in self.explicit:
                value = entries[entry]
                self.values[option] = Secret(value) if entry == "password" else value
            elif revealed(self.values[option]) != entries[entry]:
                # Half of each would be a login that the application did not mean.
                self.found.problem(
                    f"sasl_jaas_config and {option} contain different values for {entry}: set only"
                    " one of them"
                )
        if "sasl_scram_tokenauth" not in self.explicit:
            self.values["sasl_scram_tokenauth"] = entries.get("tokenauth", "").lower() == "true"
        if login.module in _LOGIN_MODULES and not {"username", "password"} <= entries.keys():
            self.found.problem(
                'sasl_jaas_config must be \'<LoginModule> required username="..." password="...";\''
            )

    def _login_module(self, login: Login) -> None:
        """Checks that Java's login module and the mechanism belong together."""
        given = self.values["sasl_mechanism"]
        mechanisms = _LOGIN_MODULES.get(login.module)
        if mechanisms is None:
            self.found.problem(
                "sasl_jaas_config has a login module that is not supported. Use one of"
                f" {', '.join(_LOGIN_MODULES)}"
            )
        elif given is not None and given.upper() not in mechanisms:
            self.found.problem(
                f"sasl_jaas_config has {login.module}, which needs sasl_mechanism"
                f" {_listed(mechanisms)}, not {given!r}"
            )

    def _unsecured(self, entries: dict[str, str]) -> None:
        """Takes what Java's login line says of tokens without a signature, if it says anything."""
        config = {}
        for name, value in entries.items():
            extension = name.removeprefix(_UNSECURED_EXTENSION)
            if name in _UNSECURED:
                config[_UNSECURED[name]] = value
            elif extension != name:
                config[f"extension_{extension}"] = value
            else:
                advice = "" if self._oidc.is_wanted else f". clientId and clientSecret need {_URL}"
                self.found.problem(
                    f"sasl_jaas_config has {name}, which is not supported for OAUTHBEARER{advice}"
                )
            if re.search(r"\s", value):
                self.found.problem(f"sasl_jaas_config has white space in the value of {name}")
        if config and self.values["sasl_oauth_token_provider"] is None:
            self.values["enable_sasl_oauthbearer_unsecure_jwt"] = True
            if "sasl_oauthbearer_config" not in self.explicit:
                pairs = (f"{key}={value}" for key, value in config.items())
                self.values["sasl_oauthbearer_config"] = Secret(" ".join(pairs))


def _is_local(server: str) -> bool:
    return is_loopback(server.rpartition(":")[0].removeprefix("[").removesuffix("]"))
