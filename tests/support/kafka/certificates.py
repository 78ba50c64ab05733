"""Creates certificates for TLS listeners with keytool, once, in a folder.

    ca.pem                    the authority's certificate, which clients trust
    server.p12                key and chain of a broker on 127.0.0.1, ::1 and localhost
    wrong-host.p12            from the same authority, for another host name
    expired.p12               from the same authority, expired yesterday
    client.p12, client.pem, client.key    a client's key and certificate, for mutual TLS
    truststore.p12            the authority's certificate, for Java, and that of `OPENSSL_CLIENTS`
    other-ca.pem              an authority that signed none of these

All passwords are `PASSWORD`.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.support import java
from tests.support.paths import ROOT

PASSWORD = "changeit"
# The authority of the keys and stores that OpenSSL made, in every encryption.
OPENSSL_CLIENTS = ROOT / "crates/network/tests/stores/ca.pem"
_VERSION = 4  # increase it when these files change
_EC = "EC", "-groupname", "secp256r1"
# Java exports EC keys without the public key, which not every TLS library accepts.
_RSA = "RSA", "-keysize", "2048"
_ISSUE = "-ext", "san=ip:127.0.0.1,ip:::1,dns:localhost"


def make_certificates(parent: Path) -> Path:
    """Returns the folder in `parent` with all certificates, and creates it if needed."""
    folder = parent / f"certificates-{_VERSION}"
    if not folder.exists():
        parent.mkdir(parents=True, exist_ok=True)
        making = Path(tempfile.mkdtemp(prefix="certificates-", dir=parent))
        _fill(making)
        try:
            making.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(making)
    return folder


def issue(authorities: Path, folder: Path, name: str, key: tuple[str, ...], between: bool) -> Path:
    """Creates the store of a broker whose key is of another kind.

    Args:
        authorities: The folder of `make_certificates`.
        folder: Where to write the store.
        name: The name of the store.
        key: The kind of the key, as keytool's arguments after `-keyalg`.
        between: Whether an intermediate authority issues the certificate.
    """
    for file in ("ca.p12", "ca.pem"):
        shutil.copy(authorities / file, folder)
    signer = ["ca"]
    if between:
        options = ("-ext", "bc:c", "-ext", "ku:c=keyCertSign")
        _signed(folder, "between", "CN=between", options)
        shutil.move(folder / "between.crt", folder / "between.pem")
        signer = ["ca", "between"]
    _signed(folder, name, "CN=localhost", _ISSUE, key=key, signers=signer)
    return folder / f"{name}.p12"


def _fill(folder: Path) -> None:
    _authority(folder, "ca", "CN=thalweg test authority")
    _authority(folder, "other-ca", "CN=another authority")
    _signed(folder, "server", "CN=localhost", _ISSUE)
    _signed(folder, "wrong-host", "CN=elsewhere.test", ("-ext", "san=dns:elsewhere.test"))
    _signed(folder, "expired", "CN=localhost", (*_ISSUE, "-startdate", "-2d"), days=1)
    _signed(folder, "client", "CN=alice", ())
    _export_pem(folder, "client")
    for alias, file in (("ca", folder / "ca.pem"), ("openssl", OPENSSL_CLIENTS)):
        added = "-importcert", "-noprompt", "-alias", alias, "-file", str(file)
        _keytool(folder, "truststore", *added)


def _authority(folder: Path, name: str, subject: str) -> None:
    options = "-ext", "bc:c", "-ext", "ku:c=keyCertSign", "-validity", "3650"
    _generate(folder, name, subject, options)
    _keytool(
        folder, name, "-exportcert", "-rfc", "-alias", name, "-file", str(folder / f"{name}.pem")
    )


def _signed(
    folder: Path,
    name: str,
    subject: str,
    options: tuple[str, ...],
    days: int = 3650,
    key: tuple[str, ...] = _EC,
    signers: Sequence[str] = ("ca",),
) -> None:
    """Creates a key and a certificate from the last signer, and stores both with the chain."""
    _generate(folder, name, subject, ("-validity", "3650"), _RSA if name == "client" else key)
    request, result = folder / f"{name}.csr", folder / f"{name}.crt"
    _keytool(folder, name, "-certreq", "-alias", name, "-file", str(request))
    usage = "-ext", "eku=serverAuth,clientAuth"
    sign = "-gencert", "-rfc", "-alias", signers[-1], "-validity", str(days), *usage, *options
    files = "-infile", str(request), "-outfile", str(result)
    _keytool(folder, signers[-1], *sign, *files)
    for alias, file in (*((each, folder / f"{each}.pem") for each in signers), (name, result)):
        _keytool(folder, name, "-importcert", "-noprompt", "-alias", alias, "-file", str(file))
    for alias in signers[1:]:  # the entry of the key has the chain
        _keytool(folder, name, "-delete", "-alias", alias)
    request.unlink()


def _generate(
    folder: Path, name: str, subject: str, options: tuple[str, ...], key: tuple[str, ...] = _EC
) -> None:
    kind = "-keyalg", *key, "-alias", name, "-dname", subject
    _keytool(folder, name, "-genkeypair", *kind, *options)


def _export_pem(folder: Path, name: str) -> None:
    """Writes the certificate and the key of a store as PEM. keytool cannot export keys."""
    classes = java.compiled("ExportKey")
    key = java.run("ExportKey", str(folder / f"{name}.p12"), PASSWORD, name, classes=classes)
    text = base64.b64encode(bytes.fromhex(key.strip())).decode()
    lines = "\n".join(text[at : at + 64] for at in range(0, len(text), 64))
    (folder / f"{name}.key").write_text(
        f"-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----\n", encoding="ascii"
    )
    (folder / f"{name}.crt").rename(folder / f"{name}.pem")


def _keytool(folder: Path, store: str, *arguments: str) -> None:
    file = folder / f"{store}.p12"
    # The optimising compiler makes all commands slower but this one: finding primes is much work.
    finds_primes = "-genkeypair" in arguments and "RSA" in arguments
    quick = [] if finds_primes else ["-J-XX:TieredStopAtLevel=1"]
    command = [
        java.tool("keytool"),
        *quick,
        *arguments,
        "-keystore",
        str(file),
        "-storetype",
        "PKCS12",
    ]
    result = subprocess.run(
        [*command, "-storepass", PASSWORD], capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{result.stdout}\n{result.stderr}")
