"""A Kerberos realm on loopback: a KDC (Apache Kerby), keytabs and ticket caches.

    with Realm(folder) as realm:
        kafka = RealKafka("4.3", secure=True, host="localhost", **realm.broker())
        realm.keytab("alice")                              a file with the keys of alice
        realm.ticket("alice", cache, lifetime_s=3600)      what kinit does

The client's library finds the realm by the environment variables in `environment`. Principals of
brokers have the host "localhost". The KDC keeps its principals in memory, so it cannot be started
again.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from tests.support import java
from tests.support.kafka.cluster import RealKafka
from tests.support.paths import CACHE, made
from tests.support.ports import free_port

REALM = "THALWEG.TEST"
# MIT's library sees the world as the tests do: no DNS, and TCP only.
_CONF = """\
[libdefaults]
    default_realm = {realm}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
    forwardable = false
    ticket_lifetime = {lifetime_s}s
[realms]
    {realm} = {{
        kdc = 127.0.0.1:{port}
    }}
[domain_realm]
    localhost = {realm}
"""


class Realm:
    """A realm and its KDC.

    Args:
        folder: for its files.
        skew_s: the difference between clocks that the KDC accepts. It accepts none below 0.
    """

    def __init__(self, folder: Path, *, skew_s: int = 300) -> None:
        self.folder = folder
        self.skew_s = skew_s
        self.port = free_port()
        self.conf = folder / "krb5.conf"
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Realm:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.write_conf(self.conf)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def write_conf(self, path: Path, *, port: int | None = None, lifetime_s: int = 36_000) -> None:
        """Writes a krb5.conf for this realm.

        Args:
            path: of the file.
            port: that of the KDC. A port where nothing listens makes the KDC unreachable.
            lifetime_s: the lifetime of the tickets that a client requests.
        """
        text = _CONF.format(realm=REALM, port=port or self.port, lifetime_s=lifetime_s)
        path.write_text(text, encoding="utf-8")

    def _start(self) -> None:
        work = self.folder / "kdc"
        work.mkdir(exist_ok=True)
        libs = sorted(map(str, made(CACHE / "kerby" / "libs", "kerby").glob("*.jar")))
        classes = java.compiled("Kdc", jars=os.pathsep.join(libs))
        command = [
            java.tool("java"),
            "-Xmx128m",
            *java.SHORT_LIVED,
            "-cp",
            os.pathsep.join([*libs, str(classes)]),
            "Kdc",
            REALM,
            str(self.port),
            str(work),
            str(self.skew_s),
        ]
        with (self.folder / "kdc.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._expect("ready")

    def stop(self) -> None:
        """Ends the KDC."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(30)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    @contextmanager
    def silent(self) -> Iterator[None]:
        """The KDC accepts connections, but does not respond while the block runs."""
        process = self._running()
        os.kill(process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(process.pid, signal.SIGCONT)

    def keytab(self, *users: str) -> str:
        """Returns the path of a file with the keys of users, which it creates if necessary."""
        path = self.folder / f"{'+'.join(users).replace('/', '-')}.keytab"
        if not path.exists():
            for user in users:
                self._ask(f"keytab {user}@{REALM} {path}")
        return str(path)

    def ticket(self, user: str, cache: Path, *, lifetime_s: int = 3600) -> None:
        """Writes a ticket of a user into a cache file."""
        self._ask(f"ticket {user}@{REALM} {self.keytab(user)} {cache} {lifetime_s}")

    def environment(self, cache: Path | None = None) -> dict[str, str]:
        """Returns the variables for a client of this realm. Without a cache it has no tickets."""
        return {
            "KRB5_CONFIG": str(self.conf),
            "KRB5CCNAME": f"FILE:{cache or self.folder / 'no-tickets'}",
            "KRB5_CLIENT_KTNAME": f"FILE:{self.folder / 'no-keys'}",
        }

    def broker(self, version: str = "4.3", **configs: str) -> dict[str, Any]:
        """Returns arguments for a `RealKafka` whose SASL listeners offer only GSSAPI."""
        login = (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
            f' keyTab="{self.keytab("kafka/localhost")}" principal="kafka/localhost@{REALM}";'
        )
        listeners = "sasl_plaintext", "sasl_ssl"
        return {
            "host": "localhost",
            "secure": True,
            "configs": {
                "sasl.enabled.mechanisms": "GSSAPI",
                "sasl.kerberos.service.name": "kafka",
                **{f"listener.name.{each}.gssapi.sasl.jaas.config": login for each in listeners},
                **configs,
            },
            "jvm_options": [
                *java.quick_start(version),
                f"-Djava.security.krb5.conf={self.conf}",
            ],
        }

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise RuntimeError("the KDC does not run")
        return self._process

    def _ask(self, line: str) -> None:
        process = self._running()
        assert process.stdin is not None
        process.stdin.write(f"{line}\n")
        process.stdin.flush()
        self._expect("done")

    def _expect(self, word: str) -> None:
        process = self._running()
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == word:
                return
        log = (self.folder / "kdc.log").read_text(encoding="utf-8", errors="replace")
        raise RuntimeError(f"the KDC ended before it was {word}:\n{log[-4000:]}")


def use_cache(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """Makes the library use a ticket cache."""
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{cache}")


def keytab(realm: Realm, user: str = "alice") -> dict[str, str]:
    """Returns the option with a keytab of a user."""
    return {"sasl_kerberos_keytab": realm.keytab(user)}


def options_of(
    kafka: RealKafka, protocol: str = "SASL_PLAINTEXT", **changes: Any
) -> dict[str, Any]:
    """Returns the options of a client that logs in with GSSAPI."""
    found: dict[str, Any] = {
        "bootstrap_servers": kafka.bootstrap(protocol),
        "security_protocol": protocol,
        "sasl_mechanism": "GSSAPI",
        "bootstrap_timeout_ms": 60_000,
    }
    if protocol == "SASL_SSL":
        found["ssl_cafile"] = str(kafka.certificates / "ca.pem")
    return found | changes
